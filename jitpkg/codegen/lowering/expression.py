"""Scalar values with Python's operators: what rows compute with."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitpkg.codegen.ir.builder import INDEX, Builder
from jitpkg.codegen.ir.extents import same, varies
from jitpkg.codegen.ir.nodes import Axis, Node
from jitpkg.codegen.ir.nodes import Extent as Extent
from jitpkg.dataclass import dataclass

Number = bool | int | float


class NotLowered(Exception):
    """The call has no lowering: it is left to ATen."""


def require(condition: bool, why: str) -> None:
    """
    Raises:
        NotLowered: the condition does not hold.
    """
    if not condition:
        raise NotLowered(why)


@dataclass(frozen=True, eq=False, slots=True)
class Expr:
    """A node. A number beside it is taken in its dtype; `//` and `%` are for indices.

    `==` is that of objects, as for all nodes: `eq` and `ne` compare values.
    """

    builder: Builder
    node: Node

    @property
    def dtype(self) -> torch.dtype:
        return self.node.dtype

    def of(self, value: Operand) -> Expr:
        """A number in this dtype."""
        if isinstance(value, Expr):
            return value
        if varies(value):
            return Expr(self.builder, self.builder.cast(self.builder.index(value), self.dtype))  # type: ignore[arg-type]
        return Expr(self.builder, self.builder.const(value, self.dtype))

    def apply(self, op: str, *others: Operand) -> Expr:
        nodes = [self.of(other).node for other in others]
        return Expr(self.builder, self.builder.apply(op, self.node, *nodes))

    def cast(self, dtype: torch.dtype) -> Expr:
        return Expr(self.builder, self.builder.cast(self.node, dtype))

    def where(self, yes: Operand, no: Operand) -> Expr:
        """One of two values, of which one at least is no number."""
        like = yes if isinstance(yes, Expr) else no
        assert isinstance(like, Expr)
        chosen = self.builder.where(self.node, like.of(yes).node, like.of(no).node)
        return Expr(self.builder, chosen)

    def fold(self, op: str, over: Sequence[Expr]) -> Expr:
        """A fold over axes that nothing else uses."""
        axes = [each.node for each in over]
        assert all(isinstance(axis, Axis) for axis in axes)
        return Expr(self.builder, self.builder.reduce(op, self.node, axes))  # type: ignore[arg-type]

    def checked(self, extent: Extent) -> Expr:
        """An index out of data; negative ones count from the end.

        Raises:
            NotLowered: there is nothing to index: whether that matters, data decides.
        """
        require(not same(extent, 0), "of nothing, whatever is taken is out of range")
        return Expr(self.builder, self.builder.check(self.cast(INDEX).node, extent))

    def checked_from_zero(self, extent: Extent) -> Expr:
        """An index out of data, which may not be negative."""
        index = self.cast(INDEX)
        return (index < 0).where(extent, index).checked(extent)

    def is_nan(self) -> Expr:
        return self.ne(self)

    def eq(self, other: Operand) -> Expr:
        return self.apply("eq", other)

    def ne(self, other: Operand) -> Expr:
        return self.apply("ne", other)

    def __add__(self, other: Operand) -> Expr:
        return self.apply("add", other)

    def __radd__(self, other: Number) -> Expr:
        return self.of(other) + self

    def __sub__(self, other: Operand) -> Expr:
        return self.apply("sub", other)

    def __rsub__(self, other: Number) -> Expr:
        return self.of(other) - self

    def __mul__(self, other: Operand) -> Expr:
        return self.apply("mul", other)

    def __rmul__(self, other: Number) -> Expr:
        return self.of(other) * self

    def __truediv__(self, other: Operand) -> Expr:
        return self.apply("div", other)

    def __rtruediv__(self, other: Number) -> Expr:
        return self.of(other) / self

    def __floordiv__(self, other: Operand) -> Expr:
        return self.apply("floordiv", other)

    def __mod__(self, other: Operand) -> Expr:
        return self.apply("mod", other)

    def __neg__(self) -> Expr:
        return self.apply("neg")

    def __abs__(self) -> Expr:
        return self.apply("abs")

    def __lt__(self, other: Operand) -> Expr:
        return self.apply("lt", other)

    def __le__(self, other: Operand) -> Expr:
        return self.apply("le", other)

    def __gt__(self, other: Operand) -> Expr:
        return self.apply("gt", other)

    def __ge__(self, other: Operand) -> Expr:
        return self.apply("ge", other)

    def __and__(self, other: Operand) -> Expr:
        return self.apply("and", other)

    def __or__(self, other: Operand) -> Expr:
        return self.apply("or", other)

    def __xor__(self, other: Operand) -> Expr:
        return self.apply("xor", other)

    def __invert__(self) -> Expr:
        return self.apply("not")

    def exp(self) -> Expr:
        return self.apply("exp")

    def log(self) -> Expr:
        return self.apply("log")

    def sqrt(self) -> Expr:
        return self.apply("sqrt")

    def maximum(self, other: Operand) -> Expr:
        return self.apply("maximum", other)

    def minimum(self, other: Operand) -> Expr:
        return self.apply("minimum", other)


Operand = Expr | Number
