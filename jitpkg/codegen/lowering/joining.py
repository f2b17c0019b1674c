"""Tensors put together, padded and cut; what is read beyond the end of one is masked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.indexing import scattered
from jitpkg.codegen.lowering.promotion import promoted
from jitpkg.codegen.lowering.table import (
    Lowering,
    Row,
    Scalar,
    Scattered,
    Tensor,
    dim_of,
    named,
    require,
)
from jitpkg.codegen.lowering.views import bounds, replaced, unsqueeze, without

MOST_JOINED = 32
"""Each element chooses among all operands; beyond this ATen's copies are better."""


def _cat(k: Lowering, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    dtype = promoted(tensors)
    tensors = [x for x in tensors if x.sizes != (0,)] or list(tensors[:1])
    first = tensors[0]
    dim = dim_of(dim, first.rank)
    require(first.rank > 0 and len(tensors) <= MOST_JOINED, "too many to be joined")
    for x in tensors:
        require(without(x.sizes, dim) == without(first.sizes, dim), "sizes differ")
    lengths = [x.sizes[dim] for x in tensors]
    tensors = [x for x in tensors if x.sizes[dim]] or [first]
    starts = [sum(x.sizes[dim] for x in tensors[:n]) for n in range(len(tensors))]

    def element(*at: Expr) -> Expr:
        found: Expr | None = None
        for x, start in reversed(list(zip(tensors, starts, strict=True))):
            end = start + x.sizes[dim]
            inside = (at[dim] >= start) & (at[dim] < end)
            part = x.get(*replaced(at, dim, at[dim] - start), where=inside).cast(dtype)
            found = part if found is None else (at[dim] < end).where(part, found)
        assert found is not None
        return found

    return k.define(replaced(first.sizes, dim, sum(lengths)), dtype, element)


def _stack(k: Lowering, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    dim = dim_of(dim, tensors[0].rank + 1)
    return _cat(k, [unsqueeze(k, x, dim) for x in tensors], dim)


# Padding


def _pads(x: Tensor, pad: Sequence[int]) -> list[tuple[int, int]]:
    """How much before and behind each dim; given from the last dim on."""
    require(len(pad) % 2 == 0 and len(pad) // 2 <= x.rank, "too many pads")
    pairs = [(pad[n], pad[n + 1]) for n in range(0, len(pad), 2)]
    return [(0, 0)] * (x.rank - len(pairs)) + pairs[::-1]


def _padded(x: Tensor, pads: Sequence[tuple[int, int]]) -> list[int]:
    sizes = [before + n + behind for n, (before, behind) in zip(x.sizes, pads, strict=True)]
    require(all(size >= 0 for size in sizes), "less than nothing")
    return sizes


def _constant_pad(k: Lowering, x: Tensor, pad: Sequence[int], value: Scalar = 0) -> Tensor:
    pads = _pads(x, pad)
    fill = k.number(value, x.dtype)

    def element(*at: Expr) -> Expr:
        inside, own = k.true(), []
        for place, n, (before, _) in zip(at, x.sizes, pads, strict=True):
            place = place - before
            inside = inside & (place >= 0) & (place < n)
            own.append(place)
        found = x.get(*own, where=inside)
        return found if value == 0 else inside.where(found, fill)

    return k.define(_padded(x, pads), x.dtype, element)


def _pad_by(place: Callable[[Expr, int], Expr], dims: int) -> Row:
    """A pad that reads the tensor at other places; `dims` are padded."""

    def row(k: Lowering, x: Tensor, pad: Sequence[int]) -> Tensor:
        require(len(pad) == 2 * dims and min(x.sizes[-dims:]) > 0, "no such pad")
        pads = _pads(x, pad)

        def index(*at: Expr) -> list[Expr]:
            return [
                at if pad == (0, 0) else place(at - pad[0], n)
                for at, n, pad in zip(at, x.sizes, pads, strict=True)
            ]

        return k.viewed(x, _padded(x, pads), index)

    return row


def _reflected(at: Expr, n: int) -> Expr:
    at = abs(at)
    return (at < n).where(at, (2 * n - 2) - at)


def _replicated(at: Expr, n: int) -> Expr:
    return at.maximum(0).minimum(n - 1)


def _pad_backward(place: Callable[[Expr, int], Expr], dims: int) -> Row:
    """Each element of the gradient is added where the pad has read."""

    def row(k: Lowering, grad: Tensor, x: Tensor, pad: Sequence[int]) -> Scattered:
        require(len(pad) == 2 * dims and min(x.sizes[-dims:]) > 0, "no such pad")
        pads = _pads(x, pad)

        def index(at: Sequence[Expr]) -> list[Expr]:
            return [
                at if pad == (0, 0) else place(at - pad[0], n)
                for at, n, pad in zip(at, x.sizes, pads, strict=True)
            ]

        zeros = k.define(x.sizes, x.dtype, lambda *_: k.number(0, x.dtype))
        return scattered(k, zeros, grad.sizes, index, lambda at: grad.get(*at), "sum")

    return row


# A part put into a tensor


def _select_scatter(k: Lowering, x: Tensor, source: Tensor, dim: int, place: int) -> Tensor:
    require(x.rank > 0, "no dims")
    dim = dim_of(dim, x.rank)
    require(source.sizes == tuple(without(x.sizes, dim)), "sizes differ")
    require(-x.sizes[dim] <= place < x.sizes[dim], "there is no such place")
    place %= x.sizes[dim]

    def element(*at: Expr) -> Expr:
        return at[dim].eq(place).where(source.get(*without(at, dim)).cast(x.dtype), x.get(*at))

    return k.define(x.sizes, x.dtype, element)


def _slice_scatter(
    k: Lowering,
    x: Tensor,
    source: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    require(x.rank > 0, "no dims")
    dim = dim_of(dim, x.rank)
    first, last = bounds(x.sizes[dim], start, end)
    count = -(-(last - first) // step)
    require(source.sizes == tuple(replaced(x.sizes, dim, count)), "sizes differ")
    if (first, last, step) == (0, x.sizes[dim], 1):
        return k.cast(source, x.dtype)

    def element(*at: Expr) -> Expr:
        inside, place = _in_slice(at[dim], first, last, step)
        part = source.get(*replaced(at, dim, place), where=inside).cast(x.dtype)
        return inside.where(part, x.get(*at))

    return k.define(x.sizes, x.dtype, element)


def _in_slice(at: Expr, first: int, last: int, step: int) -> tuple[Expr, Expr]:
    """Whether a place is one of a slice, and its place there."""
    inside = (at >= first) & (at < last)
    if step == 1:
        return inside, at - first
    return inside & ((at - first) % step).eq(0), (at - first) // step


def _diagonal_scatter(
    k: Lowering, x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    dim1, dim2 = dim_of(dim1, x.rank), dim_of(dim2, x.rank)
    kept = [d for d in range(x.rank) if d not in (dim1, dim2)]
    rows, columns = x.sizes[dim1] + min(offset, 0), x.sizes[dim2] - max(offset, 0)
    length = max(min(rows, columns), 0)
    require(source.sizes == (*(x.sizes[d] for d in kept), length), "sizes differ")

    def element(*at: Expr) -> Expr:
        on = (at[dim2] - at[dim1]).eq(offset)
        place = at[dim1] - max(-offset, 0)
        part = source.get(*(at[d] for d in kept), place, where=on)
        return on.where(part.cast(x.dtype), x.get(*at))

    return k.define(x.sizes, x.dtype, element)


def _select_backward(
    k: Lowering, grad: Tensor, sizes: Sequence[int], dim: int, place: int
) -> Tensor:
    dim = dim_of(dim, len(sizes))
    place %= sizes[dim]

    def element(*at: Expr) -> Expr:
        return grad.get(*without(at, dim), where=at[dim].eq(place))

    return k.define(sizes, grad.dtype, element)


def _slice_backward(
    k: Lowering, grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Tensor:
    dim = dim_of(dim, len(sizes))
    first, last = bounds(sizes[dim], start, end)

    def element(*at: Expr) -> Expr:
        inside, place = _in_slice(at[dim], first, last, step)
        return grad.get(*replaced(at, dim, place), where=inside)

    return k.define(sizes, grad.dtype, element)


def _diagonal_backward(
    k: Lowering, grad: Tensor, sizes: Sequence[int], offset: int, dim1: int, dim2: int
) -> Tensor:
    zeros = k.define(sizes, grad.dtype, lambda *_: k.number(0, grad.dtype))
    return _diagonal_scatter(k, zeros, grad, offset, dim1, dim2)


# Triangles


def _triangle(keep: Callable[[Expr, int], Expr]) -> Row:
    def row(k: Lowering, x: Tensor, diagonal: int = 0) -> Tensor:
        require(x.rank >= 2, "no matrix")

        def element(*at: Expr) -> Expr:
            return keep(at[-1] - at[-2], diagonal).where(x.get(*at), k.number(0, x.dtype))

        return k.define(x.sizes, x.dtype, element)

    return row


ROWS: Mapping[str, Any] = named(
    {
        "cat concat concatenate": _cat,
        "stack": _stack,
        "constant_pad_nd": _constant_pad,
        "reflection_pad1d": _pad_by(_reflected, 1),
        "reflection_pad2d": _pad_by(_reflected, 2),
        "reflection_pad3d": _pad_by(_reflected, 3),
        "replication_pad1d": _pad_by(_replicated, 1),
        "replication_pad2d": _pad_by(_replicated, 2),
        "replication_pad3d": _pad_by(_replicated, 3),
        **{
            f"{name}_pad{dims}d_backward": _pad_backward(place, dims)
            for name, place in (("reflection", _reflected), ("replication", _replicated))
            for dims in (1, 2, 3)
        },
        "select_scatter": _select_scatter,
        "slice_scatter": _slice_scatter,
        "diagonal_scatter": _diagonal_scatter,
        "select_backward": _select_backward,
        "slice_backward": _slice_backward,
        "diagonal_backward": _diagonal_backward,
        "triu": _triangle(lambda distance, diagonal: distance >= diagonal),
        "tril": _triangle(lambda distance, diagonal: distance <= diagonal),
    }
)
