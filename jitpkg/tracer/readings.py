"""Python numbers that are made of a tensor's data: nodes of the graph, known when it has run.

`x.item()` and its like read memory where the program does, among the other ops. What comes of it
may be handed on: returned, stored, added to other numbers, given to an op as an operand. Arithmetic
with it is part of the graph where it raises nothing, whatever the numbers are. Who wants to know
more of it ends the trace (B104), and Python has the number there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import torch
from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.facts.tensor import TensorFacts
from jitpkg.marks import READING
from jitpkg.tracer import (
    classes,
    constant_tensors,
    constants,
    containers,
    counters,
    numbers,
    reasons,
    tensors,
)
from jitpkg.tracer.values import (
    EXAMPLES,
    Constant,
    Kept,
    Marker,
    Number,
    Reading,
    Tensor,
    Value,
)
from jitpkg.tracer.vm import VM, Args, Kwargs

_INTS: Mapping[torch.dtype, int] = MappingProxyType(
    {
        torch.int8: 7,
        torch.int16: 15,
        torch.int32: 31,
        torch.int64: 64,  # of which one is -2**63
        torch.uint8: 8,
        torch.uint16: 16,
        torch.uint32: 32,
        torch.uint64: 64,
    }
)
_FLOATS = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
_COMPLEX = frozenset({torch.complex64, torch.complex128})

_MOST = 64
"""So many numbers are read of a tensor at once."""


def refuse(vm: VM, reading: Reading) -> NoReturn:
    """End the trace where a number has to be known."""
    vm.stop(reasons.DATA_VALUE, reading.what)


# Where they come from


def by_method(vm: VM, name: str, args: Args, kwargs: Kwargs) -> Value | None:
    """`x.item()` and `x.tolist()`; None where it is left to Python."""
    if name not in ("item", "tolist") or len(args) != 1 or kwargs:
        return None
    tensor = vm.look(args[0])
    if not isinstance(tensor, Tensor):
        return None
    known = (constant_tensors.number if name == "item" else constant_tensors.listed)(vm, tensor)
    if known is not None or not _may_be_read(vm, tensor):
        return known
    facts, what = vm.facts(tensor), f"Tensor.{name}"
    if name == "item" or not facts.size:
        return _read(vm, tensor, what, name) if math.prod(sizes_of(facts)) == 1 else None
    if math.prod(sizes_of(facts)) > _MOST:
        return None
    return _listed(vm, tensor, facts, what)


def by_class(vm: VM, cls: type, args: Args, kwargs: Kwargs) -> Value | None:
    """`float(x)`, `int(x)` and `bool(x)` of a tensor, where they raise nothing and warn of
    nothing."""
    (tensor,) = map(vm.look, args) if len(args) == 1 and not kwargs else (None,)
    if not isinstance(tensor, Tensor):
        return None
    vm.stop_under_a_mode(f"{cls.__name__}() of a tensor")
    known = constant_tensors.number(vm, tensor)
    if known is not None and (cls is bool or not vm.facts(tensor).requires_grad):
        return constants.fold(vm, cls, (known,))
    if cls in (int, float) and not vm.facts(tensor).requires_grad:
        counted = counters.number(vm, tensor)
        if counted is not None:
            return vm.call(vm.trusted(cls), (counted,))
    if not _may_be_read(vm, tensor):
        return None
    facts = vm.facts(tensor)
    if math.prod(sizes_of(facts)) != 1:
        return None
    of = class_in(facts.dtype)
    special = {float: "__float__", int: "__int__", bool: "__bool__"}.get(cls)
    if special is None or (cls is int and of is float):
        return None
    if cls is not bool and (facts.requires_grad or of is complex or facts.dtype is torch.uint64):
        return None
    if classes.lookup(vm, facts.cls, special) is not getattr(torch.Tensor, special):
        return None
    return _read(vm, tensor, f"{cls.__name__}() of a tensor", cls)


def sizes_of(facts: TensorFacts) -> tuple[int, ...]:
    return tuple(length if isinstance(length, int) else 0 for length in facts.size)


def class_in(dtype: torch.dtype) -> type | None:
    """The class of the numbers in a tensor; None where that is not known."""
    if dtype is torch.bool:
        return bool
    if dtype in _INTS:
        return int
    if dtype in _FLOATS:
        return float
    return complex if dtype in _COMPLEX else None


def _may_be_read(vm: VM, tensor: Tensor) -> bool:
    facts = vm.facts(tensor)
    is_known = class_in(facts.dtype) is not None and not facts.is_symbolic
    return vm.keeps_nodes and is_known and facts.device.type in ("cpu", "cuda")


def _read(vm: VM, tensor: Tensor, what: str, by: str | type) -> Reading:
    dtype = vm.facts(tensor).dtype
    cls = by if isinstance(by, type) else class_in(dtype)
    assert cls is not None
    return Reading(_node(vm, tensor, by, cls), cls, _INTS.get(dtype, 1), what)


def _node(vm: VM, tensor: Tensor, by: str | type, cls: type) -> fx.Node:
    """The node that reads a tensor."""
    name = by if isinstance(by, str) else by.__name__
    failure = tensors.failure_of(vm, name, half=False)
    given = (vm.node(tensor),)
    if isinstance(by, str):
        node = vm.graph.call_method(by, given, {})
    else:
        node = vm.graph.call_function(by, given, {})
    node.meta[READING] = cls
    vm.failures[node.name] = failure
    return node


def _listed(vm: VM, tensor: Tensor, facts: TensorFacts, what: str) -> Value:
    """The numbers of a tensor, as lists in lists."""
    size, cls = sizes_of(facts), class_in(facts.dtype)
    assert cls is not None
    bits = _INTS.get(facts.dtype, 1)
    node = _node(vm, tensor, "tolist", list) if math.prod(size) else None

    def nested(node: fx.Node | None, dim: int) -> Value:
        if dim == len(size):
            assert node is not None
            return Reading(node, cls, bits, what)
        kind = cls if dim == len(size) - 1 else list
        items = [
            nested(_computed(vm, operator.getitem, (node, k), kind) if node else None, dim + 1)
            for k in range(size[dim])
        ]
        return containers.new_list(vm, tuple(items))

    return nested(node, 0)


def _computed(vm: VM, function: Callable[..., Any], args: tuple[Any, ...], cls: type) -> fx.Node:
    failure = tensors.failure_of(vm, function.__name__, half=False)
    node = vm.graph.arithmetic(function, args)
    node.meta[READING] = cls
    vm.failures[node.name] = failure
    return node


# Arithmetic


@dataclass(frozen=True, slots=True)
class _Operand:
    """A number in an operation."""

    value: Value
    node: Any
    cls: type
    bits: int | None
    """As a reading has them; None where an int may be of any size."""

    @property
    def is_whole(self) -> bool:
        return self.cls is int or self.cls is bool


_CONVERTIBLE = 1000
"""Bits of an int that becomes a float without an OverflowError."""
_LONGEST = 10_000
"""Bits of an int that a graph computes."""


def binary(vm: VM, name: str, a: Value, b: Value) -> Value | None:
    """`a + b` and its like, of which one is a reading; None where the other one is a tensor."""
    found = _operands(vm, a, b)
    if found is None:
        return None
    reading, left, right = found
    rule = _RULES.get(name)
    bits = None if rule is None else rule(vm, left, right)
    if bits is None:
        refuse(vm, reading)
    function = numbers.FUNCTIONS[name]
    cls = type(function(EXAMPLES[left.cls], EXAMPLES[right.cls]))
    node = _computed(vm, function, (left.node, right.node), cls)
    return Reading(node, cls, bits, reading.what)


def _operands(vm: VM, a: Value, b: Value) -> tuple[Reading, _Operand, _Operand] | None:
    """The reading of the two, and both as numbers; None where the other one is a tensor.

    Raises:
        Stopped: it is no number.
    """
    reading, other = (a, b) if isinstance(a, Reading) else (b, a)
    assert isinstance(reading, Reading)
    if isinstance(vm.glance(other), Tensor):
        return None
    left, right = _operand(vm, a), _operand(vm, b)
    if left is None or right is None or not vm.keeps_nodes:
        refuse(vm, reading)
    return reading, left, right


def _operand(vm: VM, value: Value) -> _Operand | None:
    if isinstance(value, Reading):
        return _Operand(value, value.node, value.cls, value.bits)
    value = vm.peek(value)
    match value:
        case Number():
            bits = _SIZE if _is(vm, value, "<", _LIMIT) and _is(vm, value, ">", -_LIMIT) else None
            return _Operand(value, numbers.node(vm, value), type(value.value), bits)
        case Constant(constant) if type(constant) in EXAMPLES:
            bits = constant.bit_length() if isinstance(constant, int) else 1
            return _Operand(value, constant, type(constant), bits)
        case _:
            return None


_SIZE = 64
_LIMIT = 2**_SIZE
"""What a number that varies is less than, but for those that no size can be."""


def _is(vm: VM, value: Value, comparison: str, other: int) -> bool:
    """Whether that holds of a number that varies, which is guarded."""
    found = numbers.compare(vm, comparison, value, Constant(other))
    return isinstance(found, Constant) and found.value is True


def _are_convertible(a: _Operand, b: _Operand) -> bool:
    """Whether ints become floats, if the other one is no int, and none is too large for that."""
    return all(x.bits is not None and x.bits <= _CONVERTIBLE for x in (a, b) if x.is_whole)


def _exact(bits: Callable[[int, int], int]) -> Callable[..., int | None]:
    """Sums and products: ints of any size; else all is of floats, which overflow to infinity."""

    def rule(vm: VM, a: _Operand, b: _Operand) -> int | None:
        if not (a.is_whole and b.is_whole):
            return 1 if _are_convertible(a, b) else None
        if a.bits is None or b.bits is None:
            return None
        found = bits(a.bits, b.bits)
        return found if found <= _LONGEST else None

    return rule


def _divided(vm: VM, a: _Operand, b: _Operand) -> int | None:
    if not _are_convertible(a, b) or not _is_not_zero(vm, b.value):
        return None
    return (a.bits or 0) + 1 if a.is_whole and b.is_whole else 1


def _divided_by_floor(vm: VM, a: _Operand, b: _Operand) -> int | None:
    if complex in (a.cls, b.cls):
        return None
    bits = _divided(vm, a, b)
    return bits if bits is None else max(bits, (b.bits or 0) + 1)


def _is_not_zero(vm: VM, value: Value) -> bool:
    if isinstance(value, Number):
        return _is(vm, value, "!=", 0)
    return isinstance(value, Constant) and value.value != 0


def _powered(vm: VM, a: _Operand, b: _Operand) -> int | None:
    is_known = type(b.node) is int and 0 <= b.node <= _POWERS
    return (a.bits or 0) * b.node + 1 if a.is_whole and a.bits and is_known else None


_POWERS = 4


def _by_bits(vm: VM, a: _Operand, b: _Operand) -> int | None:
    if not (a.is_whole and b.is_whole) or a.bits is None or b.bits is None:
        return None
    return max(a.bits, b.bits) + 1


_RULES: Mapping[str, Callable[[VM, _Operand, _Operand], int | None]] = MappingProxyType(
    {
        **dict.fromkeys("+-", _exact(lambda a, b: max(a, b) + 1)),
        "*": _exact(operator.add),
        "/": _divided,
        **dict.fromkeys(("//", "%"), _divided_by_floor),
        "**": _powered,
        **dict.fromkeys("&|^", _by_bits),
    }
)
"""The bits of a result, or None where the operation may raise."""


def unary(vm: VM, name: str, reading: Reading) -> Value:
    """`-reading` and its like."""
    is_whole = reading.cls is int or reading.cls is bool
    if name == "+" and reading.cls is not bool:
        return reading
    if (name == "~" and reading.cls is not int) or not vm.keeps_nodes:
        refuse(vm, reading)  # of a bool it warns
    function = _UNARY[name]
    cls = int if is_whole else reading.cls
    node = _computed(vm, function, (reading.node,), cls)
    return Reading(node, cls, reading.bits + 1, reading.what)


_UNARY: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"-": operator.neg, "+": operator.pos, "~": operator.invert}
)


def compare(vm: VM, name: str, function: Any, a: Value, b: Value) -> Value | None:
    """`a < b` and its like, of which one is a reading; None where the other one is a tensor."""
    found = _operands(vm, a, b)
    if found is None:
        return None
    reading, left, right = found
    if complex in (left.cls, right.cls) and name not in ("==", "!="):
        refuse(vm, reading)  # it raises
    node = _computed(vm, function, (left.node, right.node), bool)
    return Reading(node, bool, 1, reading.what)


def negated(vm: VM, reading: Reading) -> Value:
    """`not reading`"""
    if not vm.keeps_nodes:
        refuse(vm, reading)
    return Reading(_computed(vm, operator.not_, (reading.node,), bool), bool, 1, reading.what)


def of_one(vm: VM, function: Any, reading: Reading) -> Value | None:
    """`abs(reading)`, `float(reading)` and their like where they cannot raise; else None."""
    cls = bool if function in _ASKED else _CONVERTED.get((function, reading.cls))
    if cls is None or reading.cls is complex or reading.bits > _CONVERTIBLE:
        return None
    if function is reading.cls:
        return reading
    if not vm.keeps_nodes:
        refuse(vm, reading)
    node = _computed(vm, function, (reading.node,), cls)
    return Reading(node, cls, reading.bits + 1, reading.what)


_ASKED = frozenset({bool, math.isnan, math.isinf, math.isfinite})
"""Functions that answer by a bool."""
_CONVERTED: Mapping[tuple[Any, type], type] = MappingProxyType(
    {
        (abs, bool): int,
        (abs, int): int,
        (abs, float): float,
        (float, bool): float,
        (float, int): float,
        (float, float): float,
        (int, bool): int,
        (int, int): int,
    }
)
"""The class of what a function gives for a number of a class."""


HANDLED: frozenset[Any] = frozenset({*_ASKED, *(function for function, _ in _CONVERTED)})
"""Functions of one number that `of_one` may know an answer for."""


def extreme(vm: VM, function: Callable[..., Any], args: Args) -> Value | None:
    """`max(reading, 1)` and its like, of numbers of one class; else None."""
    operands = [_operand(vm, arg) for arg in args]
    known = [operand for operand in operands if operand is not None]
    if len(known) < max(2, len(args)) or {each.cls for each in known} not in ({int}, {float}):
        return None
    if not vm.keeps_nodes or any(each.bits is None for each in known):
        return None
    cls = known[0].cls
    node = _computed(vm, function, tuple(each.node for each in known), cls)
    bits = max(each.bits or 0 for each in known)
    return Reading(node, cls, bits, next(a.what for a in args if isinstance(a, Reading)))


def beside_tensor(vm: VM, a: Value, b: Value) -> tuple[Value, Value]:
    """Operands of which one is a reading, and the other one a tensor.

    Raises:
        Stopped: it is none.
    """
    a, b = vm.glance(a), vm.glance(b)
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        refuse(vm, next(each for each in (a, b) if isinstance(each, Reading)))
    return a, b


def same(vm: VM, a: Value, b: Value) -> bool:
    """`a is b`, of which one is a reading: an object of its own, unless Python knows another."""
    if a is b:
        return True
    reading, other = (a, b) if isinstance(a, Reading) else (b, a)
    assert isinstance(reading, Reading)
    other = vm.glance(other)
    if isinstance(other, Marker | Kept):
        vm.stop(reasons.IDENTITY, "the identity of a value below the hook's stack")
    if vm.class_of(other) is reading.cls:
        refuse(vm, reading)
    return False
