"""Constant folding: functions without effects on constants are simply called."""

from __future__ import annotations

import builtins
import cmath
import enum
import math
import operator
import re
import string
from collections.abc import Callable, Sequence
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any

import torch

from jitpkg.tracer import containers, numpy_scalars, reasons
from jitpkg.tracer.values import Array, Call, Constant, Known, Object, Slice, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Kwargs

ATOMS: tuple[type, ...] = (
    *(int, float, complex, str, bytes, bool, type(None), range),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
"""Classes whose instances are constants."""

_CHANGING = frozenset(
    """
    setitem delitem is_ is_not length_hint iadd iand iconcat ifloordiv ilshift imatmul imod imul ior
    ipow irshift isub itruediv ixor call
    """.split()
)

PURE: frozenset[object] = frozenset(
    {
        *(
            getattr(builtins, name)
            for name in "abs ascii bin chr divmod format hash hex oct ord pow repr round".split()
        ),
        *(
            f
            for f in vars(math).values()
            if isinstance(f, BuiltinFunctionType) and f not in (math.prod, math.fsum)
        ),
        *(
            f
            for f in vars(operator).values()
            if isinstance(f, BuiltinFunctionType) and f.__name__ not in _CHANGING
        ),
        *(f for f in vars(cmath).values() if isinstance(f, BuiltinFunctionType)),
        *(re.compile, re.escape, re.findall, re.fullmatch, re.match, re.search),
        *(re.split, re.sub, re.subn),
        int.from_bytes,
        str.maketrans,
        string.capwords,
        float.fromhex,
        bytes.fromhex,
        torch.finfo,
        torch.iinfo,
        torch.device,
    }
    - {hash}
)
"""Functions that depend on nothing but their arguments and change nothing."""

_METHOD_OWNERS: tuple[type, ...] = (
    *(int, float, complex, str, bytes, bool, range, type(None), slice, torch.Size),
    *(re.Pattern, re.Match),
)
_LARGEST = 1 << 20
"""Longer results than this are left to Python."""


def is_pure(function: object) -> bool:
    """Whether a function may be called on constants while tracing."""
    if isinstance(
        function, MethodDescriptorType | WrapperDescriptorType | ClassMethodDescriptorType
    ):
        return function.__objclass__ in _METHOD_OWNERS or numpy_scalars.is_pure(function)
    try:
        return function in PURE or numpy_scalars.is_pure(function)
    except TypeError:
        return False


def foldable(vm: VM, values: Args, kwargs: Kwargs) -> bool:
    """Whether all arguments are constants, or containers of constants."""
    return all(is_constant(vm, value) for value in (*values, *kwargs.values()))


def is_constant(vm: VM, value: Value, depth: int = 0) -> bool:
    """Whether a value is a constant, or a builtin container of constants."""
    value = vm.look(value)
    match value:
        case Constant():
            return depth == 0 or bool(value.value == value.value)  # the identity of NaN counts
        case Tuple(cls=cls):
            if cls not in (tuple, torch.Size):
                return False
        case Known(enum.Enum() as member):
            return isinstance(member, int | float | str)
        case Known(re.Pattern() | re.Match()):
            return True
        case Known(type() as owner):
            return owner in _METHOD_OWNERS or numpy_scalars.is_scalar(owner)
        case Object(cls=cls):
            if cls not in (list, dict):
                return False
        case Array():
            return known_array(vm, value) is not None
        case Slice():
            pass
        case _:
            return False
    return depth < _DEPTH and all(is_constant(vm, v, depth + 1) for v in _parts(vm, value))


_DEPTH = 20
"""How deep containers may nest; one can be in itself."""


def _parts(vm: VM, value: Value) -> Sequence[Value]:
    match value:
        case Slice(start, stop, step):
            return start, stop, step
        case Object(cls=cls) if cls is dict:
            return [part for pair in containers.dict_items(vm, value) for part in pair]
        case _:
            return vm.unpack(value)


def memory_of(vm: VM, array: Array) -> Value:
    """What an array stands for now: a tensor, or an array of constants."""
    return vm.heap.read(array, "content") or array.memory


def known_array(vm: VM, array: Array) -> Any:
    """The array of constants that an array is; None where its memory is a tensor's."""
    whole = memory_of(vm, array.of or array)
    own = memory_of(vm, array)
    return own.value if isinstance(own, Constant) and isinstance(whole, Constant) else None


def python_value(vm: VM, value: Value) -> Any:
    """The object that a constant is."""
    value = vm.look(value)
    match value:
        case Constant():
            return value.value
        case Array():
            return known_array(vm, value)
        case Tuple(items, cls):
            return cls(python_value(vm, item) for item in items)
        case Slice(start, stop, step):
            return slice(*(python_value(vm, part) for part in (start, stop, step)))
        case Known():
            return value.obj
        case Object(cls=cls) if cls is list:
            return [python_value(vm, item) for item in vm.unpack(value)]
        case Object(cls=cls) if cls is dict:
            pairs = containers.dict_items(vm, value)
            return {python_value(vm, k): python_value(vm, v) for k, v in pairs}
        case _:
            raise TypeError(f"{value} is no constant")


def fold(vm: VM, function: Callable[..., Any], values: Args, kwargs: Kwargs | None = None) -> Value:
    """Call a pure function on constants; what it raises is raised in the traced program."""
    args = [python_value(vm, value) for value in values]
    if isinstance(function, ClassMethodDescriptorType):  # the class is the first argument
        function = function.__get__(None, args.pop(0))
    named = {name: python_value(vm, value) for name, value in (kwargs or {}).items()}
    if _is_large(function, args) or numpy_scalars.is_large(function, args, named):
        vm.stop(reasons.TOO_LONG, "a very large constant")
    if function is re.compile and re.DEBUG in (*args, *named.values()):
        vm.stop(reasons.FOREIGN_CALL, "re.compile() that prints")
    if _has_array((args, named)) and not numpy_scalars.takes_arrays(function):
        vm.stop(reasons.FOREIGN_CALL, "a NumPy array is given to a function of Python's")
    try:
        with numpy_scalars.computing(function, (*args, *named.values())):
            result = function(*args, **named)
    except FloatingPointError:
        vm.stop(reasons.FOREIGN_CALL, "a NumPy number that is computed with a warning")
    except Exception as error:
        if any(isinstance(vm.look(value), Array) for value in (*values, *(kwargs or {}).values())):
            vm.stop(reasons.RAISES, f"{type(error).__name__} of NumPy")  # perhaps by a write
        vm.raise_new(type(error), *error.args)
    if isinstance(result, numpy_scalars.array_class()):
        return _array(vm, result, Call(function, values, kwargs or {}))
    return wrapped(vm, result)


def _has_array(value: Any) -> bool:
    """Whether there is a NumPy array among nested values."""
    if isinstance(value, tuple | list):
        return any(map(_has_array, value))
    if isinstance(value, dict):
        return any(map(_has_array, value.values()))
    return isinstance(value, numpy_scalars.array_class())


def _array(vm: VM, result: Any, call: Call) -> Value:
    """An array that was made of constants, or that shows the memory of one of them."""
    for value in map(vm.look, (*call.args, *call.kwargs.values())):
        real = known_array(vm, value) if isinstance(value, Array) else None
        if real is None or not numpy_scalars.share(result, real):
            continue
        assert isinstance(value, Array)
        if result is real:
            return value
        if result.dtype is real.dtype and not numpy_scalars.why_no_constant(result):
            return Array(Constant(result), of=value.of or value, view=lasting(vm, call))
        vm.stop(reasons.FOREIGN_CALL, "a view of an array, as another type")
    why = numpy_scalars.why_no_constant(result)
    if why or not result.flags.c_contiguous or not result.flags.writeable:
        vm.stop(reasons.FOREIGN_CALL, f"an array {why or 'that is not in order'}")
    owns = result.flags.owndata
    result.flags.writeable = False
    return Array(Constant(result), owns=owns)


def lasting(vm: VM, call: Call) -> Call:
    """A call whose arguments do not change: of lists it is given tuples."""

    def as_it_is(value: Value) -> Value:
        value = vm.peek(value)
        return Tuple(tuple(vm.unpack(value))) if isinstance(value, Object) else value

    args = tuple(map(as_it_is, call.args))
    return Call(call.function, args, {k: as_it_is(v) for k, v in call.kwargs.items()})


def _is_large(function: object, args: list[Any]) -> bool:
    numbers = [a for a in args if isinstance(a, int)]
    if function in (operator.mul, operator.imul):
        return any(hasattr(a, "__len__") and len(a) * max([*numbers, 1]) > _LARGEST for a in args)
    shifts = (operator.lshift, operator.ilshift, operator.pow, operator.ipow, pow)
    if function in shifts and len(numbers) >= 2:
        return numbers[1] * max(1, abs(numbers[0]).bit_length()) > _LARGEST
    return False


def wrapped(vm: VM, result: Any) -> Value:
    """The value of a result of folding."""
    if isinstance(result, enum.Enum):
        return vm.trusted(result)
    if numpy_scalars.is_scalar(type(result)) or numpy_scalars.is_dtype(result):
        return Constant(result)
    if isinstance(result, type):
        return vm.trusted(result)
    if isinstance(result, ATOMS) or result is Ellipsis or result is NotImplemented:
        return Constant(result)
    if isinstance(result, tuple):
        return Tuple(tuple(wrapped(vm, item) for item in result), type(result))
    if isinstance(result, list):
        return vm.new_list([wrapped(vm, item) for item in result])
    if isinstance(result, dict):
        return vm.new_dict([(wrapped(vm, k), wrapped(vm, v)) for k, v in result.items()])
    if isinstance(result, torch.finfo | torch.iinfo | re.Pattern | re.Match):
        return vm.trusted(result)
    vm.stop(reasons.UNSUPPORTED, f"a constant of class {type(result).__qualname__}")
