"""Windows over the last two dims, and images of other sizes.

A derivative is taken by gathering where the windows allow it, and by scattering where positions
come out of data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import INDEX
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.indexing import scattered
from jitpkg.codegen.lowering.promotion import computed_in
from jitpkg.codegen.lowering.table import (
    Lowering,
    Row,
    Scattered,
    Tensor,
    named,
    product,
    require,
)


class _Windows:
    """Where windows lie along the pooled dims of a tensor."""

    def __init__(
        self,
        k: Lowering,
        sizes: Sequence[int],
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int] = (1,),
        ceil: bool = False,
    ) -> None:
        rank = 2
        require(len(sizes) in (3, 4) and product(sizes) > 0, "no image")
        self.k = k
        self.input = list(sizes[-rank:])
        self.kernel = _each(kernel, rank)
        self.stride = _each(stride, rank) if stride else self.kernel
        self.padding, self.dilation = _each(padding, rank), _each(dilation, rank)
        self.counts = [
            _window_count(*given, ceil)
            for given in zip(
                self.input, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        ]
        self.sizes = [*sizes[:-rank], *self.counts]
        self.reach = [
            min(size, -(-(n + p) // d)) if type(n) is int else size
            for n, size, p, d in zip(
                self.input, self.kernel, self.padding, self.dilation, strict=True
            )
        ]
        """How much of a window may lie inside: no more than there is, of one that is larger."""

    def places(self, at: Sequence[Expr], inner: Sequence[Expr]) -> list[Expr]:
        """The place in the input of an element of a window; it may lie outside."""
        return [
            window * s + a * d - p
            for window, a, s, p, d in zip(
                at, inner, self.stride, self.padding, self.dilation, strict=True
            )
        ]

    def inside(self, places: Sequence[Expr]) -> Expr:
        found = self.k.true()
        for place, n in zip(places, self.input, strict=True):
            found = found & (place >= 0) & (place < n)
        return found

    def divisor(self, at: Sequence[Expr], with_padding: bool) -> Expr:
        """How many elements a window has."""
        total = self.k.index(1)
        for window, n, size, s, p in zip(
            at, self.input, self.kernel, self.stride, self.padding, strict=True
        ):
            start = window * s - p
            if with_padding:
                total = total * ((start + size).minimum(n + p) - start)
            else:
                total = total * ((start + size).minimum(n) - start.maximum(0))
        return total

    @property
    def is_divided_evenly(self) -> bool:
        """Whether every window has all of its elements, padding counted."""
        return all(
            (count - 1) * s + size <= n + 2 * p
            for count, n, size, s, p in zip(
                self.counts, self.input, self.kernel, self.stride, self.padding, strict=True
            )
        )


def _each(given: Sequence[int] | int, rank: int) -> list[int]:
    given = [given] if isinstance(given, int) else list(given)
    return given * rank if len(given) == 1 else given


def _window_count(n: int, size: int, stride: int, pad: int, dilation: int, ceil: bool) -> int:
    """As `pooling_output_shape` of ATen: the last window starts inside or in the padding before."""
    span = n + 2 * pad - dilation * (size - 1) - 1
    count = (-(-span // stride) if ceil else span // stride) + 1
    if ceil and (count - 1) * stride >= n + pad:
        count -= 1
    require(count > 0, "no window")
    return count


# Means


def _avg_pool(
    k: Lowering,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil: bool = False,
    count_padding: bool = True,
    divisor: int | None = None,
) -> Tensor:
    w = _Windows(k, x.sizes, kernel, stride, padding, ceil=ceil)
    wide = computed_in(x.dtype)
    require(wide.is_floating_point, "a mean of integers")
    inner = [k.axis(n) for n in w.reach]

    def element(*at: Expr) -> Expr:
        places = w.places(at[-2:], inner)
        value = x.get(*at[:-2], *places, where=w.inside(places)).cast(wide)
        return value.fold("sum", inner) / _divisor(w, at[-2:], count_padding, divisor, wide)

    return k.define(w.sizes, x.dtype, element)


def _divisor(
    w: _Windows, at: Sequence[Expr], count_padding: bool, divisor: int | None, dtype: torch.dtype
) -> Expr:
    if divisor is None and w.is_divided_evenly and (count_padding or not any(w.padding)):
        divisor = product(w.kernel)
    if divisor is not None:
        return w.k.number(divisor, dtype)
    return w.divisor(at, count_padding).cast(dtype)


def _avg_pool_backward(
    k: Lowering,
    grad: Tensor,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil: bool,
    count_padding: bool,
    divisor: int | None,
) -> Tensor:
    w = _Windows(k, x.sizes, kernel, stride, padding, ceil=ceil)
    wide = computed_in(x.dtype)
    inner = [k.axis(n) for n in w.reach]

    def element(*at: Expr) -> Expr:
        hit, windows = k.true(), []
        for place, a, s, p, count in zip(
            at[-2:], inner, w.stride, w.padding, w.counts, strict=True
        ):
            first = place + p - a
            hit = hit & (first >= 0) & (first < count * s)
            hit = hit & (first % s).eq(0) if s > 1 else hit
            windows.append(first // s if s > 1 else first)
        value = grad.get(*at[:-2], *windows, where=hit).cast(wide)
        share = value / _divisor(w, windows, count_padding, divisor, wide)
        return hit.where(share, 0).fold("sum", inner)

    return k.define(x.sizes, x.dtype, element)


def _adaptive_avg_pool(k: Lowering, x: Tensor, counts: Sequence[int]) -> Tensor:
    """A window goes from `floor(i * n / count)` to `ceil((i + 1) * n / count)`."""
    require(x.rank in (3, 4) and x.numel > 0 and min(counts) > 0, "no image")
    wide = computed_in(x.dtype)
    require(wide.is_floating_point, "a mean of integers")
    image = x.sizes[-2:]
    pairs = list(zip(image, counts, strict=True))
    longest = [n // c if n % c == 0 else -(-n // c) + 1 for n, c in pairs]
    inner = [k.axis(min(m, n)) for m, n in zip(longest, image, strict=True)]

    def element(*at: Expr) -> Expr:
        mask, places, total = k.true(), [], k.number(1, wide)
        for window, a, (n, c) in zip(at[-2:], inner, pairs, strict=True):
            first, last = (window * n) // c, ((window + 1) * n + (c - 1)) // c
            place = first + a
            if n % c:
                mask = mask & (place < last)
            places.append(place)
            total = total * (last - first).cast(wide)
        value = x.get(*at[:-2], *places, where=mask).cast(wide)
        return value.fold("sum", inner) / total

    return k.define([*x.sizes[:-2], *counts], x.dtype, element)


def _adaptive_avg_pool_backward(k: Lowering, grad: Tensor, x: Tensor) -> Tensor:
    pairs = list(zip(x.sizes[-2:], grad.sizes[-2:], strict=True))
    require(all(n and c and n % c == 0 for n, c in pairs), "windows of several lengths")
    share = 1 / product([n // c for n, c in pairs])

    def element(*at: Expr) -> Expr:
        windows = [place // (n // c) for place, (n, c) in zip(at[-2:], pairs, strict=True)]
        return grad.get(*at[:-2], *windows).cast(computed_in(x.dtype)) * share

    return k.define(x.sizes, x.dtype, element)


# Extremes


def _max_pool(
    k: Lowering,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil: bool = False,
) -> tuple[Tensor, Tensor]:
    """What lies outside is replaced by the nearest element: of the same window, so no new value,
    and in an order that keeps the first extreme the first.

    Of several NaNs in a window the index is that of the first, where ATen gives the last.
    """
    w = _Windows(k, x.sizes, kernel, stride, padding, dilation, ceil)
    clipped = any(w.padding) or not w.is_divided_evenly
    require(w.dilation == [1, 1] or not (clipped or ceil), "a window with gaps over the border")
    wide = computed_in(x.dtype)
    width = w.input[1]

    def places(at: Sequence[Expr], inner: Sequence[Expr]) -> list[Expr]:
        found = w.places(at, inner)
        if not clipped:
            return found
        return [place.maximum(0).minimum(n - 1) for place, n in zip(found, w.input, strict=True)]

    def most(*at: Expr) -> Expr:
        inner = [k.axis(n) for n in w.reach]
        return x.get(*at[:-2], *places(at[-2:], inner)).cast(wide).fold("max", inner)

    def place_of_most(*at: Expr) -> Expr:
        flat = k.axis(product(w.reach))
        inner = [flat // w.reach[1], flat % w.reach[1]]
        value = x.get(*at[:-2], *places(at[-2:], inner)).cast(wide)
        if product(w.reach) == 1:
            found = k.index(0)
        else:
            found = value.fold("argmax", [flat])
        row, column = places(at[-2:], [found // w.reach[1], found % w.reach[1]])
        return row * width + column

    return k.define(w.sizes, x.dtype, most), k.define(w.sizes, INDEX, place_of_most)


def _max_pool_backward(
    k: Lowering,
    grad: Tensor,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil: bool,
    indices: Tensor,
) -> Scattered:
    """Each window adds to one element: 10 times as fast as each element looking at its windows."""
    require(x.dtype.is_floating_point and grad.dtype is x.dtype, "images of integers")
    zeros = k.define(x.sizes, x.dtype, lambda *_: k.number(0, x.dtype))
    height, width = x.sizes[-2:]

    def index(at: Sequence[Expr]) -> list[Expr]:
        flat = indices.get(*at).checked_from_zero(height * width)
        return [*at[:-2], flat // width, flat % width]

    return scattered(k, zeros, grad.sizes, index, lambda at: grad.get(*at), "sum")


# Other sizes


def _scale(n: int, count: int, given: float | None) -> float:
    """Input elements for each of the output, as a float32."""
    scale = 1 / given if given is not None and given > 0 else n / count
    return float(torch.tensor(scale, dtype=torch.float32))


def _nearest(exact: bool) -> Row:
    """Which element an output takes is computed now, as ATen does it, and must have a formula."""

    def row(k: Lowering, x: Tensor, counts: Sequence[int], *scales: float | None) -> Tensor:
        rank = len(counts)
        require(x.rank == rank + 2 and x.numel > 0, "no image")
        given = [*scales, *(None,) * rank][:rank]
        formulas = [
            _nearest_formula(n, c, s, exact)
            for n, c, s in zip(x.sizes[2:], counts, given, strict=True)
        ]
        return k.viewed(
            x,
            [*x.sizes[:2], *counts],
            lambda *at: [*at[:2], *(f(i) for f, i in zip(formulas, at[2:], strict=True))],
        )

    return row


def _nearest_formula(
    n: int, count: int, given: float | None, exact: bool
) -> Callable[[Expr], Expr]:
    half = 0.5 if exact else 0.0
    at = torch.arange(count, dtype=torch.float32)
    taken = ((at + half) * _scale(n, count, given)).floor().to(torch.int64).clamp(max=n - 1)
    by = (2 * torch.arange(count) + 1) * n // (2 * count) if exact else at.long() * n // count
    require(torch.equal(taken, by), "sizes whose ratio is rounded")
    if exact:
        return lambda i: ((i * 2 + 1) * n) // (2 * count)
    return lambda i: (i * n) // count


def _nearest_backward(exact: bool) -> Row:
    def row(
        k: Lowering,
        grad: Tensor,
        counts: Sequence[int],
        sizes: Sequence[int],
        *scales: float | None,
    ) -> Tensor | Scattered:
        rank = len(counts)
        require(product(sizes) > 0, "no image")
        given = [*scales, *(None,) * rank][:rank]
        factors, formulas = [], []
        for n, c, s in zip(sizes[2:], counts, given, strict=True):
            formulas.append(_nearest_formula(n, c, s, exact))
            factors.append(c // n)
        if any(c % n for n, c in zip(sizes[2:], counts, strict=True)):
            return _given_back(k, grad, sizes, formulas)
        inner = [k.axis(f) for f in factors]

        def element(*at: Expr) -> Expr:
            places = [i * f + a for i, f, a in zip(at[2:], factors, inner, strict=True)]
            value = grad.get(*at[:2], *places).cast(computed_in(grad.dtype))
            return value.fold("sum", inner)

        return k.define(sizes, grad.dtype, element)

    return row


def _given_back(
    k: Lowering,
    grad: Tensor,
    sizes: Sequence[int],
    formulas: Sequence[Callable[[Expr], Expr]],
) -> Scattered:
    """Each output gives to the element that it has taken."""
    zeros = k.define(sizes, grad.dtype, lambda *_: k.number(0, grad.dtype))
    return scattered(
        k,
        zeros,
        grad.sizes,
        lambda at: [*at[:2], *(f(i) for f, i in zip(formulas, at[2:], strict=True))],
        lambda at: grad.get(*at),
        "sum",
    )


def _bilinear(
    k: Lowering,
    x: Tensor,
    counts: Sequence[int],
    align: bool,
    *scales: float | None,
) -> Tensor:
    rank = len(counts)
    require(x.rank == rank + 2 and x.numel > 0 and x.dtype.is_floating_point, "no image")
    require(x.dtype not in ops.NARROW, "ATen rounds the weights of a narrow dtype")
    wide = computed_in(x.dtype)
    given = [*scales, *(None,) * rank][:rank]

    def element(*at: Expr) -> Expr:
        near = [
            _between(i, n, c, s, align, wide)
            for i, n, c, s in zip(at[2:], x.sizes[2:], counts, given, strict=True)
        ]
        total: Expr | None = None
        for corner in range(1 << rank):
            ends = [pair[corner >> (rank - 1 - d) & 1] for d, pair in enumerate(near)]
            value = x.get(*at[:2], *(place for place, _ in ends)).cast(wide)
            for _, weight in ends:
                value = value * weight
            total = value if total is None else total + value
        assert total is not None
        return total

    return k.define([*x.sizes[:2], *counts], x.dtype, element)


def _bilinear_backward(
    k: Lowering,
    grad: Tensor,
    counts: Sequence[int],
    sizes: Sequence[int],
    align: bool,
    *scales: float | None,
) -> Scattered:
    """Each output gives to the elements that it lies between."""
    rank = len(counts)
    require(product(sizes) > 0, "no image")
    given = [*scales, *(None,) * rank][:rank]
    zeros = k.define(sizes, grad.dtype, lambda *_: k.number(0, grad.dtype))

    def ends(at: Sequence[Expr]) -> list[tuple[Expr, Expr]]:
        images = zip(at[2:], sizes[2:], counts, given, at[2 + rank :], strict=False)
        found = []
        for i, n, c, s, end in images:
            low, high = _between(i, n, c, s, align, grad.dtype)
            first = end.eq(0)
            found.append((first.where(low[0], high[0]), first.where(low[1], high[1])))
        return found

    def update(at: Sequence[Expr]) -> Expr:
        value = grad.get(*at[: 2 + rank])
        for _, weight in ends(at):
            value = value * weight
        return value

    require(grad.dtype is computed_in(grad.dtype), "a running sum of a narrow dtype")
    over = [*grad.sizes, *(2,) * rank]
    return scattered(
        k, zeros, over, lambda at: [*at[:2], *(place for place, _ in ends(at))], update, "sum"
    )


def _between(
    at: Expr, n: int, count: int, given: float | None, align: bool, wide: torch.dtype
) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr]]:
    """The two elements that an output lies between, each with its weight."""
    require(n != count or given in (None, 1.0), "ATen's kernels differ in where they are")
    if align:
        scale = (n - 1) / (count - 1) if count > 1 else 0.0
        real = at.cast(wide) * scale
    else:
        scale = 1 / given if given is not None and given > 0 else n / count
        real = ((at.cast(wide) + 0.5) * scale - 0.5).maximum(0)
    low = real.apply("floor").cast(INDEX).minimum(n - 1)
    high = (low + 1).minimum(n - 1)
    weight = (real - low.cast(wide)).minimum(1)
    return (low, 1 - weight), (high, weight)


def _pixel_shuffle(k: Lowering, x: Tensor, factor: int) -> Tensor:
    require(x.rank >= 3 and x.sizes[-3] % factor**2 == 0, "no such channels")
    *outer, channels, height, width = x.sizes

    def index(*at: Expr) -> list[Expr]:
        *batch, c, i, j = at
        channel = (c * factor + i % factor) * factor + j % factor
        return [*batch, channel, i // factor, j // factor]

    sizes = [*outer, channels // factor**2, height * factor, width * factor]
    return k.viewed(x, sizes, index)


def _channel_shuffle(k: Lowering, x: Tensor, groups: int) -> Tensor:
    require(x.rank >= 3 and x.sizes[1] % groups == 0, "no such channels")
    each = x.sizes[1] // groups
    return k.viewed(x, x.sizes, lambda n, c, *at: [n, c % groups * each + c // groups, *at])


def _im2col(
    k: Lowering,
    x: Tensor,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    require(x.rank == 4, "no batch of images")
    w = _Windows(k, x.sizes, kernel, stride, padding, dilation)
    rows, columns = w.kernel

    def element(n: Expr, flat: Expr, window: Expr) -> Expr:
        inner = [flat // columns % rows, flat % columns]
        places = w.places([window // w.counts[1], window % w.counts[1]], inner)
        return x.get(n, flat // (rows * columns), *places, where=w.inside(places))

    sizes = [x.sizes[0], x.sizes[1] * rows * columns, product(w.counts)]
    return k.define(sizes, x.dtype, element)


def _pixel_unshuffle(k: Lowering, x: Tensor, factor: int) -> Tensor:
    *outer, channels, height, width = x.sizes
    require(height % factor == 0 and width % factor == 0, "no such image")

    def index(*at: Expr) -> list[Expr]:
        *batch, c, i, j = at
        rest = c % factor**2
        return [
            *batch,
            c // factor**2,
            i * factor + rest // factor,
            j * factor + rest % factor,
        ]

    sizes = [*outer, channels * factor**2, height // factor, width // factor]
    return k.viewed(x, sizes, index)


ROWS: Mapping[str, Any] = named(
    {
        "avg_pool2d": _avg_pool,
        "avg_pool2d_backward": _avg_pool_backward,
        "_adaptive_avg_pool2d": _adaptive_avg_pool,
        "_adaptive_avg_pool2d_backward": _adaptive_avg_pool_backward,
        "max_pool2d_with_indices": _max_pool,
        "max_pool2d_with_indices_backward": _max_pool_backward,
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d": _nearest(exact=False),
        "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d": _nearest(
            exact=True
        ),
        "upsample_nearest1d_backward upsample_nearest2d_backward "
        "upsample_nearest3d_backward": _nearest_backward(exact=False),
        "_upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward "
        "_upsample_nearest_exact3d_backward": _nearest_backward(exact=True),
        "upsample_linear1d upsample_bilinear2d upsample_trilinear3d": _bilinear,
        "upsample_linear1d_backward upsample_bilinear2d_backward "
        "upsample_trilinear3d_backward": _bilinear_backward,
        "pixel_shuffle": _pixel_shuffle,
        "channel_shuffle": _channel_shuffle,
        "im2col": _im2col,
        "pixel_unshuffle": _pixel_unshuffle,
    }
)
