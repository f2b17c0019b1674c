"""What a tensor without dimensions holds, as a number of the program: `step.item()`.

Where such a tensor comes from outside, lies on a CPU, and the graph has only counted with it since,
the number is known before the graph runs: each call reads it, and counts as the graph will. So
optimizers count their steps.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.facts import sizes
from jitpkg.facts.sizes import Size, Symbol
from jitpkg.facts.tensor import TensorFacts
from jitpkg.guards.metadata import OwnMemory, fill_their_storages
from jitpkg.guards.numbers import Expression, Formula, SameNumbers
from jitpkg.guards.sources import NumberIn, Source
from jitpkg.internals import ops
from jitpkg.tracer import numbers
from jitpkg.tracer.values import Constant, Number, Tensor, Value
from jitpkg.tracer.vm import VM

Operation = Callable[[Any, Any], Any]

_WHOLE_NUMBERS = (torch.int64, torch.int32)
_DTYPES = (torch.float32, torch.float64, *_WHOLE_NUMBERS)
_SMALL = 8
"""Bytes of the largest number."""

_COUNTING: Mapping[object, Operation] = MappingProxyType(
    {
        **dict.fromkeys(("add_", operator.iadd), operator.add),
        **dict.fromkeys(("sub_", operator.isub), operator.sub),
        **dict.fromkeys(("mul_", operator.imul), operator.mul),
    }
)
"""Ops in place that are followed, of a tensor and a number, and what they do."""


def _of_lists(op: object) -> Operation | None:
    """What an op in place does to each tensor of a list."""
    return next((operation for row, operation in _LISTS if row.found() is op), None)


_LISTS = ((ops.FOREACH_ADD, operator.add), (ops.FOREACH_MUL, operator.mul))


@dataclass(frozen=True, slots=True)
class _Step:
    """One op of the graph that counts.

    Attributes:
        node: what writes.
        before: what it is given.
        operand: the number that it is given, or the node of one.
    """

    node: fx.Node
    before: fx.Node
    operation: Operation
    operand: int | float | fx.Node


@dataclass(frozen=True)
class Counted:
    """What becomes of a tensor's number by operations that round as the tensor's class does."""

    dtype: torch.dtype
    operations: tuple[Operation, ...]
    __name__ = "counted"

    def __call__(self, number: float, *operands: float) -> float:
        if self.dtype in _WHOLE_NUMBERS:
            return self._whole(number, operands)
        if len(operands) == 1:  # as most often: one more
            (operand,) = operands
            counted = self.operations[0](number, operand)
            if -_WHOLE < counted < _WHOLE and -_WHOLE < number < _WHOLE:
                whole = number.is_integer() and (type(operand) is int or operand.is_integer())
                if whole and -_WHOLE < operand < _WHOLE and counted:
                    return float(counted)
        counted = self.rounded(number)
        for operation, operand in zip(self.operations, operands, strict=True):
            counted = self.rounded(operation(counted, self.rounded(operand)))
            if counted and not _LEAST < abs(counted) < _MOST:
                return self._by_tensor(number, operands)
        return counted

    def _whole(self, number: float, operands: tuple[float, ...]) -> float:
        counted = number
        for operation, operand in zip(self.operations, operands, strict=True):
            counted = operation(counted, operand)
            if not -_NARROW < counted < _NARROW:
                return self._by_tensor(number, operands)
        return counted

    def rounded(self, number: float) -> float:
        """The nearest number of the class. A sum or product of two that is rounded twice, as one of
        double precision first, is the same."""
        if self.dtype is torch.float64:
            return float(number)
        return ctypes.c_float(number).value

    def _by_tensor(self, number: float, operands: tuple[float, ...]) -> float:
        tensor = torch.tensor(number, dtype=self.dtype, device="cpu")
        for operation, operand in zip(self.operations, operands, strict=True):
            tensor = operation(tensor, operand)
        return tensor.item()


_LEAST, _MOST = 1e-37, 1e38
"""Between these no number is rounded to one with fewer digits, or to infinity."""
_WHOLE = 1 << 24
"""Below this each class has all whole numbers."""
_NARROW = 1 << 31
"""Below this a whole number has its place in each class of them."""


def number(vm: VM, value: Value) -> Value | None:
    """The number in a tensor, where it is known before the graph runs; it varies from call to call.

    Of a tensor that the graph has made of a number, a constant.
    """
    tensor = vm.look(value)
    if not isinstance(tensor, Tensor):
        return None
    facts = vm.facts(tensor)
    if facts.device.type != "cpu" or facts.size or facts.dtype not in _DTYPES:
        return None
    steps = _steps(vm.node(tensor), tensor.node)
    if steps is None:
        return None
    if tensor.source is None:
        return _made(vm, tensor, facts.dtype, steps)
    return _existing(vm, tensor, tensor.source, facts.dtype, steps)


def _existing(
    vm: VM, tensor: Tensor, source: Source, dtype: torch.dtype, steps: list[_Step]
) -> Value | None:
    """The number in a tensor from outside, which nothing can have changed but these steps."""
    if tensor in vm.sharing or not _are_all(vm, tensor.node, steps):
        return None
    operands = [found for step in steps if (found := _operand(vm, step.operand)) is not None]
    if len(operands) < len(steps):
        return None
    others = [other for other in vm.small if other is not tensor and vm.graph.input(other.node)]
    given = [vm.graph.example(each.node) for each in (tensor, *others)]
    if not fill_their_storages(*given):
        return None
    vm.guard(OwnMemory((source, *(other.source for other in others if other.source is not None))))
    if dtype in _WHOLE_NUMBERS and not all(type(value) is int for _, value in operands):
        return None  # torch refuses to add a fraction
    now = given[0].item()
    if type(now) is int and not -_NARROW < now < _NARROW:
        return None
    symbol = _shared(vm, source, dtype, now)
    if not steps:
        return _no_giant(vm, _of_symbol(symbol, now, source))
    counted = Counted(dtype, tuple(step.operation for step in steps))
    values = [value for _, value in operands]
    expressions = symbol, *(expression for expression, _ in operands)
    return _no_giant(vm, numbers.computed(vm, counted, expressions, counted(now, *values)))


def _shared(vm: VM, source: Source, dtype: torch.dtype, now: int | float) -> Symbol:
    """What stands for the number in a tensor. Tensors whose numbers are the same now share it, and
    a guard says so: an optimizer has a counter for each parameter."""
    key = dtype, math.copysign(1.0, now), now
    known = vm.counts.get(key)
    if known is None or not vm.is_noted(known[0], known[1]):
        known = vm.counts[key] = len(vm.guards) - 1, vm.guards[-1], source
    first = known[2]
    if first != source:
        vm.guard(SameNumbers((NumberIn(first), NumberIn(source))))
    return numbers.symbol_of(vm, NumberIn(first), now)


def _of_symbol(symbol: Symbol, now: int | float, source: Source) -> Number:
    expression = Size((((symbol,), 1),)) if type(now) is int else symbol
    return Number(expression, now, NumberIn(source))


def _no_giant(vm: VM, number: Value | None) -> Value | None:
    """A whole number, as long as it may be a size."""
    if isinstance(number, Number) and isinstance(number.expression, Size):
        above = sizes.compare(">", number.expression, -_NARROW)
        below = sizes.compare("<", number.expression, _NARROW)
        if not (numbers.require(vm, above) and numbers.require(vm, below)):
            return None
    return number


def _operand(
    vm: VM, operand: int | float | fx.Node
) -> tuple[Expression | int | float, int | float] | None:
    """How a number is computed on each call, and what it is now."""
    if not isinstance(operand, fx.Node):
        return operand, operand
    given = vm.graph.input(operand)
    if given is None or isinstance(given.example, torch.Tensor):
        return None
    if isinstance(given.source, Formula):
        return given.source, given.example
    return numbers.symbol_of(vm, given.source, given.example), given.example


def _made(vm: VM, tensor: Tensor, dtype: torch.dtype, steps: list[_Step]) -> Value | None:
    """The number in a tensor that the graph has made, and that nothing but these steps has written
    to: what may share its memory is found by the graph's own notes."""
    made = _made_of(tensor.node)
    root = vm.roots.get(tensor, tensor).node
    operands = [step.operand for step in steps if not isinstance(step.operand, fx.Node)]
    if made is None or len(operands) < len(steps) or not _are_all(vm, root, steps):
        return None
    if dtype in _WHOLE_NUMBERS and not all(type(each) is int for each in (made, *operands)):
        return None
    counted = Counted(dtype, tuple(step.operation for step in steps))
    return Constant(counted(made if dtype in _WHOLE_NUMBERS else float(made), *operands))


def may_be_small(facts: TensorFacts) -> bool:
    """Whether a tensor may lie where a number lies; of one that is larger its storage is, too."""
    size = [length for length in facts.size if isinstance(length, int)]
    if len(size) < len(facts.size) or 0 in facts.stride:
        return True
    return 0 < math.prod(size) * facts.dtype.itemsize <= _SMALL


def _steps(node: fx.Node, first: fx.Node) -> list[_Step] | None:
    """What the graph has done to a tensor, first things first; None where that is no counting."""
    found: list[_Step] = []
    while node is not first:
        step = _step(node)
        if step is None:
            return None
        found.append(step)
        node = step.before
    return found[::-1]


def _are_all(vm: VM, first: fx.Node, steps: list[_Step]) -> bool:
    """Whether no other op writes to a tensor, or to what shares its memory in the graph."""
    return {step.node for step in steps}.issuperset(vm.graph.writers(first))


def _step(node: fx.Node) -> _Step | None:
    if node.target is operator.getitem:  # one of a list that a single op counts with
        op, k = node.args
        operation = _of_lists(op.target) if isinstance(op, fx.Node) else None
        if operation is None:
            return None
        tensors, operand = op.args  # type: ignore[union-attr]
        if isinstance(operand, list | tuple):
            operand = operand[k]  # type: ignore[index]
        elif isinstance(operand, fx.Node) and (made := _made_of(operand)) is not None:
            operand = made
        if not isinstance(tensors, list | tuple) or op.kwargs.get("alpha", 1) != 1:  # type: ignore[union-attr]
            return None
        before = tensors[k]  # type: ignore[index]
        once = sum(each is before for each in tensors) == 1
        return _counts(op, before, operation, operand) if once else None  # type: ignore[arg-type]
    operation = _COUNTING.get(node.target)
    if operation is None or len(node.args) != 2 or node.kwargs:
        return None
    return _counts(node, node.args[0], operation, node.args[1])


def _counts(node: fx.Node, before: Any, operation: Operation, operand: Any) -> _Step | None:
    if not isinstance(before, fx.Node) or type(operand) not in (int, float, fx.Node):
        return None
    return _Step(node, before, operation, operand)


def _made_of(node: fx.Node) -> int | float | None:
    """The number that a tensor was made of."""
    while node.target in ("clone", "detach") and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    if not node.args:
        return None
    given = node.args[0]
    if node.target in (torch.tensor, torch.as_tensor) and type(given) in (int, float):
        return given  # type: ignore[return-value]
    if node.target in (torch.zeros, torch.ones) and given == ():
        return int(node.target is torch.ones)
    return None
