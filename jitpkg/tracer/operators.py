"""Unary and binary operators, comparisons, truth and identity."""

from __future__ import annotations

import collections
import math
import operator
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MappingProxyType, WrapperDescriptorType
from typing import Any

import torch

from jitpkg.facts import sizes
from jitpkg.guards.kinds import ABSENT
from jitpkg.tracer import (
    array_ops,
    classes,
    constant_tensors,
    constants,
    formatting,
    guesses,
    numbers,
    numpy_scalars,
    readings,
    reasons,
    subclasses,
)
from jitpkg.tracer.values import (
    FALSE,
    TRUE,
    Array,
    Constant,
    Function,
    Kept,
    Known,
    Lazy,
    Marker,
    Method,
    Number,
    Object,
    Opaque,
    Reading,
    Slice,
    String,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM

BINARY: Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any], str]] = (
    MappingProxyType(
        {
            "+": (operator.add, operator.iadd, "add"),
            "-": (operator.sub, operator.isub, "sub"),
            "*": (operator.mul, operator.imul, "mul"),
            "/": (operator.truediv, operator.itruediv, "truediv"),
            "//": (operator.floordiv, operator.ifloordiv, "floordiv"),
            "%": (operator.mod, operator.imod, "mod"),
            "**": (operator.pow, operator.ipow, "pow"),
            "@": (operator.matmul, operator.imatmul, "matmul"),
            "&": (operator.and_, operator.iand, "and"),
            "|": (operator.or_, operator.ior, "or"),
            "^": (operator.xor, operator.ixor, "xor"),
            "<<": (operator.lshift, operator.ilshift, "lshift"),
            ">>": (operator.rshift, operator.irshift, "rshift"),
        }
    )
)
"""Operator -> its function, its in-place function, the stem of its special methods."""

UNARY: Mapping[str, tuple[Callable[[Any], Any], str]] = MappingProxyType(
    {
        "-": (operator.neg, "__neg__"),
        "+": (operator.pos, "__pos__"),
        "~": (operator.invert, "__invert__"),
    }
)

COMPARE: Mapping[str, tuple[Callable[[Any, Any], Any], str, str]] = MappingProxyType(
    {
        "<": (operator.lt, "__lt__", "__gt__"),
        "<=": (operator.le, "__le__", "__ge__"),
        "==": (operator.eq, "__eq__", "__eq__"),
        "!=": (operator.ne, "__ne__", "__ne__"),
        ">": (operator.gt, "__gt__", "__lt__"),
        ">=": (operator.ge, "__ge__", "__le__"),
    }
)
"""Operator -> its function, its special method, the method of the other operand."""


def unary(vm: VM, name: str, value: Value) -> Value:
    """`-value` and its like."""
    if isinstance(value, Reading):
        return readings.unary(vm, name, value)
    value = vm.peek(value)
    if isinstance(value, Number):
        found = numbers.unary(vm, name, value)
        if found is not None:
            return found
        value = vm.look(value)
    function, special = UNARY[name]
    if isinstance(value, Array):
        return _of_array(vm, function, value)
    if isinstance(value, Tensor):
        _check_operator(vm, value, special.strip("_"))
        return vm.op(function, (value,))
    if isinstance(value, Constant):
        return constants.fold(vm, function, (value,))
    method = vm.method_of_class(value, special)
    if method is None:
        vm.raise_new(
            TypeError, f"bad operand type for unary {name}: '{classes.shown(vm.class_of(value))}'"
        )
    return vm.call(method, ())


def binary(vm: VM, name: str, a: Value, b: Value, *, in_place: bool = False) -> Value:
    """`a + b` and its like, or `a += b`."""
    texts = _texts(vm, name, a, b)
    if texts is not None:
        return texts
    function, in_place_function, stem = BINARY[name]
    if isinstance(a, Reading) or isinstance(b, Reading):
        found = readings.binary(vm, name, a, b)
        if found is not None:
            return found
        a, b = vm.glance(a), vm.glance(b)
        writes = in_place and isinstance(a, Tensor)
        return _tensor_binary(vm, in_place_function if writes else function, stem, a, b)
    a, b = vm.peek(a), vm.peek(b)
    if isinstance(a, Array) or isinstance(b, Array):
        return _of_array(vm, in_place_function if in_place else function, a, b)
    if isinstance(a, Number) or isinstance(b, Number):
        number = numbers.binary(vm, name, a, b)
        if number is not None:
            return number
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            _check_foreign(vm, a, b)
            a, b = vm.look(a), vm.look(b)
    if isinstance(a, Tensor) or (isinstance(b, Tensor) and not in_place):
        return _tensor_binary(vm, in_place_function if in_place else function, stem, a, b)
    if isinstance(b, Tensor):
        result = None if isinstance(a, Constant | Number | Tuple) else _in_place(vm, stem, a, b)
        return binary(vm, name, a, b) if result is None else result
    if isinstance(a, Constant) and isinstance(b, Constant):
        return constants.fold(vm, in_place_function if in_place else function, (a, b))
    _check_foreign(vm, a, b)
    if in_place:
        result = _in_place(vm, stem, a, b)
        if result is not None:
            return result
    shown = f"{name}=" if in_place else "** or pow()" if name == "**" else name
    return _by_methods(vm, shown, stem, a, b)


def _texts(vm: VM, name: str, a: Value, b: Value) -> String | None:
    """A text of numbers that vary: texts that are added, or `"epoch %d" % n`."""
    if name == "+" and (isinstance(a, String) or isinstance(b, String)):
        return formatting.of_numbers(vm, operator.add, (a, b), "{} + {}")
    if name != "%" or not isinstance(a, Constant | Lazy) or vm.class_of(a) is not str:
        return None
    given = vm.peek(b)
    items = given.items if isinstance(given, Tuple) and given.cls is tuple else (given,)
    return formatting.of_numbers(vm, _percent, (a, *items))


def _percent(text: str, *given: object) -> str:
    return text % given


def _check_foreign(vm: VM, *operands: Value) -> None:
    """An operator of NumPy's numbers makes arrays of what it does not know."""
    for value in operands:
        if isinstance(value, Constant) and numpy_scalars.is_scalar(type(value.value)):
            vm.stop(reasons.FOREIGN_CALL, f"an operator of {type(value.value).__name__}")


def _of_array(vm: VM, function: Callable[..., Any], *operands: Value) -> Value:
    """An operator of a NumPy array: NumPy's own, where all is known."""
    if numpy_scalars.takes_arrays(function) and constants.foldable(vm, operands, {}):
        return constants.fold(vm, function, operands)
    return array_ops.operator_of(vm, function, operands)


def _in_place(vm: VM, stem: str, a: Value, b: Value) -> Value | None:
    """By `a`'s in-place method; a sequence's comes behind the number method of the other."""
    special = f"__i{stem}__"
    tries = [(a, special, b)]
    if _is_of_sequence(vm, a, special) and not _is_of_sequence(vm, b, f"__r{stem}__"):
        tries.insert(0, (b, f"__r{stem}__", a))
    return _first_result(vm, tries)


def _tensor_binary(
    vm: VM, function: Callable[[Any, Any], Any], stem: str, a: Value, b: Value
) -> Value:
    other = b if isinstance(a, Tensor) else a
    own = f"__r{stem}__" if other is b else f"__{stem}__"
    is_number = isinstance(other, Constant | Number | Reading)
    if is_number or isinstance(other, Tensor) or _is_plain_sequence(vm, other, own):
        _check_operator(vm, a if isinstance(a, Tensor) else b, stem)
        return vm.op(function, (a, b))
    if isinstance(other, Known) and isinstance(other.obj, int | float):  # an enum's member
        base = int if isinstance(other.obj, int) else float
        if other is b or classes.inherits(vm, type(other.obj), base, own):
            return vm.op(function, (a, b))
    if subclasses.has_torchs(vm, other, own):
        return vm.op(function, (a, b))
    # An object with operators of its own: the tensor's method does not know it and says so.
    if isinstance(other, Object | Tuple):
        result = _first_result(vm, [(other, own, a if other is b else b)])
        if result is not None:
            return result
    if isinstance(other, Opaque):
        vm.refuse(other)
    vm.stop(reasons.RAISES, f"a tensor and a {vm.class_of(other).__qualname__}")


def _check_operator(vm: VM, tensor: Value, stem: str) -> None:
    """Operators of tensors are torch's own, unless somebody has replaced them."""
    cls = vm.class_of(tensor)
    for name in (f"__{stem}__", f"__r{stem}__", f"__i{stem}__"):
        found = classes.lookup(vm, cls, name)
        if isinstance(found, FunctionType) and not found.__module__.startswith("torch."):
            vm.stop(reasons.UNSUPPORTED, f"torch.Tensor.{name} has been replaced")


def _is_plain_sequence(vm: VM, value: Value, own: str) -> bool:
    """Whether a value is a list, or a tuple of a class that has no such operator of its own."""
    if isinstance(value, Tuple):
        return value.cls is torch.Size or classes.inherits(vm, value.cls, tuple, own)
    return isinstance(value, Object) and value.cls is list


def _by_methods(vm: VM, name: str, stem: str, a: Value, b: Value) -> Value:
    """The slot protocol: a subclass's reflected method goes first."""
    class_a, class_b = vm.class_of(a), vm.class_of(b)
    forward, reflected = f"__{stem}__", f"__r{stem}__"
    order = [(a, forward, b), (b, reflected, a)]
    if class_a is class_b:
        order.pop()
    elif classes.derives(vm, class_b, class_a) and _overrides(vm, class_b, class_a, reflected):
        order.reverse()
    order.sort(key=lambda attempt: _is_of_sequence(vm, attempt[0], attempt[1]))
    result = _first_result(vm, order)
    if result is not None:
        return result
    vm.raise_new(
        TypeError,
        f"unsupported operand type(s) for {name}:"
        f" '{classes.shown(class_a)}' and '{classes.shown(class_b)}'",
    )


def _first_result(vm: VM, attempts: list[tuple[Value, str, Value]]) -> Value | None:
    """What the first of these methods gives that does not say NotImplemented."""
    for receiver, special, argument in attempts:
        method = vm.method_of_class(receiver, special)
        if method is None or _is_foreign_to_number(vm, receiver, argument):
            continue
        result = vm.call(method, (argument,))
        if not _is_not_implemented(vm, result):
            return result
    return None


_OF_SEQUENCES = frozenset(
    vars(cls)[name]
    for cls in (list, tuple, str, bytes, collections.deque)
    for name in ("__add__", "__iadd__", "__mul__", "__rmul__", "__imul__")
    if name in vars(cls)
)
"""Methods that concatenate and repeat: the interpreter asks them last."""


def _is_of_sequence(vm: VM, value: Value, special: str) -> bool:
    found = classes.lookup(vm, vm.class_of(value), special)
    return isinstance(found, WrapperDescriptorType) and found in _OF_SEQUENCES


def _is_foreign_to_number(vm: VM, receiver: Value, argument: Value) -> bool:
    """Whether a number's own method says NotImplemented to another class's object."""
    is_number = isinstance(receiver, Constant) and isinstance(receiver.value, int | float | complex)
    return is_number and _is_foreign_to_constant(vm, receiver, argument)


def _overrides(vm: VM, derived: type, base: type, name: str) -> bool:
    return classes.lookup(vm, derived, name) is not classes.lookup(vm, base, name)


def _is_not_implemented(vm: VM, value: Value) -> bool:
    value = vm.look(value)
    return isinstance(value, Constant) and value.value is NotImplemented


def compare(vm: VM, name: str, a: Value, b: Value) -> Value:
    """`a < b` and its like."""
    function, special, reflected = COMPARE[name]
    if isinstance(a, Reading) or isinstance(b, Reading):
        number = readings.compare(vm, name, function, a, b)
        if number is not None:
            return number
        a, b = readings.beside_tensor(vm, a, b)
        return _tensor_compare(vm, name, function, a, b)
    a, b = vm.peek(a), vm.peek(b)
    if isinstance(a, Array) or isinstance(b, Array):
        return _of_array(vm, function, a, b)
    if isinstance(a, Number) or isinstance(b, Number):
        number = numbers.compare(vm, name, a, b)
        if number is not None:
            return number
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            _check_foreign(vm, a, b)
            a, b = vm.look(a), vm.look(b)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return _tensor_compare(vm, name, function, a, b)
    if isinstance(a, Constant) and isinstance(b, Constant):
        return constants.fold(vm, function, (a, b))
    if any(isinstance(x, Constant) and numpy_scalars.is_dtype(x.value) for x in (a, b)):
        return _of_array(vm, function, a, b)
    _check_foreign(vm, a, b)
    if _is_function(a) and _is_function(b) and name in ("==", "!="):
        return constants.fold(vm, function, (a, b))
    by_structure = _compare_structures(vm, name, a, b)
    if by_structure is not None:
        return by_structure
    class_a, class_b = vm.class_of(a), vm.class_of(b)
    order = [(a, special, b), (b, reflected, a)]
    if class_a is not class_b and classes.derives(vm, class_b, class_a):
        order.reverse()
    for receiver, method_name, argument in order:
        result = _rich_compare(vm, receiver, method_name, argument)
        if result is not None and not _is_not_implemented(vm, result):
            return result
    if name in ("==", "!="):
        return Constant(vm.same(a, b) is (name == "=="))
    vm.raise_new(
        TypeError,
        f"'{name}' not supported between instances of"
        f" '{classes.shown(class_a)}' and '{classes.shown(class_b)}'",
    )


def _is_function(value: Value) -> bool:
    return isinstance(value, Known) and isinstance(value.obj, _FUNCTIONS)


_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)
"""Classes of functions that compare without code of the program's: equal ones may be two objects,
such as methods in C that are bound to something."""


def _rich_compare(vm: VM, receiver: Value, name: str, argument: Value) -> Value | None:
    """Call a comparison method, or None where it is object's own (identity, for == and !=)."""
    names = (name, "__eq__") if name == "__ne__" else (name,)  # object's != asks ==
    if classes.inherits(vm, vm.class_of(receiver), object, *names):
        return None
    if _is_foreign_to_constant(vm, receiver, argument):
        return None
    method = vm.method_of_class(receiver, name)
    return None if method is None else vm.call(method, (argument,))


def _is_foreign_to_constant(vm: VM, receiver: Value, argument: Value) -> bool:
    """Whether a constant's own method says NotImplemented to an object of another class."""
    if not isinstance(receiver, Constant) or isinstance(argument, Constant):
        return False
    own = type(receiver.value)
    numbers = (int, float, complex)
    others = numbers if issubclass(own, numbers) else own
    return not issubclass(vm.class_of(argument), others)


def _tensor_compare(
    vm: VM, name: str, function: Callable[[Any, Any], Any], a: Value, b: Value
) -> Value:
    other = b if isinstance(a, Tensor) else a
    _check_operator(vm, a if isinstance(a, Tensor) else b, COMPARE[name][1].strip("_"))
    if isinstance(other, Tensor | Reading) or subclasses.has_torchs(vm, other, *COMPARE[name][1:]):
        return vm.op(function, (a, b))
    if isinstance(other, Constant | Number) and (
        isinstance(other.value, bool | int | float | complex)
        or numpy_scalars.is_scalar(type(other.value))
    ):
        return vm.op(function, (a, b))
    if name in ("==", "!=") and not _may_know_tensors(vm, other):
        return Constant(name == "!=")  # the tensor's method says NotImplemented: identity decides
    vm.stop(
        reasons.UNSUPPORTED, f"a comparison of a tensor with a {vm.class_of(other).__qualname__}"
    )


def _may_know_tensors(vm: VM, value: Value) -> bool:
    """Whether what is no tensor may have a comparison of its own with one."""
    if isinstance(value, Known):  # an enum's member, or a class whose metaclass has one
        return not classes.inherits(vm, vm.class_of(value), object, "__eq__", "__ne__")
    return isinstance(value, Object | Opaque | Tuple)


def _compare_structures(vm: VM, name: str, a: Value, b: Value) -> Value | None:
    """Equality of tuples, lists, dicts, sets and slices, item by item."""
    if name not in ("==", "!="):
        return None
    pair = _items(vm, a), _items(vm, b)
    if pair[0] is not None and pair[1] is not None and _same_kind(a, b):
        equal = equal_items(vm, pair[0], pair[1], of_tuples=isinstance(a, Tuple))
        return TRUE if equal == (name == "==") else FALSE
    if isinstance(a, Slice) and isinstance(b, Slice):
        parts = zip((a.start, a.stop, a.step), (b.start, b.stop, b.step), strict=True)
        return Constant(all(vm.equal(x, y) for x, y in parts) is (name == "=="))
    return None


def equal_items(vm: VM, left: Sequence[Value], right: Sequence[Value], *, of_tuples: bool) -> bool:
    """Whether sequences are equal. Tuples of different lengths are compared as far as they go:
    an item may raise, or be heard; lists and deques are not."""
    if len(left) != len(right):
        plain = all(isinstance(vm.peek(item), Constant | Number) for item in (*left, *right))
        if plain or not of_tuples:
            return False
    return all(map(vm.equal, left, right)) and len(left) == len(right)


def _items(vm: VM, value: Value) -> tuple[Value, ...] | None:
    if isinstance(value, Tuple) and classes.inherits(vm, value.cls, tuple, "__eq__"):
        return value.items
    if isinstance(value, Object) and value.cls is list:
        return tuple(vm.unpack(value))
    return None


def _same_kind(a: Value, b: Value) -> bool:
    return isinstance(a, Tuple) is isinstance(b, Tuple)


def equal(vm: VM, a: Value, b: Value) -> bool:
    """`a is b or a == b`"""
    a, b = vm.peek(a), vm.peek(b)
    if a is b or vm.truth(compare(vm, "==", a, b)):
        return True
    return _may_be_nan(vm, a) and _may_be_nan(vm, b) and vm.same(a, b)


def _may_be_nan(vm: VM, value: Value) -> bool:
    """Whether a value is a number that is not equal to itself; a varying one goes on being so."""
    if isinstance(value, Number):
        return isinstance(value.value, float) and not vm.truth(compare(vm, "==", value, value))
    return isinstance(value, Constant) and bool(value.value != value.value)


def truth(vm: VM, value: Value) -> bool:
    """`bool(value)`"""
    value = vm.glance(value)
    match value:
        case Number():
            return numbers.truth(vm, value)
        case Reading():
            return _guessed(vm, value)
        case Constant():
            return bool(value.value)
        case Tuple(_, cls) if classes.lookup(vm, cls, "__bool__") is ABSENT and classes.inherits(
            vm, cls, tuple, "__len__"
        ):
            return bool(value.items)
        case Tensor():
            vm.stop_under_a_mode("the truth of a tensor")
            if vm.facts(value).size and not _has_one_element(vm, value):
                vm.stop(reasons.RAISES, "the truth of a tensor with more than one element")
            if (known := constant_tensors.number(vm, value)) is not None:
                return bool(known.value)
            return _guessed(vm, value)
        case Function() | Method():
            return True
        case Object() if (inner := subclasses.unheard(vm, value)) is not None:
            return truth(vm, inner)
        case Array():
            return vm.truth(_of_array(vm, operator.truth, value))
        case Opaque():
            vm.refuse(value)
        case Kept():
            vm.stop(reasons.OPAQUE, "a value below the hook's stack")
    method = vm.method_of_class(value, "__bool__")
    if method is not None:
        result = vm.look(vm.call(method, ()))
        if isinstance(result, Constant) and isinstance(result.value, bool):
            return result.value
        vm.stop(reasons.RAISES, "__bool__ returned something else than a bool")
    if vm.method_of_class(value, "__len__") is not None:
        length = vm.look(vm.call_object(len, value))
        return bool(isinstance(length, Constant) and length.value)
    return True


def _guessed(vm: VM, value: Tensor | Reading) -> bool:
    found = guesses.truth(vm, value)
    if found is None:
        vm.stop(reasons.DATA_BRANCH)
    return found


def _has_one_element(vm: VM, tensor: Tensor) -> bool:
    count = math.prod(map(sizes.of, vm.facts(tensor).size), start=sizes.of(1))
    return numbers.require(vm, sizes.compare("==", count, 1))


_SINGLETON = (bool, type(None), type(Ellipsis), type(NotImplemented), torch.dtype, torch.layout)


def same(vm: VM, a: Value, b: Value) -> bool:
    """`a is b`"""
    if isinstance(a, Reading) or isinstance(b, Reading):
        return readings.same(vm, a, b)
    a, b = vm.peek(a), vm.peek(b)
    if isinstance(a, Number) or isinstance(b, Number):
        other = b if isinstance(a, Number) else a
        if not isinstance(other, Constant | Number) or isinstance(
            getattr(other, "value", None), _SINGLETON
        ):
            return False
    a, b = vm.look(a), vm.look(b)
    if _is_python(a) != _is_python(b) and isinstance(b if _is_python(a) else a, _NO_FUNCTION):
        return False  # whichever function it is
    a, b = vm.identify(a), vm.identify(b)
    if isinstance(a, Marker | Kept) or isinstance(b, Marker | Kept):
        vm.stop(reasons.IDENTITY, "the identity of a value below the hook's stack")
    if isinstance(a, Constant) and isinstance(b, Constant):
        if isinstance(a.value, _SINGLETON) or isinstance(b.value, _SINGLETON):
            return a.value is b.value
        if a is b or type(a.value) is not type(b.value):
            return a is b
        vm.stop(reasons.IDENTITY)
    if isinstance(a, Known) and isinstance(b, Known):
        return a.obj is b.obj
    if _is_empty_tuple(a) and _is_empty_tuple(b):
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Tuple | Slice | Method | Opaque) and a is not b:
        return _same_structures(vm, a, b)
    if isinstance(a, Tensor | Object | Array) and isinstance(b, Tensor | Object | Array):
        if vm.class_of(a) is vm.class_of(b) is weakref.ref and a is not b:
            vm.stop(reasons.IDENTITY, "weak references to one object are often one")
        return _same_existing(vm, a, b)
    return a is b


def _is_python(value: Value) -> bool:
    return isinstance(value, Known) and isinstance(value.obj, types.FunctionType)


_NO_FUNCTION = (Constant, Tensor, Object, Tuple, Array, Function)
"""What is no function of Python's that exists."""


def _is_empty_tuple(value: Value) -> bool:
    """Of those, there is one."""
    if isinstance(value, Tuple):
        return value.cls is tuple and not value.items
    return isinstance(value, Constant) and type(value.value) is tuple and not value.value


def _same_structures(vm: VM, a: Value, b: Value) -> bool:
    from_outside = [v for v in (a, b) if getattr(v, "source", None) is not None]
    if len(from_outside) == 1:
        return False
    if not from_outside and not isinstance(a, Tuple):
        return False
    if isinstance(a, Tuple) and isinstance(b, Tuple) and (a.items or b.items):
        if not from_outside:
            return False
        vm.distinct(a, b)
        return False
    vm.stop(reasons.IDENTITY)


def _same_existing(vm: VM, a: Tensor | Object | Array, b: Tensor | Object | Array) -> bool:
    """Existing objects are one value if they are one object, so two values are two objects."""
    if a is b:
        return True
    if a.source is not None and b.source is not None:
        vm.distinct(a, b)
    if vm.heap.read(a, "remembered") or vm.heap.read(b, "remembered"):
        vm.stop(reasons.IDENTITY, "the identity of what a function remembers")
    return False
