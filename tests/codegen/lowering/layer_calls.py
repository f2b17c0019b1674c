"""Sample calls of products, of pooling and of losses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from tests.codegen.lowering.making import Call, Maker, both, each

PRODUCTS: dict[str, Maker] = {
    "mm": each(
        lambda t: (t.smooth(1, 70), t.smooth(70, 5)),
        lambda t: (t.smooth(3, 130), t.smooth(130, 1)),
        lambda t: (t.smooth(1, 7), t.smooth(9, 7).t()),
        lambda t: (t.smooth(4, 1), t.smooth(1, 6)),
        lambda t: (t.smooth(1, 1), t.smooth(1, 1)),
    ),
    "bmm": each(
        lambda t: (t.smooth(3, 1, 40), t.smooth(3, 40, 6)),
        lambda t: (t.smooth(2, 5, 40), t.smooth(2, 40, 1)),
        lambda t: (t.smooth(2, 4, 1), t.smooth(2, 1, 3)),
    ),
    "addmm": each(
        lambda t: (t.smooth(5), t.smooth(1, 70), t.smooth(70, 5)),
        lambda t: (t.smooth(3, 1), t.smooth(3, 30), t.smooth(30, 1)),
        lambda t: (t.smooth(4, 6), t.smooth(4, 1), t.smooth(1, 6)),
    ),
    "baddbmm": each(
        lambda t: (t.smooth(3, 1, 6), t.smooth(3, 1, 40), t.smooth(3, 40, 6)),
        lambda t: (t.smooth(1, 1, 6), t.smooth(2, 4, 1), t.smooth(2, 1, 6)),
    ),
    "mv": each(lambda t: (t.smooth(5, 70), t.smooth(70)), lambda t: (t.smooth(1, 3), t.smooth(3))),
    "dot": each(lambda t: (t.smooth(70), t.smooth(70)), lambda t: (t.smooth(1), t.smooth(1))),
    "linear": each(
        lambda t: (t.smooth(1, 70), t.smooth(5, 70)),
        lambda t: (t.smooth(1, 1, 70), t.smooth(5, 70), t.smooth(5)),
        lambda t: (t.smooth(2, 3, 70), t.smooth(1, 70), t.smooth(1)),
        lambda t: (t.smooth(70), t.smooth(5, 70)),
        lambda t: (t.smooth(2, 3, 1), t.smooth(5, 1), t.smooth(5)),
    ),
}

WINDOWS = (
    lambda t: (t.smooth(2, 3, 6, 7), [3, 2], [2, 1], [1, 1]),
    lambda t: (t.smooth(3, 6, 7), [2]),
    lambda t: (t.smooth(1, 2, 5, 5), [3, 3], [2, 2], [1, 1]),
    lambda t: (t.smooth(1, 2, 4, 4), [1, 1], [1, 1]),
)


def _defaults(kernel: Any, rest: list[Any]) -> tuple[Any, Any]:
    return (rest[0] if rest else kernel), (rest[1] if len(rest) > 1 else [0, 0])


def _max_pool_backward(t: Any) -> Iterable[Call]:
    if not t.dtype.is_floating_point:
        return
    for make in WINDOWS:
        x, kernel, *rest = make(t)
        stride, padding = _defaults(kernel, rest)
        for ceil in (False, True):
            given = (kernel, stride, padding, [1, 1], ceil)
            made, indices = torch.ops.aten.max_pool2d_with_indices(x, *given)
            grad = t.smooth(*made.shape, dtype=x.dtype)
            yield (grad, x, *given, indices), {}
    x = t.smooth(1, 1, 12, 12, dtype=torch.float32)
    given = ([5, 5], [1, 1], [0, 0], [2, 2], False)
    made, indices = torch.ops.aten.max_pool2d_with_indices(x, *given)
    yield (torch.ones_like(made), x, *given, indices), {}


def _avg_pool_backward(t: Any) -> Iterable[Call]:
    if not t.dtype.is_floating_point:
        return
    for make in WINDOWS:
        x, kernel, *rest = make(t)
        stride, padding = _defaults(kernel, rest)
        for ceil, counted, divisor in ((False, True, None), (True, False, None), (True, True, 5)):
            given = (kernel, stride, padding, ceil, counted, divisor)
            made = torch.ops.aten.avg_pool2d(x, *given)
            yield (t.smooth(*made.shape), x, *given), {}


POOLING: dict[str, Maker] = {
    "max_pool2d_with_indices": each(
        *WINDOWS,
        lambda t: (t.smooth(1, 2, 5, 6), [3, 3], [2, 2], [1, 1], [1, 1], True),
        lambda t: (t.smooth(1, 2, 9, 9), [2, 2], [1, 1], [0, 0], [2, 2]),
        lambda t: (t.smooth(1, 2, 9, 9).maximum(t.smooth(9)).abs().log(), [2, 2]),
    ),
    "max_pool2d_with_indices_backward": _max_pool_backward,
    "avg_pool2d": each(
        *WINDOWS,
        lambda t: (t.smooth(1, 2, 5, 6), [3, 3], [2, 2], [1, 1], True, False),
        lambda t: (t.smooth(1, 2, 5, 6), [3, 3], [2, 2], [1, 1], True, True),
        lambda t: (t.smooth(1, 2, 5, 6), [3, 3], [2, 2], [1, 1], False, True, 7),
    ),
    "avg_pool2d_backward": _avg_pool_backward,
    "_adaptive_avg_pool2d": each(
        lambda t: (t.smooth(2, 3, 6, 8), [3, 2]),
        lambda t: (t.smooth(2, 6, 7), [1, 1]),
        lambda t: (t.smooth(2, 5, 7), [3, 9]),
    ),
    "_adaptive_avg_pool2d_backward": each(lambda t: (t.smooth(2, 3, 2), t.smooth(2, 6, 8))),
    "upsample_nearest1d": each(lambda t: (t(2, 3, 4), [8]), lambda t: (t(2, 3, 5), [3])),
    "upsample_nearest2d": each(
        lambda t: (t(2, 3, 4, 5), [8, 15]), lambda t: (t(1, 2, 3, 3), [6, 6], 2.0, 2.0)
    ),
    "_upsample_nearest_exact2d": each(lambda t: (t(2, 3, 4, 5), [8, 15])),
    "upsample_nearest2d_backward": each(
        lambda t: (t(1, 2, 6, 9), [6, 9], [1, 2, 3, 3]),
        lambda t: (t(1, 2, 5, 2), [5, 2], [1, 2, 3, 4]),
    ),
    "_upsample_nearest_exact2d_backward": each(lambda t: (t(1, 2, 6, 9), [6, 9], [1, 2, 3, 3])),
    "upsample_linear1d": each(lambda t: (t.smooth(2, 3, 4), [7], True)),
    "upsample_bilinear2d": each(
        lambda t: (t.smooth(2, 3, 4, 5), [8, 7], False),
        lambda t: (t.smooth(2, 3, 4, 5), [8, 3], True),
        lambda t: (t.smooth(1, 2, 3, 3), [6, 6], False, 2.0, 2.0),
    ),
    "upsample_bilinear2d_backward": each(
        lambda t: (t.smooth(2, 3, 8, 7), [8, 7], [2, 3, 4, 5], False),
        lambda t: (t.smooth(2, 3, 8, 3), [8, 3], [2, 3, 4, 5], True),
    ),
    "channel_shuffle": each(lambda t: (t(2, 6, 3), 3)),
    "im2col": each(
        lambda t: (t.smooth(2, 3, 5, 6), [2, 3], [1, 2], [1, 0], [2, 1]),
    ),
    "pixel_shuffle": each(lambda t: (t(2, 8, 3, 2), 2)),
    "pixel_unshuffle": each(lambda t: (t(2, 3, 6, 4), 2)),
}


def _with_reductions(make: Callable[[Any], tuple[Any, ...]], *numbers: Any) -> Maker:
    return each(*(lambda t, how=how: (*make(t), how, *numbers) for how in (0, 1, 2)))


def _pair(t: Any) -> tuple[Any, Any]:
    return t.smooth(3, 5), t.smooth(3, 5)


def _slope(t: Any) -> tuple[Any, Any, Any]:
    return t.smooth(1, 1), *_pair(t)


def _chances(t: Any) -> tuple[Any, Any, Any]:
    return t.smooth(3, 5).abs() / 2, t.smooth(3, 5).abs() / 2, t.smooth(5).abs()


def _classified(t: Any) -> Iterable[Call]:
    if not t.dtype.is_floating_point:
        return
    target = t.index(4, 6)
    some = torch.where(t.index(3, 6).eq(0), -100, target)
    for weight in (None, t.smooth(4).abs() + 0.1):
        for how in (0, 1, 2):
            yield (t.smooth(6, 4), target, weight, how, -100), {}
            yield (t.smooth(6, 4), some, weight, how, -100), {}
            yield (t.smooth(4), target[0].clone(), weight, how, 1), {}


def _classified_pixels(t: Any) -> Iterable[Call]:
    if not t.dtype.is_floating_point:
        return
    for how in (0, 1, 2):
        yield (t.smooth(2, 4, 3, 2), t.index(4, 2, 3, 2), t.smooth(4).abs(), how, 1), {}


def _derived(calls: Maker, forward: Any) -> Maker:
    def backward(t: Any) -> Iterable[Call]:
        for (x, target, weight, how, ignored), _ in calls(t):
            made, total = forward(x, target, weight, how, ignored)
            yield (torch.ones_like(made), x, target, weight, how, ignored, total), {}

    return backward


LOSSES: dict[str, Maker] = {
    "mse_loss": _with_reductions(_pair),
    "mse_loss_backward": _with_reductions(_slope),
    "huber_loss": _with_reductions(_pair, 0.7),
    "huber_loss_backward": _with_reductions(_slope, 0.7),
    "smooth_l1_loss": both(_with_reductions(_pair, 0.7), _with_reductions(_pair, 0.0)),
    "smooth_l1_loss_backward": _with_reductions(_slope, 0.7),
    "soft_margin_loss": _with_reductions(_pair),
    "binary_cross_entropy": _with_reductions(_chances),
    "binary_cross_entropy_backward": _with_reductions(lambda t: (t.smooth(1, 1), *_chances(t))),
    "binary_cross_entropy_with_logits": both(
        _with_reductions(lambda t: (*_pair(t), None, None)),
        _with_reductions(lambda t: (*_pair(t), t.smooth(5), t.smooth(5))),
    ),
    "nll_loss_forward": _classified,
    "nll_loss2d_forward": _classified_pixels,
    "nll_loss_backward": _derived(_classified, torch.ops.aten.nll_loss_forward),
    "nll_loss2d_backward": _derived(_classified_pixels, torch.ops.aten.nll_loss2d_forward),
}
