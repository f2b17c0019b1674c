"""What operators, subscripts and functions of NumPy's arrays are in the graph.

There is an op for what gives NumPy's result in every respect: dtype, layout, each bit. Where NumPy
would warn, of an overflow, or of a result that is none, the result is not finite: the trace goes on
as if all were, the entry looks, and the original code runs where some are not (`guesses`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.facts.tensor import contiguous_stride
from jitpkg.guards.kinds import Answers
from jitpkg.guards.sources import Held
from jitpkg.tracer import (
    constants,
    guesses,
    indexing,
    numpy_arrays,
    numpy_scalars,
    reasons,
)
from jitpkg.tracer.values import Array, Call, Constant, Slice, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM, Args

_BOOL, _SIGNED, _UNSIGNED, _FLOAT = "bool", "signed", "unsigned", "float"
_INTS = frozenset({_SIGNED, _UNSIGNED})
_ALL = frozenset({_BOOL, *_INTS, _FLOAT})


def _kind(dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return _BOOL
    if dtype.is_floating_point:
        return _FLOAT
    return _SIGNED if dtype.is_signed else _UNSIGNED


@dataclass(frozen=True, slots=True)
class _Op:
    """An op that does what NumPy does, for arrays of one dtype."""

    function: Callable[..., Any]
    kinds: frozenset[str]
    """Of dtypes."""
    may_warn: bool = False
    """Whether NumPy warns of floats that it gives, which are not finite then."""
    takes_number_first: bool = True


def _ops(kinds: frozenset[str], names: str, *, may_warn: bool = False) -> dict[str, _Op]:
    return {name: _Op(getattr(operator, name), kinds, may_warn) for name in names.split()}


OPERATORS: Mapping[str, _Op] = MappingProxyType(
    {
        **_ops(_INTS | {_FLOAT}, "add sub mul iadd isub imul", may_warn=True),
        **_ops(_INTS | {_BOOL}, "and_ or_ xor iand ior ixor invert"),
        **_ops(_ALL, "lt le gt ge eq ne"),
        **_ops(frozenset({_SIGNED, _FLOAT}), "neg"),
        # A number by a tensor is the number times the tensor's reciprocal.
        "truediv": _Op(operator.truediv, frozenset({_FLOAT}), True, takes_number_first=False),
        "itruediv": _Op(operator.itruediv, frozenset({_FLOAT}), True),
        "abs": _Op(torch.abs, frozenset({_SIGNED, _FLOAT})),
        "sqrt": _Op(torch.sqrt, frozenset({_FLOAT}), True),
        "maximum": _Op(torch.maximum, _INTS, takes_number_first=False),
        "minimum": _Op(torch.minimum, _INTS, takes_number_first=False),
    }
)
"""By the name of the operator; NumPy's functions by their own."""


SINGLE = frozenset("neg invert abs sqrt".split())
"""Those of one operand."""


def operator_of(vm: VM, function: Callable[..., Any], operands: Args) -> Value:
    """An operator, with an array among its operands."""
    return apply(vm, function.__name__, operands)


def apply(vm: VM, name: str, operands: Args) -> Value:
    """An operator or a function of arrays, element by element."""
    row = OPERATORS.get(name)
    operands = tuple(map(vm.look, operands))
    arrays = [each for each in operands if isinstance(each, Array)]
    if row is None or not arrays:
        vm.stop(reasons.FOREIGN_CALL, f"{name} of an array")
    dtype = numpy_arrays.torch_dtype(vm, arrays[0])
    if torch.is_autocast_enabled("cpu"):
        vm.stop(reasons.FOREIGN_CALL, f"{name} of an array, under autocast")
    if _kind(dtype) not in row.kinds:
        vm.stop(reasons.FOREIGN_CALL, f"{name} of an array of {dtype}")
    if name in _IN_PLACE:
        return _in_place(vm, row, dtype, operands)
    given = [_operand(vm, each, dtype) for each in operands]
    if not row.takes_number_first and not all(isinstance(each, Tensor) for each in given[:1]):
        vm.stop(reasons.FOREIGN_CALL, f"{name} of a number and an array")
    if name in ("maximum", "minimum") and not all(isinstance(each, Tensor) for each in given):
        vm.stop(reasons.FOREIGN_CALL, f"{name} of an array and a number")
    if row.may_warn and _kind(dtype) == _FLOAT:
        _check_state(vm)
    made = vm.op(row.function, tuple(given))
    assert isinstance(made, Tensor)
    if row.may_warn and _kind(dtype) == _FLOAT:
        _guess_finite(vm, made, name)
    return new(vm, made)


_IN_PLACE = frozenset("iadd isub imul iand ior ixor itruediv".split())


def new(vm: VM, made: Value) -> Array:
    """An array with memory of its own, of what the graph has computed."""
    assert isinstance(made, Tensor)
    if not vm.facts(made).size:
        vm.stop(reasons.DATA_VALUE, "a NumPy number that is computed")
    return Array(made, owns=True)


def _operand(vm: VM, value: Value, dtype: torch.dtype) -> Value:
    """What the op takes for an operand, which is of the same dtype, or a number that fits it."""
    if isinstance(value, Array):
        if numpy_arrays.torch_dtype(vm, value) is not dtype:
            vm.stop(reasons.FOREIGN_CALL, "arrays of several dtypes")
        return in_order(vm, value)
    number: Any = value.value if isinstance(value, Constant) else None
    if numpy_scalars.is_scalar(type(number)):
        if numpy_scalars.torch_dtype(number.dtype) is not dtype:
            vm.stop(reasons.FOREIGN_CALL, "an array and a number of another dtype")
        number = number.item()
    elif type(number) not in (int, float):
        vm.stop(reasons.FOREIGN_CALL, f"an array and a {vm.class_of(value).__qualname__}")
    if not fits(dtype, number):
        vm.stop(reasons.FOREIGN_CALL, f"an array of {dtype} and {number!r}")
    return Constant(number)


def fits(dtype: torch.dtype, number: Any) -> bool:
    """Whether a number is one of a dtype, but for its rounding, in which all agree."""
    match _kind(dtype), number:
        case "bool", _:
            return type(number) is bool
        case (("signed" | "unsigned"), int()):
            info = torch.iinfo(dtype)
            return type(number) is int and info.min <= number <= info.max
        case "float", int() | float():
            if type(number) is bool or (type(number) is int and abs(number) > 1 << 53):
                return False
            if dtype is torch.float16 and math.isfinite(number):
                return torch.tensor(number, dtype=dtype).item() == number
            return not math.isfinite(number) or abs(number) <= torch.finfo(dtype).max
        case _:
            return False


def in_order(vm: VM, array: Array) -> Tensor:
    """A tensor of the elements of an array that lie in order: results of others are laid out by
    rules of NumPy's own."""
    found = numpy_arrays.read(vm, array)
    facts = vm.facts(found)
    if facts.stride != contiguous_stride(facts.size):
        vm.stop(reasons.FOREIGN_CALL, "an array that does not lie in order")
    return found


def _in_place(vm: VM, row: _Op, dtype: torch.dtype, operands: Args) -> Value:
    array, other = operands
    if not isinstance(array, Array):
        vm.stop(reasons.FOREIGN_CALL, f"{row.function.__name__} of an array")
    given = _operand(vm, other, dtype)
    may_warn = row.may_warn and _kind(dtype) == _FLOAT
    if may_warn:
        _check_state(vm)
    target = numpy_arrays.own(vm, array)
    if isinstance(given, Tensor):
        given = _apart(vm, given, target)
    vm.op(row.function, (target, given))
    if may_warn:
        _guess_finite(vm, target, row.function.__name__)
    return array


def _apart(vm: VM, read: Tensor, written: Tensor) -> Value:
    """What is read while the memory is written to: as it was before, like NumPy reads it."""
    roots = [vm.roots.get(each, each) for each in (read, written)]
    return vm.op("clone", (read,)) if roots[0] is roots[1] else read


def _guess_finite(vm: VM, made: Tensor, name: str) -> None:
    """Go on as if all elements were finite: then NumPy has not warned."""
    found = vm.op("all", (vm.op(torch.isfinite, (made,)),))
    assert isinstance(found, Tensor)
    if not guesses.expected(vm, found):
        vm.stop(reasons.FOREIGN_CALL, f"{name} of an array, of which NumPy may warn")


def _check_state(vm: VM) -> None:
    """Of results that are too small NumPy does not warn, unless it was told to."""
    module = numpy_scalars.module()
    if not ignores_underflow(module):
        vm.stop(reasons.FOREIGN_CALL, "arithmetic of arrays where NumPy tells of underflow")
    what = "what NumPy warns of"
    vm.guard(Answers(Held(module), ignores_underflow, (), answer=True, what=what))


def ignores_underflow(numpy: Any) -> bool:
    """Whether NumPy says nothing of results that are too small."""
    found: bool = numpy.geterr()["under"] == "ignore"
    return found


# Subscripts


def item(vm: VM, array: Array, key: Value) -> Value:
    """`array[key]`: a view."""
    if constants.foldable(vm, (array, key), {}):
        return constants.fold(vm, operator.getitem, (array, key))
    items, own = _basic(vm, key), numpy_arrays.own(vm, array)
    made = indexing.get(vm, own, key)
    assert isinstance(made, Tensor)
    if _is_of_element(vm, own, items):
        vm.stop(reasons.DATA_VALUE, "an element of an array")
    return numpy_arrays.view(vm, made, Call(operator.getitem, (array, key)))


def set_item(vm: VM, array: Array, key: Value, value: Value) -> None:
    """`array[key] = value`"""
    items = _basic(vm, key)
    dtype, value = numpy_arrays.torch_dtype(vm, array), vm.look(value)
    target = numpy_arrays.own(vm, array)
    given: Value
    if isinstance(value, Array) and numpy_arrays.torch_dtype(vm, value) is dtype:
        given = numpy_arrays.read(vm, value)
        if _is_of_element(vm, target, items):
            vm.stop(reasons.FOREIGN_CALL, "an element of an array, set to an array")
    elif isinstance(value, Constant) and fits(dtype, plain := _plain(value.value)):
        given = Constant(plain)
    else:
        vm.stop(reasons.FOREIGN_CALL, "an assignment to a part of an array of another dtype")
    if isinstance(given, Tensor):
        given = _apart(vm, given, target)
    indexing.set_(vm, target, key, given)


def _plain(number: Any) -> Any:
    return number.item() if numpy_scalars.is_scalar(type(number)) else number


def _basic(vm: VM, key: Value) -> Args:
    """The parts of a key that gives a view by slices and numbers; any other one ends the trace."""
    key = vm.peek(key)
    items = key.items if isinstance(key, Tuple) and key.cls is tuple else (key,)
    items = tuple(map(vm.peek, items))
    for each in items:
        plain = getattr(each, "value", None)
        if not isinstance(each, Slice) and type(plain) is not int and plain is not ...:
            vm.stop(reasons.FOREIGN_CALL, "an array by other keys than slices and numbers")
    return items


def _is_of_element(vm: VM, tensor: Tensor, items: Args) -> bool:
    """Whether the parts of a key give an element: there is a number for each dim."""
    is_of_numbers = not any(
        isinstance(each, Slice) or getattr(each, "value", None) is ... for each in items
    )
    return is_of_numbers and len(items) == len(vm.facts(tensor).size)


# Functions and methods


def converted(vm: VM, array: Array, dtype: torch.dtype) -> Array:
    """`array.astype(dtype)`"""
    own_dtype = numpy_arrays.torch_dtype(vm, array)
    may_warn = (own_dtype, dtype) in _NARROWER
    if own_dtype is not dtype and not may_warn and not _converts(own_dtype, dtype):
        vm.stop(reasons.FOREIGN_CALL, f"an array of {own_dtype} as {dtype}")
    elements = in_order(vm, array)
    if may_warn:
        _check_state(vm)
    made = vm.op("to", (elements,), {"dtype": Constant(dtype), "copy": Constant(True)})
    assert isinstance(made, Tensor)
    if may_warn:
        _guess_finite(vm, made, "astype")
    return Array(made, owns=True)


_NARROWER = frozenset({(torch.float64, torch.float32), (torch.float32, torch.float16)})
"""Conversions that NumPy warns of where a number is too large."""


def _converts(of: torch.dtype, to: torch.dtype) -> bool:
    """Whether all numbers of a dtype become others without a warning."""
    if to is torch.bool or of is torch.bool:
        return True
    if to is torch.float16:
        return of in (torch.int8, torch.uint8)
    if of.is_floating_point:
        return to.is_floating_point and to.itemsize > of.itemsize
    return True


def joined(vm: VM, function: Callable[..., Any], parts: Sequence[Value], axis: Value) -> Array:
    """`np.concatenate`, `np.stack`"""
    arrays = [each for each in map(vm.look, parts) if isinstance(each, Array)]
    if len(arrays) != len(parts) or not arrays:
        vm.stop(reasons.FOREIGN_CALL, f"{function.__name__} of other things than arrays")
    dtypes = {numpy_arrays.torch_dtype(vm, each) for each in arrays}
    if len(dtypes) > 1 or torch.is_autocast_enabled("cpu"):
        vm.stop(reasons.FOREIGN_CALL, "arrays of several dtypes")
    tensors = vm.new_list([in_order(vm, each) for each in arrays])
    return new(vm, vm.op(function, (tensors, axis)))
