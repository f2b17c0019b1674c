"""Our own symbolic integers behind torch's SymInt: without sympy, in microseconds.

torch takes any object with the methods of a `SymNode`. A comparison that torch wants decided is
decided by what is known of the symbols, or by the values at hand, and is noted as a relation then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jitpkg.facts import sizes
from jitpkg.facts.sizes import Comparison, Length, Relation, Size


class Decisions:
    """What torch has relied on while it answered one question."""

    def __init__(self, values: Mapping[str, int]) -> None:
        """`values` are those that the symbols have in the call at hand."""
        self.values = values
        self.relations: dict[Relation, None] = {}

    def decide(self, relation: bool | Relation) -> bool:
        if isinstance(relation, bool):
            return relation
        holds = relation.holds(self.values)
        self.relations[relation if holds else relation.negated()] = None
        return holds

    def symint(self, size: Length) -> Any:
        """A SymInt for an expression; a number is itself."""
        if isinstance(size, int):
            return size
        return torch.SymInt(Node(size, self))  # type: ignore[no-untyped-call]


def length(number: Any) -> Length:
    """What a SymInt is; a number is itself."""
    if isinstance(number, torch.SymInt):
        node = number.node
        if not isinstance(node, Node):
            raise TypeError(f"{number} is another one's")
        return sizes.plain(node.size)
    return int(number)


class _Scalar:
    """What torch asks of every `SymNode`."""

    kind: str

    def is_int(self) -> bool:
        return self.kind == "int"

    def is_bool(self) -> bool:
        return self.kind == "bool"

    def is_float(self) -> bool:
        return False

    def is_symbolic(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return False

    def is_nested_int(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    def has_hint(self) -> bool:
        return True

    def constant_int(self) -> None:
        return None

    def constant_bool(self) -> None:
        return None

    def maybe_as_int(self) -> None:
        return None

    def maybe_as_bool(self) -> None:
        return None

    def clone(self) -> _Scalar:
        return self


class Truth(_Scalar):
    """A `SymNode` of a boolean: decided when torch asks for it."""

    kind = "bool"

    def __init__(self, decide: Callable[[], bool], *, known: bool | None = None) -> None:
        self._decide = decide
        self._known = known

    def statically_known_true(self, file: str, line: int) -> bool:
        """Whether it is true for all values: nothing is relied on."""
        return self._known is True

    def bool_(self) -> bool:
        return self._decide()

    def guard_bool(self, file: str, line: int) -> bool:
        return self._decide()

    expect_true = guard_size_oblivious = guard_or_false = guard_or_true = guard_bool

    def sym_not(self) -> Truth:
        return Truth(lambda: not self._decide())

    def sym_and(self, other: Truth) -> Truth:
        return Truth(lambda: self._decide() and other._decide())

    def sym_or(self, other: Truth) -> Truth:
        return Truth(lambda: self._decide() or other._decide())

    and_, or_ = sym_and, sym_or

    def wrap_bool(self, value: bool) -> Truth:
        return Truth(lambda: value)

    def __str__(self) -> str:
        return "a truth"

    _graph_repr = str = __str__


class Node(_Scalar):
    """A `SymNode` of an integer."""

    kind = "int"

    def __init__(self, size: Size, decisions: Decisions) -> None:
        self.size = size
        self._decisions = decisions

    def _made(self, size: Size) -> Node:
        return Node(size, self._decisions)

    def wrap_int(self, value: int) -> Node:
        return self._made(sizes.of(value))

    def wrap_bool(self, value: bool) -> Truth:
        return Truth(lambda: value)

    # What it is

    def int_(self) -> int:
        """The number itself is asked for: it is taken to be what it is now."""
        value = self.size.value(self._decisions.values)
        self._decisions.decide(sizes.compare("==", self.size, value))
        return value

    def guard_int(self, file: str, line: int) -> int:
        return self.int_()

    def maybe_as_int(self) -> int | None:  # type: ignore[override]
        return self.size.constant

    def __str__(self) -> str:
        return str(self.size)

    _graph_repr = str = __str__

    # Arithmetic

    def add(self, other: Node) -> Node:
        return self._made(self.size + other.size)

    def sub(self, other: Node) -> Node:
        return self._made(self.size - other.size)

    def mul(self, other: Node) -> Node:
        return self._made(self.size * other.size)

    def neg(self) -> Node:
        return self._made(-self.size)

    def pos(self) -> Node:
        return self

    def floordiv(self, other: Node) -> Node:
        self._needs_divisor(other)
        return self._made(self.size // other.size)

    int_floordiv = floordiv

    def mod(self, other: Node) -> Node:
        self._needs_divisor(other)
        return self._made(self.size % other.size)

    def sym_min(self, other: Node) -> Node:
        return self._made(self.size.extreme("min", other.size))

    def sym_max(self, other: Node) -> Node:
        return self._made(self.size.extreme("max", other.size))

    def sym_sum(self, nodes: Sequence[Node]) -> Node:
        total = sizes.of(0)
        for node in nodes:
            total = total + node.size
        return self._made(total)

    def _needs_divisor(self, other: Node) -> None:
        if not self._decisions.decide(sizes.compare("!=", other.size, 0)):
            raise ZeroDivisionError("a size is divided by 0")

    # Comparisons

    def _compared(self, comparison: Comparison, other: Node) -> Truth:
        relation = sizes.compare(comparison, self.size, other.size)
        known = relation if isinstance(relation, bool) else None
        return Truth(lambda: self._decisions.decide(relation), known=known)

    def eq(self, other: Node) -> Truth:
        return self._compared("==", other)

    def ne(self, other: Node) -> Truth:
        return self._compared("!=", other)

    def lt(self, other: Node) -> Truth:
        return self._compared("<", other)

    def le(self, other: Node) -> Truth:
        return self._compared("<=", other)

    def gt(self, other: Node) -> Truth:
        return self._compared(">", other)

    def ge(self, other: Node) -> Truth:
        return self._compared(">=", other)

    # Layouts, as c10's SymbolicShapeMeta computes them

    def is_contiguous(self, size: Sequence[Node], stride: Sequence[Node]) -> Truth:
        return Truth(lambda: self._in_order(size, stride, range(len(size))))

    def is_channels_last_contiguous_2d(self, size: Sequence[Node], stride: Sequence[Node]) -> Truth:
        return Truth(lambda: len(size) == 4 and self._in_order(size, stride, (0, 2, 3, 1)))

    def is_channels_last_contiguous_3d(self, size: Sequence[Node], stride: Sequence[Node]) -> Truth:
        return Truth(lambda: len(size) == 5 and self._in_order(size, stride, (0, 2, 3, 4, 1)))

    def is_channels_last_strides_2d(self, size: Sequence[Node], stride: Sequence[Node]) -> Truth:
        return Truth(lambda: len(size) == 4 and self._channels_last(size, stride, (1, 3, 2, 0)))

    def is_channels_last_strides_3d(self, size: Sequence[Node], stride: Sequence[Node]) -> Truth:
        return Truth(lambda: len(size) == 5 and self._channels_last(size, stride, (1, 4, 3, 2, 0)))

    def is_non_overlapping_and_dense(self, size: Sequence[Node], stride: Sequence[Node]) -> Truth:
        def decide() -> bool:
            if self._in_order(size, stride, range(len(size))):
                return True
            raise NotImplementedError("whether a tensor is dense")

        return Truth(decide)

    def _is(self, comparison: Comparison, a: Length, b: Length) -> bool:
        return self._decisions.decide(sizes.compare(comparison, a, b))

    def _in_order(self, size: Sequence[Node], stride: Sequence[Node], order: Sequence[int]) -> bool:
        """Whether elements lie without gaps, the last dim of `order` innermost."""
        if any(self._is("==", node.size, 0) for node in size):
            return True
        step = sizes.of(1)
        for dim in reversed(order):
            if self._is("==", size[dim].size, 1):
                continue
            if not self._is("==", stride[dim].size, step):
                return False
            step = step * size[dim].size
        return True

    def _channels_last(
        self, size: Sequence[Node], stride: Sequence[Node], order: Sequence[int]
    ) -> bool:
        least: Length = 0
        if self._is("==", stride[1].size, 0):
            return False
        for dim in order:
            step = stride[dim].size
            if self._is("==", size[dim].size, 0) or self._is("<", step, least):
                return False
            if dim == 0 and self._is("==", least, stride[1].size):
                return False
            least = step
            if self._is(">", size[dim].size, 1):
                least = step * size[dim].size
        return True
