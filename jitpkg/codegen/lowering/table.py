"""What rows are written with.

A row is a function of a `Lowering` and the call's own arguments, with a `Tensor` for each tensor.
It returns a `Tensor`, or a tuple of them, or raises `NotLowered`: then the call stays ATen's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import INDEX, Builder
from jitpkg.codegen.ir.extents import same, varies
from jitpkg.codegen.ir.nodes import Axis, Buffer, Const, Definition, Load, Node, Store, checks
from jitpkg.codegen.lowering.expression import Expr, Number
from jitpkg.codegen.lowering.expression import NotLowered as NotLowered
from jitpkg.codegen.lowering.expression import require as require
from jitpkg.codegen.lowering.promotion import computed_in, promoted
from jitpkg.dataclass import dataclass
from jitpkg.facts import layout
from jitpkg.facts.tensor import contiguous_stride

CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """A tensor while a call is lowered: in memory already, or defined."""

    builder: Builder
    dtype: torch.dtype
    sizes: tuple[int, ...]
    axes: tuple[Axis, ...]
    value: Node
    """The element at `axes`."""

    def at(self, *index: Node) -> Node:
        """The element at an index, as the dtype that the tensor has."""
        if index == self.axes:
            return self.value
        return self.builder.substitute(self.value, dict(zip(self.axes, index, strict=True)))

    def at_where(self, mask: Node, index: Sequence[Node]) -> Node:
        """The element at an index that may lie outside where the mask is false: there it is 0."""
        if isinstance(mask, Const):
            return self.at(*index) if mask.value else self.builder.const(0, self.dtype)
        match self.value:
            case Load(buffer=buffer, index=own, mask=None) if own == self.axes:
                return self.builder.load(buffer, tuple(index), mask)
            case _:
                buffer = Buffer("", self.dtype, self.sizes, contiguous_stride(self.sizes))
                return self.builder.at(Definition(buffer, self.axes, self.value), index, mask)

    def get(self, *index: Expr | int, where: Expr | None = None) -> Expr:
        """The element at an index; with a condition, 0 where that is false."""
        nodes = [at.node if isinstance(at, Expr) else self.builder.index(at) for at in index]
        found = self.at(*nodes) if where is None else self.at_where(where.node, nodes)
        return Expr(self.builder, found)

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def numel(self) -> int:
        return product(self.sizes)


@dataclass(frozen=True, eq=False, slots=True)
class Scattered:
    """A tensor that is made in two steps, for its positions come out of data.

    First `base` is written everywhere, then, when all of that is done, `update` at `index`, for
    each position of the axes `over`: two loop nests, one behind the other. Nothing else may be
    fused behind this, as it has no definition by index; what it loads may be substituted.

    Where `combine` is None and positions repeat, any of the updates may win, as in ATen. Where it
    is not, the updates of one position must be combined one after the other (or atomically).
    """

    base: Tensor
    over: tuple[Axis, ...]
    """Of its own: none of the base's."""
    index: tuple[Node, ...]
    update: Node
    combine: str | None = None
    """The name of a reduction."""

    @property
    def dtype(self) -> torch.dtype:
        return self.base.dtype

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.base.sizes

    def stores(self, buffer: Buffer) -> tuple[Store, Store]:
        """The two writes. They hold for these very nodes: after a substitution, ask again."""
        return (
            Store(buffer, self.base.axes, self.base.value),
            Store(buffer, self.index, self._folded(), self.combine),
        )

    def _folded(self) -> Node:
        """The update, which is combined once for each position of axes that nothing depends on."""
        if self.combine is None:
            return self.update
        builder = self.base.builder
        return builder.folded_over_idle(self.combine, self.update, self.index, self.over)


Scalar = Number
Result = Tensor | Scattered | None
"""None stands for a tensor that the call was asked not to compute."""
Row = Callable[..., Any]


class Lowering:
    """Makes tensors, on one device."""

    def __init__(self, builder: Builder, device: torch.device = CPU) -> None:
        self.builder = builder
        self.device = device
        self.given: Sequence[Any] = ()
        """The facts of the tensors that are given to the call, where they are known."""

    # Tensors

    def of_buffer(self, buffer: Buffer) -> Tensor:
        """A tensor that lies in memory."""
        require(buffer.dtype in ops.EVERY, f"{buffer.dtype} is left to ATen")
        axes = self.builder.axes(buffer.sizes)
        value = self.builder.load(buffer, axes)
        return Tensor(self.builder, buffer.dtype, buffer.sizes, axes, value)

    def tensor(
        self, sizes: Sequence[int], dtype: torch.dtype, element: Callable[..., Node]
    ) -> Tensor:
        """A tensor by `element(i, j, ...)`, cast to `dtype`."""
        sizes = tuple(sizes)
        axes = self.builder.axes(sizes)
        value = self.builder.cast(element(*axes), dtype)
        return Tensor(self.builder, dtype, sizes, axes, value)

    def define(
        self, sizes: Sequence[int], dtype: torch.dtype, element: Callable[..., Expr]
    ) -> Tensor:
        """The same of expressions."""
        return self.tensor(sizes, dtype, lambda *at: element(*(self.expr(i) for i in at)).node)

    def nothing(self, sizes: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A tensor without elements."""
        return self.define(sizes, dtype, lambda *_: self.number(0, dtype))

    def viewed(
        self, x: Tensor, sizes: Sequence[int], where: Callable[..., Sequence[Any]]
    ) -> Tensor:
        """A tensor whose element at `i, j, ...` is that of `x` at `where(i, j, ...)`.

        Raises:
            NotLowered: a place would not be checked, as it does not matter for the element.
        """

        def element(*at: Expr) -> Expr:
            places = where(*at)
            found = x.get(*places)
            asked = checks(*(place.node for place in places if isinstance(place, Expr)))
            require(asked <= checks(found.node), "an index that does not matter")
            return found

        return self.define(sizes, x.dtype, element)

    # Values

    def expr(self, node: Node) -> Expr:
        return Expr(self.builder, node)

    def axis(self, extent: int) -> Expr:
        """A new axis, to fold over."""
        return self.expr(self.builder.axis(extent))

    def index(self, value: int) -> Expr:
        return self.expr(self.builder.index(value))

    def number(self, value: Scalar, dtype: torch.dtype) -> Expr:
        """A number of a dtype that can hold it.

        Raises:
            NotLowered: it cannot.
        """
        if varies(value):
            require(dtype in (INDEX, *ops.FLOATS), "a size as a number of few bits")
            return self.index(value).cast(dtype)  # type: ignore[arg-type]
        require(isinstance(value, bool | int | float), f"{value!r} is no plain number")
        if dtype in ops.INTEGERS:
            ends = torch.iinfo(dtype)
            require(ends.min <= value <= ends.max, f"{value} is no {dtype}")  # nor is NaN
        return self.expr(self.builder.const(value, dtype))

    def true(self) -> Expr:
        return self.number(True, torch.bool)

    # Elementwise

    def broadcast(self, x: Tensor, index: Sequence[Node]) -> Node:
        """The element of `x` that stands at an index of what it is broadcast to."""
        missing = len(index) - x.rank
        zero = self.builder.index(0)
        own = (zero if n == 1 else at for n, at in zip(x.sizes, index[missing:], strict=True))
        return x.at(*own)

    def operand(
        self, x: Tensor | Scalar, index: Sequence[Expr], common: torch.dtype, rounded: bool = False
    ) -> Expr:
        """What an elementwise op takes of an operand, in the dtype that it computes in."""
        if not isinstance(x, Tensor):
            number = self.number(x, common if rounded else computed_in(common))
            return number.cast(computed_in(common))
        found = self.expr(self.broadcast(x, [at.node for at in index]))
        return found.cast(common).cast(computed_in(common))

    def pointwise(
        self,
        element: Callable[..., Expr],
        operands: Sequence[Tensor | Scalar],
        dtype: torch.dtype | None = None,
        *,
        rounded: bool = False,
        whole: Collection[int] = (),
    ) -> Tensor:
        """`element(a, b, ...)` of operands that are broadcast and promoted as ATen does it.

        Args:
            dtype: to which they are promoted, and that the result has unless it is a truth; their
                common one by default.
            rounded: whether numbers are rounded to that, as where values are compared or chosen.
                ATen's arithmetic takes them as the dtype in which it computes.
            whole: positions at which ATen does the same with a tensor of one element.
        """
        sizes = self.common_sizes(operands)
        common = promoted(operands) if dtype is None else dtype
        index = [self.expr(axis) for axis in self.builder.axes(sizes)]
        given = (
            self._scalar(x, index, common)
            if k in whole and isinstance(x, Tensor) and self._is_scalar(x)
            else self.operand(x, index, common, rounded)
            for k, x in enumerate(operands)
        )
        made = element(*given)
        result = torch.bool if made.dtype is torch.bool else common
        return self.tensor(sizes, result, lambda *_: made.node)

    def _is_scalar(self, x: Tensor) -> bool:
        return self.device.type == "cpu" and all(same(n, 1) for n in x.sizes)

    def _scalar(self, x: Tensor, index: Sequence[Expr], common: torch.dtype) -> Expr:
        """The only element of a tensor, in the dtype that an op computes in."""
        found = self.expr(self.broadcast(x, [at.node for at in index]))
        return found.cast(computed_in(common))

    def common_sizes(self, operands: Sequence[Tensor | Scalar]) -> tuple[int, ...]:
        tensors = [x.sizes for x in operands if isinstance(x, Tensor)]
        require(bool(tensors), "a call without tensors")
        sizes = layout.broadcast(tensors)
        if sizes is None:
            raise NotLowered("sizes that do not go together")
        return sizes

    def elementwise(
        self,
        element: Callable[..., Node],
        operands: Sequence[Tensor | Scalar],
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """`pointwise` of nodes."""
        return self.pointwise(
            lambda *given: self.expr(element(*(each.node for each in given))), operands, dtype
        )

    def cast(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        require(dtype in ops.EVERY, f"{dtype} is left to ATen")
        return x if x.dtype is dtype else self.tensor(x.sizes, dtype, x.at)

    def wide(self, x: Tensor) -> Tensor:
        """In the dtype in which arithmetic on it is done."""
        return self.cast(x, computed_in(x.dtype))

    # Folds

    def reduce(
        self,
        op: str,
        x: Tensor,
        dims: Sequence[int],
        *,
        keepdim: bool = False,
        of: Callable[[Node], Node] | None = None,
    ) -> Tensor:
        """A fold of `of(element)` along dims, in the dtype of that."""
        bound = {dim: self.builder.axis(x.sizes[dim]) for dim in dims}
        kept = [dim for dim in range(x.rank) if dim not in bound]
        sizes = reduced_sizes(x.sizes, dims, keepdim)
        axes = self.builder.axes(sizes)
        at: list[Node] = [self.builder.index(0)] * x.rank
        for position, dim in enumerate(range(x.rank) if keepdim else kept):
            at[dim] = axes[position]
        for dim, axis in bound.items():
            at[dim] = axis
        value = x.at(*at) if of is None else of(x.at(*at))
        if not bound:  # of a tensor without dims
            value = self.builder.started(op, value)
        made = self.builder.reduce(op, value, bound.values())
        return self.tensor(sizes, made.dtype, lambda *_: made)

    def fold(
        self,
        op: str,
        x: Tensor,
        dims: Sequence[int],
        *,
        keepdim: bool = False,
        of: Callable[[Expr], Expr] | None = None,
    ) -> Tensor:
        """`reduce` of expressions."""
        body = None if of is None else (lambda node: of(self.expr(node)).node)
        return self.reduce(op, x, dims, keepdim=keepdim, of=body)


def reduced_sizes(sizes: Sequence[int], dims: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(sizes))
    return tuple(n for d, n in enumerate(sizes) if d not in dims)


def product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def dim_of(dim: int, rank: int) -> int:
    """A dim counted from the front; a tensor without dims has one for this."""
    rank = max(rank, 1)
    require(-rank <= dim < rank, f"there is no dim {dim}")
    return dim % rank


def dims_of(dims: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
    """Dims that are folded: all where none are given."""
    if isinstance(dims, int):
        dims = [dims]
    if not dims:
        return tuple(range(rank))
    found = tuple(dim_of(dim, rank) for dim in dims)
    require(len(set(found)) == len(found), "a dim that is given twice")
    return found if rank else ()


INDICES = frozenset({torch.int64, torch.int32})
"""The dtypes of indices."""


def joined(*groups: Mapping[str, Row]) -> Mapping[str, Row]:
    """One table of several; a name stands in one only."""
    table: dict[str, Row] = {}
    for group in groups:
        twice = table.keys() & group.keys()
        assert not twice, f"two rows for {sorted(twice)}"
        table.update(group)
    return MappingProxyType(table)


def named(rows: Mapping[str, Row]) -> Mapping[str, Row]:
    """A table from rows under several names: `"mul mul_": row`. A name may end in `.overload`."""
    table: dict[str, Row] = {}
    for names, row in rows.items():
        for name in names.split():
            assert name not in table, f"two rows for {name}"
            table[name] = row
    return MappingProxyType(table)


__all__ = [
    "CPU",
    "INDEX",
    "INDICES",
    "Lowering",
    "NotLowered",
    "Result",
    "Row",
    "Scalar",
    "Scattered",
    "Tensor",
    "computed_in",
    "dim_of",
    "dims_of",
    "joined",
    "named",
    "product",
    "promoted",
    "reduced_sizes",
    "require",
]
