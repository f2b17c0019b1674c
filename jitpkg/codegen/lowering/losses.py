"""Losses and their derivatives. A loss of a narrow dtype is summed in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.promotion import computed_in, promoted
from jitpkg.codegen.lowering.table import (
    Lowering,
    NotLowered,
    Row,
    Tensor,
    named,
    require,
)
from jitpkg.facts.layout import is_contiguous, preserved

NONE, MEAN, SUM = 0, 1, 2
"""How the losses of the elements become one: ATen's numbers for it."""


def _reduced(k: Lowering, losses: Tensor, dtype: torch.dtype, reduction: int) -> Tensor:
    """Losses in the dtype of arithmetic as the result."""
    if reduction == NONE:
        return k.cast(losses, dtype)
    total = k.fold("sum", losses, range(losses.rank))
    if reduction == MEAN:
        total = k.pointwise(lambda v: v / losses.numel, [total])
    return k.cast(total, dtype)


def _of_elements(loss: Callable[..., Expr]) -> Row:
    """`loss(x, y)` of each element; some have a number more."""

    def row(k: Lowering, x: Tensor, y: Tensor, reduction: int = MEAN, *number: float) -> Tensor:
        common = promoted([x, y])
        require(common.is_floating_point, "a loss of integers")
        wide = [k.wide(k.cast(each, common)) for each in (x, y)]
        return _reduced(k, k.pointwise(lambda a, b: loss(a, b, *number), wide), common, reduction)

    return row


def _slope_of_elements(slope: Callable[..., Expr]) -> Row:
    """`slope(x, y)` of each element times the loss's derivative."""

    def row(
        k: Lowering, grad: Tensor, x: Tensor, y: Tensor, reduction: int, *number: float
    ) -> Tensor:
        common = promoted([x, y])
        scale = 1 / x.numel if reduction == MEAN and x.numel else 1.0
        return k.pointwise(lambda g, a, b: slope(a, b, *number) * scale * g, [grad, x, y], common)

    return row


# Of distances


def _mse(k: Lowering, x: Tensor, y: Tensor, reduction: int = MEAN) -> Tensor:
    """ATen rounds the difference."""
    common = promoted([x, y])
    require(common.is_floating_point, "a loss of integers")
    apart = k.wide(k.pointwise(lambda a, b: a - b, [x, y]))
    return _reduced(k, k.pointwise(lambda d: d * d, [apart]), common, reduction)


def _squared_slope(a: Expr, b: Expr) -> Expr:
    return (a - b) * 2


def _huber(a: Expr, b: Expr, delta: float = 1.0) -> Expr:
    require(not delta <= 0, "a delta that is refused")
    far = abs(a - b)
    return (far <= delta).where(far * far * 0.5, (far - 0.5 * delta) * delta)


def _huber_slope(a: Expr, b: Expr, delta: float) -> Expr:
    far = a - b
    beyond = (far > 0).where(far.of(delta), far.of(-delta))
    return (abs(far) <= delta).where(far, beyond)


def _smooth(a: Expr, b: Expr, beta: float = 1.0) -> Expr:
    require(not beta < 0, "a beta that is refused")
    far = abs(a - b)
    if beta == 0:
        return far
    return (far < beta).where(far * far * 0.5 / beta, far - 0.5 * beta)


def _smooth_slope(a: Expr, b: Expr, beta: float) -> Expr:
    far = a - b
    sign = (far > 0).cast(far.dtype) - (far < 0).cast(far.dtype)
    return sign if beta == 0 else (abs(far) < beta).where(far / beta, sign)


# Of probabilities


def _cross_entropy(x: Expr, y: Expr) -> Expr:
    """The logarithms are cut off at -100."""
    low = x.of(-100)
    no = (-x).apply("log1p").maximum(low)
    return (y - 1) * no - y * x.log().maximum(low)


def _cross_entropy_slope(x: Expr, y: Expr) -> Expr:
    return (x - y) / ((1 - x) * x).maximum(1e-12)


def _weighted(k: Lowering, losses: Tensor, weight: Tensor | None) -> Tensor:
    if weight is None:
        return losses
    if k.common_sizes([losses, weight]) != losses.sizes:
        raise NotLowered("a weight that is larger")
    return k.pointwise(lambda v, w: v * w, [losses, k.cast(weight, losses.dtype)])


def _bce(
    k: Lowering, x: Tensor, y: Tensor, weight: Tensor | None = None, reduction: int = MEAN
) -> Tensor:
    require(x.dtype is y.dtype and x.sizes == y.sizes, "another target")
    losses = k.pointwise(_cross_entropy, [k.wide(x), k.wide(y)])
    return _reduced(k, _weighted(k, losses, weight), x.dtype, reduction)


def _bce_backward(
    k: Lowering,
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None = None,
    reduction: int = MEAN,
) -> Tensor:
    scale = 1 / x.numel if reduction == MEAN and x.numel else 1.0
    wide = [k.wide(each) for each in (grad, x, y)]
    made = k.pointwise(lambda g, a, b: g * _cross_entropy_slope(a, b) * scale, wide)
    return k.cast(_weighted(k, made, weight), x.dtype)


def _bce_with_logits(
    k: Lowering,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None = None,
    positive: Tensor | None = None,
    reduction: int = MEAN,
) -> Tensor:
    require(x.dtype.is_floating_point and x.sizes == y.sizes, "another target")

    def of_log_sigmoid(a: Expr) -> Expr:
        return a.minimum(0) - (-abs(a)).exp().apply("log1p")

    x_, y_ = k.wide(x), k.cast(y, computed_in(x.dtype))
    if positive is None:
        losses = k.pointwise(lambda a, b: (1 - b) * a - of_log_sigmoid(a), [x_, y_])
    else:
        losses = k.pointwise(
            lambda a, b, p: (1 - b) * a - ((p - 1) * b + 1) * of_log_sigmoid(a),
            [x_, y_, k.wide(positive)],
        )
    return _reduced(k, _weighted(k, losses, weight), x.dtype, reduction)


def _soft_margin(k: Lowering, x: Tensor, y: Tensor, reduction: int = MEAN) -> Tensor:
    """ATen rounds at each step: a float16 overflows there."""
    common = promoted([x, y])
    require(common.is_floating_point, "a loss of integers")
    products = k.pointwise(lambda a, b: -a * b, [x, y])
    powers = k.pointwise(lambda p: p.exp(), [products])
    losses = k.pointwise(lambda p: p.apply("log1p"), [powers])
    return _reduced(k, k.wide(losses), common, reduction)


# Of classes


class _Classes:
    """The class of each element, and what it weighs. Classes stand in dim 1, or in the only one."""

    def __init__(
        self, k: Lowering, x: Tensor, target: Tensor, weight: Tensor | None, ignored: int
    ) -> None:
        require(x.dtype.is_floating_point and target.dtype is torch.int64, "no classes")
        self.dim = min(x.rank - 1, 1)
        require(x.rank in (1, 2, 4), "no classes")
        wanted = (x.dtype, (x.sizes[self.dim],))
        fits = weight is None or (weight.dtype, weight.sizes) == wanted
        require(fits, "weights of another dtype, or not of all classes")
        rest = [n for d, n in enumerate(x.sizes) if d != self.dim]
        require(target.sizes == tuple(rest), "another target")
        self.k, self.x, self.target, self.weight, self.ignored = k, x, target, weight, ignored
        self.count = x.sizes[self.dim]
        require(not same(self.count, 1), "one class: an index that does not matter")

    def counts(self, *at: Expr) -> Expr:
        return self.target.get(*at).ne(self.ignored)

    def of(self, *at: Expr) -> Expr:
        """The class; 0 where it is to be ignored."""
        given = self.target.get(*at)
        return self.counts(*at).where(given, given.of(0)).checked_from_zero(self.count)

    def weight_of(self, *at: Expr) -> Expr:
        """0 where the class is to be ignored."""
        dtype = computed_in(self.x.dtype)
        own = self.k.number(1, dtype)
        if self.weight is not None:
            own = self.weight.get(self.of(*at)).cast(dtype)
        return self.counts(*at).where(own, 0)

    def loss_of(self, *at: Expr) -> Expr:
        place = [*at[: self.dim], self.of(*at), *at[self.dim :]]
        value = self.x.get(*place).cast(computed_in(self.x.dtype))
        return self.counts(*at).where(-value * self.weight_of(*at), 0)


def _nll(
    k: Lowering, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int
) -> tuple[Tensor, Tensor]:
    classes = _Classes(k, x, target, weight, ignored)
    dtype, sizes = computed_in(x.dtype), target.sizes
    dims = range(target.rank)
    weights = k.fold("sum", k.define(sizes, dtype, classes.weight_of), dims)
    if reduction == NONE:
        if x.rank > 1:
            weights = k.define((), dtype, lambda: k.number(0, dtype))
        return k.define(sizes, x.dtype, classes.loss_of), k.cast(weights, x.dtype)
    total = k.fold("sum", k.define(sizes, dtype, classes.loss_of), dims)
    if reduction == MEAN:
        total = k.pointwise(lambda v, w: v / w, [total, weights])
    return k.cast(total, x.dtype), k.cast(weights, x.dtype)


def _nll_backward(
    k: Lowering,
    grad: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignored: int,
    total: Tensor,
) -> Tensor:
    if x.rank == 4 and k.given:
        lies_in_order = is_contiguous(x.sizes, preserved(x.sizes, k.given[1].stride))
        require(lies_in_order, "images that lie otherwise: they are refused")
    classes = _Classes(k, x, target, weight, ignored)
    dtype, dim = computed_in(x.dtype), classes.dim

    def element(*at: Expr) -> Expr:
        rest = [*at[:dim], *at[dim + 1 :]]
        upper = grad.get(*rest) if reduction == NONE else grad.get(*(0,) * grad.rank)
        value = -upper.cast(dtype) * classes.weight_of(*rest)
        if reduction == MEAN:
            value = value / total.get(*(0,) * total.rank).cast(dtype)
        return (at[dim].eq(classes.of(*rest)) & classes.counts(*rest)).where(value, 0)

    return k.define(x.sizes, x.dtype, element)


ROWS: Mapping[str, Any] = named(
    {
        "mse_loss": _mse,
        "mse_loss_backward": _slope_of_elements(_squared_slope),
        "huber_loss": _of_elements(_huber),
        "huber_loss_backward": _slope_of_elements(_huber_slope),
        "smooth_l1_loss": _of_elements(_smooth),
        "smooth_l1_loss_backward": _slope_of_elements(_smooth_slope),
        "soft_margin_loss": _soft_margin,
        "binary_cross_entropy": _bce,
        "binary_cross_entropy_backward": _bce_backward,
        "binary_cross_entropy_with_logits": _bce_with_logits,
        "nll_loss_forward nll_loss2d_forward": _nll,
        "nll_loss_backward nll_loss2d_backward": _nll_backward,
    }
)
