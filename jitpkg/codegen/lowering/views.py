"""Views: another index for the same elements. What lies in memory how is not seen here."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from jitpkg.codegen.ir.extents import varies
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.table import (
    Lowering,
    Tensor,
    dim_of,
    named,
    product,
    require,
)


def replaced(items: Sequence[Any], place: int, value: Any) -> list[Any]:
    return [value if d == place else item for d, item in enumerate(items)]


def without(items: Sequence[Any], place: int) -> list[Any]:
    return [item for d, item in enumerate(items) if d != place]


# Other sizes


def view(k: Lowering, x: Tensor, sizes: Sequence[int], *_: Any) -> Tensor:
    sizes = _known_sizes(x, sizes)
    if sizes == x.sizes:
        return x
    if product(sizes) == 0:
        return k.nothing(sizes, x.dtype)
    groups = _groups(x.sizes, sizes)

    def index(*at: Expr) -> list[Expr]:
        own: list[Expr] = [k.index(0)] * x.rank
        for old, new in groups:
            flat = flattened(k, [at[d] for d in new], [sizes[d] for d in new])
            for d, place in zip(old, unflattened(flat, [x.sizes[d] for d in old]), strict=True):
                own[d] = place
        return own

    return k.viewed(x, sizes, index)


def _known_sizes(x: Tensor, sizes: Sequence[int]) -> tuple[int, ...]:
    known = product([n for n in sizes if n != -1])
    require(list(sizes).count(-1) <= 1, "two unknown sizes")
    if -1 in sizes:
        require(known > 0 and x.numel % known == 0, "sizes that do not go together")
        sizes = [x.numel // known if n == -1 else n for n in sizes]
    require(product(sizes) == x.numel, "sizes that do not go together")
    return tuple(sizes)


def _groups(
    old: Sequence[int], new: Sequence[int]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The dims that are merged and split again, side by side; dims of length 1 are in none."""
    left = [d for d, n in enumerate(old) if n != 1]
    right = [d for d, n in enumerate(new) if n != 1]
    groups = []
    while left:
        mine, yours = [left.pop(0)], [right.pop(0)]
        a, b = old[mine[0]], new[yours[0]]
        while a != b:
            if a < b:
                mine.append(left.pop(0))
                a *= old[mine[-1]]
            else:
                yours.append(right.pop(0))
                b *= new[yours[-1]]
        groups.append((tuple(mine), tuple(yours)))
    return groups


def flattened(k: Lowering, index: Sequence[Expr], sizes: Sequence[int]) -> Expr:
    flat = k.index(0)
    for at, size in zip(index, sizes, strict=True):
        flat = flat * size + at
    return flat


def unflattened(flat: Expr, sizes: Sequence[int]) -> list[Expr]:
    found: list[Expr] = []
    for size in reversed(sizes[1:]):
        found.append(flat % size)
        flat = flat // size
    return [flat, *reversed(found)] if sizes else []


def _flatten(k: Lowering, x: Tensor, start: int = 0, end: int = -1) -> Tensor:
    start, end = dim_of(start, x.rank), dim_of(end, x.rank)
    if x.rank == 0:
        return view(k, x, [1])
    return view(k, x, [*x.sizes[:start], product(x.sizes[start : end + 1]), *x.sizes[end + 1 :]])


def unsqueeze(k: Lowering, x: Tensor, dim: int) -> Tensor:
    dim = dim_of(dim, x.rank + 1)
    return k.viewed(x, [*x.sizes[:dim], 1, *x.sizes[dim:]], lambda *at: without(at, dim))


def _squeeze(k: Lowering, x: Tensor, dims: int | Sequence[int] | None = None) -> Tensor:
    if dims is None:
        dims = range(x.rank)
    elif isinstance(dims, int):
        dims = [dims]
    gone = {dim_of(d, x.rank) for d in dims if x.rank and x.sizes[dim_of(d, x.rank)] == 1}
    kept = [d for d in range(x.rank) if d not in gone]

    def index(*at: Expr) -> list[Expr]:
        own = [k.index(0)] * x.rank
        for d, place in zip(kept, at, strict=True):
            own[d] = place
        return own

    return k.viewed(x, [x.sizes[d] for d in kept], index)


def expand(k: Lowering, x: Tensor, sizes: Sequence[int], **_: Any) -> Tensor:
    missing = len(sizes) - x.rank
    require(missing >= 0, "fewer dims")
    full = [x.sizes[d - missing] if n == -1 else n for d, n in enumerate(sizes)]
    require(
        all(own in (1, n) for own, n in zip(x.sizes, full[missing:], strict=True)),
        "sizes that do not go together",
    )
    return k.tensor(full, x.dtype, lambda *at: k.broadcast(x, at))


# Order of dims


def permute(k: Lowering, x: Tensor, dims: Sequence[int]) -> Tensor:
    order = [dim_of(d, x.rank) for d in dims]
    require(sorted(order) == list(range(x.rank)), "not every dim once")
    return k.viewed(
        x, [x.sizes[d] for d in order], lambda *at: [at[order.index(d)] for d in range(x.rank)]
    )


def _transpose(k: Lowering, x: Tensor, first: int, second: int) -> Tensor:
    if x.rank == 0:
        return x
    order = list(range(x.rank))
    a, b = dim_of(first, x.rank), dim_of(second, x.rank)
    order[a], order[b] = b, a
    return permute(k, x, order)


def _t(k: Lowering, x: Tensor) -> Tensor:
    require(x.rank <= 2, "more than two dims")
    return permute(k, x, list(reversed(range(x.rank))))


# Parts


def select(k: Lowering, x: Tensor, dim: int, place: int) -> Tensor:
    dim = dim_of(dim, x.rank)
    require(x.rank > 0 and -x.sizes[dim] <= place < x.sizes[dim], "no such place")
    place %= x.sizes[dim]
    return k.viewed(x, without(x.sizes, dim), lambda *at: [*at[:dim], place, *at[dim:]])


def bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Where a slice starts and ends: what lies outside is cut off."""
    if varies(size) or varies(start) or varies(end):
        first, last = _place(size, start or 0), size if end is None else _place(size, end)
        return first, first if last < first else last
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


def _place(size: int, at: int) -> int:
    """A place counted from the front, and not outside."""
    if type(at) is int and at >= sys.maxsize:
        return size
    if at < 0:
        at = at + size
    if at < 0:
        return 0
    return size if at > size else at


def slice_(
    k: Lowering,
    x: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    dim = dim_of(dim, x.rank)
    require(x.rank > 0 and step > 0, "no such slice")
    first, last = bounds(x.sizes[dim], start, end)
    count = -(-(last - first) // step)
    return k.viewed(
        x,
        replaced(x.sizes, dim, count),
        lambda *at: replaced(at, dim, at[dim] * step + first),
    )


def _narrow(k: Lowering, x: Tensor, dim: int, start: int, length: int) -> Tensor:
    dim = dim_of(dim, x.rank)
    start = start + x.sizes[dim] if start < 0 else start
    require(0 <= start <= start + length <= x.sizes[dim], "no such part")
    return slice_(k, x, dim, start, start + length)


def _split(k: Lowering, x: Tensor, size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    dim = dim_of(dim, x.rank)
    length = x.sizes[dim]
    if isinstance(size, int):
        if size == 0:
            require(length == 0, "parts of nothing")
            return (x,)
        size = [min(size, length - at) for at in range(0, length, size)] or [0]
    require(sum(size) == length, "parts that are not the whole")
    return tuple(_narrow(k, x, dim, sum(size[:n]), part) for n, part in enumerate(size))


def _unbind(k: Lowering, x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    dim = dim_of(dim, x.rank)
    return tuple(select(k, x, dim, place) for place in range(x.sizes[dim]))


def _diagonal(k: Lowering, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    dim1, dim2 = dim_of(dim1, x.rank), dim_of(dim2, x.rank)
    require(dim1 != dim2, "one dim")
    down, right = max(-offset, 0), max(offset, 0)
    length = max(min(x.sizes[dim1] - down, x.sizes[dim2] - right), 0)
    kept = [d for d in range(x.rank) if d not in (dim1, dim2)]

    def index(*at: Expr) -> list[Expr]:
        own = [k.index(0)] * x.rank
        for d, place in zip(kept, at, strict=False):
            own[d] = place
        own[dim1], own[dim2] = at[-1] + down, at[-1] + right
        return own

    return k.viewed(x, [*(x.sizes[d] for d in kept), length], index)


def _unfold(k: Lowering, x: Tensor, dim: int, size: int, step: int) -> Tensor:
    dim = dim_of(dim, x.rank)
    require(x.rank > 0 and 0 <= size <= x.sizes[dim] and step > 0, "no such windows")
    count = (x.sizes[dim] - size) // step + 1
    return k.viewed(
        x,
        [*replaced(x.sizes, dim, count), size],
        lambda *at: replaced(at[:-1], dim, at[dim] * step + at[-1]),
    )


# Repeated and turned around


def _flip(k: Lowering, x: Tensor, dims: Sequence[int]) -> Tensor:
    turned = {dim_of(d, x.rank) for d in dims}
    return k.viewed(
        x,
        x.sizes,
        lambda *at: [
            (x.sizes[d] - 1) - place if d in turned else place for d, place in enumerate(at)
        ],
    )


def _roll(k: Lowering, x: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        require(len(shifts) == 1, "shifts without dims")
        return view(k, _roll(k, view(k, x, [x.numel]), shifts, [0]), x.sizes)
    require(len(shifts) == len(dims), "shifts without dims")
    if x.rank == 0 or x.numel == 0:
        return x
    by = [0] * x.rank
    for shift, dim in zip(shifts, dims, strict=True):
        by[dim_of(dim, x.rank)] += shift

    def index(*at: Expr) -> list[Expr]:
        return [
            place if by[d] % n == 0 else (place + (-by[d]) % n) % n
            for d, (place, n) in enumerate(zip(at, x.sizes, strict=True))
        ]

    return k.viewed(x, x.sizes, index)


def _repeat(k: Lowering, x: Tensor, repeats: Sequence[int]) -> Tensor:
    missing = len(repeats) - x.rank
    require(missing >= 0, "fewer dims")
    sizes = [1] * missing + list(x.sizes)
    total = [n * times for n, times in zip(sizes, repeats, strict=True)]
    if product(total) == 0:
        return k.nothing(total, x.dtype)
    return k.viewed(
        x, total, lambda *at: [p % n for p, n in zip(at[missing:], x.sizes, strict=True)]
    )


ROWS: Mapping[str, Any] = named(
    {
        "view reshape _unsafe_view view_copy _reshape_alias _reshape_copy": view,
        "flatten.using_ints": _flatten,
        "unsqueeze unsqueeze_copy": unsqueeze,
        "squeeze squeeze.dim squeeze.dims": _squeeze,
        "squeeze_copy squeeze_copy.dim squeeze_copy.dims": _squeeze,
        "expand expand_copy": expand,
        "permute permute_copy": permute,
        "transpose.int transpose_copy.int swapaxes swapdims": _transpose,
        "t t_copy": _t,
        "select.int select_copy.int": select,
        "slice slice_copy": slice_,
        "narrow narrow_copy": _narrow,
        "split.Tensor split_copy.Tensor unsafe_split.Tensor": _split,
        "split.sizes split_with_sizes split_with_sizes_copy unsafe_split_with_sizes": _split,
        "unbind.int unbind_copy.int": _unbind,
        "diagonal diagonal_copy": _diagonal,
        "unfold unfold_copy": _unfold,
        "flip": _flip,
        "roll": _roll,
        "repeat": _repeat,
    }
)
