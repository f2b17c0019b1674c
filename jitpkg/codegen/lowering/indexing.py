"""Reads and writes at positions that come out of data.

A position outside of its dim makes the kernel fail; the original call then raises ATen's error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.promotion import computed_in
from jitpkg.codegen.lowering.table import (
    INDICES,
    Lowering,
    NotLowered,
    Row,
    Scalar,
    Scattered,
    Tensor,
    dim_of,
    named,
    require,
)
from jitpkg.codegen.lowering.views import replaced
from jitpkg.facts import layout

# Reads


def _embedding(k: Lowering, weight: Tensor, indices: Tensor, *options: Any) -> Tensor:
    require(weight.rank == 2 and indices.dtype in INDICES, "no table of rows")
    rows, width = weight.sizes
    return k.viewed(
        weight,
        [*indices.sizes, width],
        lambda *at: [indices.get(*at[:-1]).checked_from_zero(rows), at[-1]],
    )


def _gather(k: Lowering, x: Tensor, dim: int, index: Tensor, **_: Any) -> Tensor:
    dim = dim_of(dim, x.rank)
    require(x.rank > 0 and index.rank == x.rank and index.dtype in INDICES, "no dims")
    return k.viewed(
        x,
        index.sizes,
        lambda *at: replaced(at, dim, index.get(*at).checked_from_zero(x.sizes[dim])),
    )


def _index_select(k: Lowering, x: Tensor, dim: int, index: Tensor) -> Tensor:
    dim = dim_of(dim, x.rank)
    require(x.rank > 0 and index.rank == 1 and index.dtype in INDICES, "no dims")
    return k.viewed(
        x,
        replaced(x.sizes, dim, index.sizes[0]),
        lambda *at: replaced(at, dim, index.get(at[dim]).checked_from_zero(x.sizes[dim])),
    )


class _Indexing:
    """`x[indices]`: which dims of the result are whose."""

    def __init__(self, x: Tensor, indices: Sequence[Tensor | None], clamped: bool = False) -> None:
        self.clamped = clamped
        """Whether an index outside is moved inside, not an error."""
        require(len(indices) <= x.rank, "too many indices")
        self.indices = [*indices, *(None,) * (x.rank - len(indices))]
        self.given = [d for d, index in enumerate(self.indices) if index is not None]
        tensors = [index for index in self.indices if index is not None]
        require(bool(tensors), "no indices")
        require(all(index.dtype in INDICES for index in tensors), "a mask as index")
        sizes = layout.broadcast([index.sizes for index in tensors])
        if sizes is None:
            raise NotLowered("indices that do not go together")
        self.sizes = sizes
        adjacent = self.given == list(range(self.given[0], self.given[-1] + 1))
        self.place = self.given[0] if adjacent else 0
        """Where the dims of the indices stand in the result."""
        kept = [n for n, index in zip(x.sizes, self.indices, strict=True) if index is None]
        self.result = (*kept[: self.place], *sizes, *kept[self.place :])

    def index(self, k: Lowering, x: Tensor, at: Sequence[Expr]) -> list[Expr]:
        """The element of `x` that stands at a place of the result."""
        end = self.place + len(self.sizes)
        among = [place.node for place in at[self.place : end]]
        rest = iter([*at[: self.place], *at[end:]])
        return [
            next(rest) if index is None else self._place(k.expr(k.broadcast(index, among)), size)
            for index, size in zip(self.indices, x.sizes, strict=True)
        ]

    def _place(self, index: Expr, size: int) -> Expr:
        if self.clamped:
            index = index.maximum(-size).minimum(max(size - 1, 0))
        return index.checked(size)


def _index(k: Lowering, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    plan = _Indexing(x, indices)
    return k.viewed(x, plan.result, lambda *at: plan.index(k, x, at))


# Writes


def scattered(
    k: Lowering,
    base: Tensor,
    sizes: Sequence[int],
    index: Callable[[Sequence[Expr]], Sequence[Expr]],
    update: Callable[[Sequence[Expr]], Expr],
    combine: str | None = None,
) -> Scattered:
    """`base` with `update(i, j, ...)` at `index(i, j, ...)`, for places in `sizes`."""
    allowed = combine is None or base.dtype in ops.REDUCTIONS[combine].allowed
    require(allowed, f"a running {combine} of {base.dtype}")
    over = tuple(k.builder.axis(size) for size in sizes)
    at = [k.expr(axis) for axis in over]
    value = update(at).cast(base.dtype)
    return Scattered(base, over, tuple(i.node for i in index(at)), value.node, combine)


def _index_put(
    k: Lowering,
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
    *_: Any,
) -> Tensor | Scattered:
    chosen = _mask_of(x, indices)
    if chosen is not None and not accumulate and values.numel == 1 and values.dtype is x.dtype:
        return _put_where(k, x, *chosen, values)
    plan = _Indexing(x, indices)
    require(values.dtype is x.dtype and values.rank <= len(plan.result), "other values")
    require(layout.broadcast([values.sizes, plan.result]) == plan.result, "other values")
    return scattered(
        k,
        x,
        plan.result,
        lambda at: plan.index(k, x, at),
        lambda at: k.expr(k.broadcast(values, [i.node for i in at])),
        "sum" if accumulate else None,
    )


def _mask_of(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[Tensor, int] | None:
    """The mask that is the only index, and the dim that it starts at."""
    given = [(index, d) for d, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0][0].dtype is not torch.bool:
        return None
    mask, dim = given[0]
    return given[0] if mask.sizes == x.sizes[dim : dim + mask.rank] else None


def _put_where(k: Lowering, x: Tensor, mask: Tensor, dim: int, value: Tensor) -> Tensor:
    """One value wherever a mask is true."""

    def element(*at: Expr) -> Expr:
        number = value.get(*(0,) * value.rank)
        return mask.get(*at[dim : dim + mask.rank]).where(number, x.get(*at))

    return k.define(x.sizes, x.dtype, element)


def _index_fill(
    k: Lowering, x: Tensor, dim: int, index: Tensor, value: Tensor | Scalar
) -> Scattered:
    dim = dim_of(dim, x.rank)
    require(x.rank > 0 and index.rank == 1 and index.dtype is torch.int64, "no dims")
    if isinstance(value, Tensor):
        require(value.rank == 0, "a value with dims")
        number = value.get().cast(x.dtype)
    else:
        number = k.number(value, x.dtype)
    return scattered(
        k,
        x,
        replaced(x.sizes, dim, index.sizes[0]),
        lambda at: replaced(at, dim, index.get(at[dim]).checked(x.sizes[dim])),
        lambda at: number,
    )


def _scatter(combine: str | None) -> Row:
    def row(k: Lowering, x: Tensor, dim: int, index: Tensor, source: Tensor | Scalar) -> Scattered:
        return scatter(k, x, dim, index, source, combine)

    return row


def scatter(
    k: Lowering,
    x: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor | Scalar,
    combine: str | None,
) -> Scattered:
    dim = dim_of(dim, x.rank)
    require(x.rank > 0 and index.rank == x.rank and index.dtype in INDICES, "no dims")
    if isinstance(source, Tensor):
        require(source.dtype is x.dtype and source.rank == x.rank, "another source")
    number = None if isinstance(source, Tensor) else k.number(source, x.dtype)
    return scattered(
        k,
        x,
        index.sizes,
        lambda at: replaced(at, dim, index.get(*at).checked_from_zero(x.sizes[dim])),
        lambda at: source.get(*at) if isinstance(source, Tensor) else number or k.index(0),
        combine,
    )


_COMBINED = {"sum": "sum", "prod": "prod", "amax": "max", "amin": "min"}


def _scatter_reduce(
    k: Lowering,
    x: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Scattered:
    require(include_self and reduce in _COMBINED, "a reduction of the source alone")
    return scatter(k, x, dim, index, source, _COMBINED[reduce])


def _index_add(
    k: Lowering, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Scalar = 1
) -> Scattered:
    dim = dim_of(dim, x.rank)
    require(x.rank > 0 and index.rank == 1 and index.dtype in INDICES, "no dims")
    require(source.dtype is x.dtype and source.rank == x.rank, "another source")
    sizes = [index.sizes[0] if k == dim else size for k, size in enumerate(x.sizes)]
    require(list(source.sizes) == sizes, "a source of another size: the op refuses it")

    def update(at: Sequence[Expr]) -> Expr:
        value = source.get(*at)
        return value if alpha == 1 else value * k.number(alpha, x.dtype)

    return scattered(
        k,
        x,
        source.sizes,
        lambda at: replaced(at, dim, index.get(at[dim]).checked_from_zero(x.sizes[dim])),
        update,
        "sum",
    )


def _embedding_backward(
    k: Lowering,
    grad: Tensor,
    indices: Tensor,
    rows: int,
    padding: int,
    by_frequency: bool,
) -> Scattered:
    require(not by_frequency and indices.dtype in INDICES, "scaled by frequency")
    width = grad.sizes[-1]
    dtype = computed_in(grad.dtype)
    require(dtype is grad.dtype, "a running sum of a narrow dtype")
    zeros = k.define([rows, width], grad.dtype, lambda *_: k.number(0, dtype))

    def update(at: Sequence[Expr]) -> Expr:
        value = grad.get(*at)
        is_padding = indices.get(*at[:-1]).eq(padding)
        return value if padding < 0 else is_padding.where(0, value)

    return scattered(
        k,
        zeros,
        [*indices.sizes, width],
        lambda at: [indices.get(*at[:-1]).checked_from_zero(rows), at[-1]],
        update,
        "sum",
    )


def _unfold_backward(
    k: Lowering, grad: Tensor, sizes: Sequence[int], dim: int, size: int, step: int
) -> Scattered:
    """Each element of a window is added where it was read; dims of length 1 are expanded."""
    dim = dim_of(dim, len(sizes))
    windows = (*replaced(sizes, dim, grad.sizes[dim]), grad.sizes[-1])
    require(layout.broadcast([grad.sizes, windows]) == windows, "sizes differ")
    zeros = k.define(sizes, grad.dtype, lambda *_: k.number(0, grad.dtype))
    return scattered(
        k,
        zeros,
        windows,
        lambda at: replaced(at[:-1], dim, at[dim] * step + at[-1]),
        lambda at: k.expr(k.broadcast(grad, [place.node for place in at])),
        "sum",
    )


def _unsafe_masked_index(
    k: Lowering, x: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Scalar
) -> Tensor:
    """Where the mask is false, an index may lie anywhere."""
    plan = _Indexing(x, indices, clamped=True)
    number = k.number(fill, x.dtype)
    require(mask.dtype is torch.bool, "no mask")
    fits = layout.broadcast([mask.sizes, plan.result]) == plan.result
    require(fits, "a mask of more elements than are chosen")

    def element(*at: Expr) -> Expr:
        place = k.expr(k.broadcast(mask, [i.node for i in at]))
        return place.where(x.get(*plan.index(k, x, at)), number)

    return k.define(plan.result, x.dtype, element)


def _take(k: Lowering, x: Tensor, index: Tensor) -> Tensor:
    require(index.dtype in INDICES, "no indices")
    require(0 not in x.sizes, "of nothing, whatever is taken is out of range")
    require(not same(x.numel, 1), "an index that does not matter")

    def element(*at: Expr) -> list[Expr]:
        flat, own = index.get(*at).checked(x.numel), []
        for size in reversed(x.sizes):
            own.append(flat % size)
            flat = flat // size
        return own[::-1]

    return k.viewed(x, index.sizes, element)


ROWS: Mapping[str, Any] = named(
    {
        "embedding": _embedding,
        "gather": _gather,
        "index_select": _index_select,
        "index index.Tensor_hacked_twin _unsafe_index _unsafe_index.Tensor_hacked_twin": _index,
        "_unsafe_masked_index": _unsafe_masked_index,
        "unfold_backward": _unfold_backward,
        "take": _take,
        "index_put index_put.hacked_twin _unsafe_index_put _unsafe_index_put.hacked_twin": (
            _index_put
        ),
        "scatter.src scatter.value": _scatter(None),
        "scatter_add": _scatter("sum"),
        "scatter_reduce.two": _scatter_reduce,
        "index_add": _index_add,
        "index_fill.int_Scalar index_fill.int_Tensor": _index_fill,
        "embedding_dense_backward": _embedding_backward,
    }
)
