"""Activations and their derivatives. A derivative computes in the dtype of its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch

from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.pointwise import sigmoid
from jitpkg.codegen.lowering.table import (
    Lowering,
    NotLowered,
    Row,
    Scalar,
    Tensor,
    dim_of,
    named,
    require,
)
from jitpkg.facts.asked import asked_once
from jitpkg.facts.layout import is_contiguous
from jitpkg.internals import dispatch


def _of(body: Callable[..., Expr], tensors: int) -> Row:
    """A row for `body(*elements, *numbers)`, with the tensors as its first arguments.

    Args:
        tensors: how many.
    """

    def row(k: Lowering, *args: Tensor | Scalar) -> Tensor:
        operands, numbers = args[:tensors], args[tensors:]
        dtypes = {x.dtype for x in operands if isinstance(x, Tensor)}
        require(all(dtype.is_floating_point for dtype in dtypes), "an activation of integers")
        return k.pointwise(lambda *given: body(*given, *numbers), operands)

    return row


def _relu(k: Lowering, x: Tensor) -> Tensor:
    require(x.dtype is not torch.bool, "arithmetic on truths")
    return k.pointwise(lambda v: (v.of(0) > v).where(0, v), [x])  # NaN and -0.0 stay


def _hardtanh(k: Lowering, x: Tensor, low: Scalar = -1, high: Scalar = 1) -> Tensor:
    require(x.dtype is not torch.bool, "arithmetic on truths")
    return k.pointwise(lambda v, a, b: b.minimum(a.maximum(v)), [x, low, high], x.dtype)


def _threshold(k: Lowering, x: Tensor, limit: Scalar, value: Scalar) -> Tensor:
    return k.pointwise(lambda v, a, b: (v <= a).where(b, v), [x, limit, value], x.dtype)


def _threshold_backward(k: Lowering, grad: Tensor, x: Tensor, limit: Scalar) -> Tensor:
    return k.pointwise(lambda g, v: (v <= v.of(limit)).where(0, g), [grad, x])


# Gelu

_SQRT_HALF = math.sqrt(0.5)
_BETA = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def _gelu(k: Lowering, x: Tensor, *, approximate: str = "none") -> Tensor:
    require(x.dtype.is_floating_point, "an activation of integers")
    require(approximate in ("none", "tanh"), "an approximation that is refused")
    if approximate == "tanh":
        return k.pointwise(_gelu_tanh, [x])
    return k.pointwise(_gelu_overflowing if _is_onednns(k, x) else _gelu_erf, [x])


def _is_onednns(k: Lowering, x: Tensor) -> bool:
    """Whether eager code calls oneDNN: for tensors of several elements that lie in order."""
    if k.device.type != "cpu" or x.dtype not in (torch.float32, torch.bfloat16):
        return False
    if not k.given or not is_contiguous(x.sizes, k.given[0].stride) or not x.numel > 1:
        return False
    return _onednn_overflows()


@asked_once
def _onednn_overflows() -> bool:
    """Whether its gelu of infinity is NaN, and that of the largest numbers infinite."""
    no_modes = dispatch.NO_MODES.found()
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if no_modes is None or not has_onednn:
        return False
    with no_modes():
        large = torch.tensor([math.inf, 0.6 * _LARGEST], dtype=torch.float32, device="cpu")
        made = torch.nn.functional.gelu(large)
        return bool(made[0].isnan() and made[1].isinf())


_LARGEST = torch.finfo(torch.float32).max


def _gelu_overflowing(x: Expr) -> Expr:
    return (x > _LARGEST / 2).where(x - x + math.inf, _gelu_erf(x))


def _gelu_erf(x: Expr) -> Expr:
    return x * 0.5 * (1 + (x * _SQRT_HALF).apply("erf"))


def _gelu_tanh(x: Expr) -> Expr:
    inner = (x + x * x * x * _CUBIC) * _BETA
    return x * 0.5 * (1 + inner.apply("tanh"))


def _gelu_backward(k: Lowering, grad: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    require(approximate in ("none", "tanh"), "an approximation that is refused")
    slope = _gelu_tanh_slope if approximate == "tanh" else _gelu_erf_slope
    return k.pointwise(lambda g, v: g * slope(v), [grad, x])


def _gelu_erf_slope(x: Expr) -> Expr:
    below = ((x * _SQRT_HALF).apply("erf") + 1) * 0.5
    density = (x * x * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
    return below + x * density


def _gelu_tanh_slope(x: Expr) -> Expr:
    t = ((x + x * x * x * _CUBIC) * _BETA).apply("tanh")
    inner = (x * x * (3 * _CUBIC) + 1) * _BETA
    return (t + 1) * 0.5 + x * 0.5 * (1 - t * t) * inner


# Others


def _silu(x: Expr) -> Expr:
    return x / (1 + (-x).exp())


def _silu_backward(g: Expr, x: Expr) -> Expr:
    s = sigmoid(x)
    return g * s * (1 + x * (1 - s))


def _mish(x: Expr) -> Expr:
    return x * x.exp().apply("log1p").apply("tanh")


def _mish_backward(g: Expr, x: Expr) -> Expr:
    s, t = sigmoid(x), x.exp().apply("log1p").apply("tanh")
    return g * (t + x * s * (1 - t * t))


def _elu(x: Expr, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Expr:
    low = (x * input_scale).apply("expm1") * (alpha * scale)
    return (x < 0).where(low, x * scale)


def _celu(x: Expr, alpha: float = 1) -> Expr:
    require(alpha != 0, "a division by zero")
    return _elu(x, alpha, 1, 1 / alpha)


def _elu_backward(
    k: Lowering,
    grad: Tensor,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    x: Tensor,
) -> Tensor:
    require(not is_result or alpha >= 0, "a slope that is refused")
    low = alpha * scale

    def element(g: Expr, v: Expr) -> Expr:
        of_result = g * input_scale * (v + low)
        of_input = g * (input_scale * low) * (v * input_scale).exp()
        return (v <= 0).where(of_result if is_result else of_input, g * scale)

    return k.pointwise(element, [grad, x])


def _leaky_relu(x: Expr, slope: float = 0.01) -> Expr:
    return (x > 0).where(x, x * slope)


def _leaky_relu_backward(g: Expr, x: Expr, slope: float, is_result: bool) -> Expr:
    require(not is_result or slope >= 0, "a slope that is refused")
    return (x > 0).where(g, g * slope)


def _hardtanh_backward(g: Expr, x: Expr, low: float, high: float) -> Expr:
    """With NaN as a bound, ATen gives one thing in vectors and another at their ends."""
    require(low == low and high == high, "a bound that is NaN")
    return ((x <= low) | (x >= high)).where(0, g)


def _hardsigmoid(x: Expr) -> Expr:
    return (x + 3).maximum(0).minimum(6) / 6


def _hardsigmoid_backward(g: Expr, x: Expr) -> Expr:
    return ((x > -3) & (x < 3)).where(g * (1 / 6), 0)


def _hardswish(x: Expr) -> Expr:
    return x * (x + 3).maximum(0).minimum(6) / 6


def _hardswish_backward(g: Expr, x: Expr) -> Expr:
    return (x <= -3).where(0, (x < 3).where(g * (x / 3 + 0.5), g))


def _softplus(x: Expr, beta: float = 1, threshold: float = 20) -> Expr:
    scaled = x * beta
    return (scaled > threshold).where(x, scaled.exp().apply("log1p") / beta)


def _softplus_backward(g: Expr, x: Expr, beta: float, threshold: float) -> Expr:
    scaled = x * beta
    power = scaled.exp()
    return (scaled > threshold).where(g, g * power / (power + 1))


def _hardshrink(x: Expr, limit: float = 0.5) -> Expr:
    return ((x >= -limit) & (x <= limit)).where(0, x)


def _hardshrink_backward(g: Expr, x: Expr, limit: float) -> Expr:
    return ((x >= -limit) & (x <= limit)).where(0, g)


def _softshrink(x: Expr, limit: float = 0.5) -> Expr:
    inside = (x < -limit).where(x + limit, x * 0)
    return (x > limit).where(x - limit, inside)


def _tanh_backward(g: Expr, y: Expr) -> Expr:
    return g * (1 - y * y)


def _sigmoid_backward(g: Expr, y: Expr) -> Expr:
    return g * (1 - y) * y


def _logit_backward(k: Lowering, grad: Tensor, x: Tensor, eps: float | None = None) -> Tensor:
    low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
    outside = math.nan if eps is None else 0.0

    def element(g: Expr, v: Expr) -> Expr:
        at_end = v.eq(0) | v.eq(1)
        slope = at_end.where(g * math.inf, g / (v * (1 - v)))
        return ((v < low) | (v > high)).where(outside, slope)

    return k.pointwise(element, [grad, x])


def _prelu(x: Expr, weight: Expr) -> Expr:
    return (x > 0).where(x, weight * x)


def _prelu_backward(k: Lowering, grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    of_x = k.pointwise(lambda g, v, w: (v > 0).where(g, w * g), [grad, x, weight])
    of_weight = k.pointwise(lambda g, v, w: (v > 0).where(0, v * g), [grad, x, weight])
    return of_x, of_weight


def _log_sigmoid(k: Lowering, x: Tensor) -> tuple[Tensor, Tensor]:
    """Its second result is what ATen keeps for the derivative: on a GPU, nothing."""
    require(x.dtype.is_floating_point, "an activation of integers")
    made = k.pointwise(lambda v: v.minimum(0) - (-abs(v)).exp().apply("log1p"), [x])
    if k.device.type == "cuda":
        return made, k.nothing((0,), x.dtype)
    return made, k.pointwise(lambda v: (-abs(v)).exp(), [x])


def _log_sigmoid_backward(k: Lowering, grad: Tensor, x: Tensor, kept: Tensor) -> Tensor:
    def element(g: Expr, v: Expr, z: Expr) -> Expr:
        negative = v < 0
        most, sign = negative.where(v.of(1), v.of(0)), negative.where(v.of(1), v.of(-1))
        return (most - sign * (z / (1 + z))) * g

    if k.device.type == "cuda":
        return k.pointwise(lambda g, v: element(g, v, (-abs(v)).exp()), [grad, x])
    if kept.sizes != x.sizes:
        raise NotLowered("a kept value of another size")
    return k.pointwise(element, [grad, x, kept])


def _glu(k: Lowering, x: Tensor, dim: int = -1) -> Tensor:
    dim = dim_of(dim, x.rank)
    require(x.rank > 0 and x.sizes[dim] % 2 == 0, "halves")
    require(x.dtype.is_floating_point, "an activation of integers")
    first, second = _halves(k, x, dim)
    return k.pointwise(lambda a, b: a * sigmoid(b), [first, second])


def _halves(k: Lowering, x: Tensor, dim: int) -> list[Tensor]:
    half = x.sizes[dim] // 2
    sizes = [half if d == dim else n for d, n in enumerate(x.sizes)]

    def part(start: int) -> Tensor:
        return k.viewed(
            x, sizes, lambda *at: [a + start if d == dim else a for d, a in enumerate(at)]
        )

    return [part(0), part(half)]


def _glu_backward(k: Lowering, grad: Tensor, x: Tensor, dim: int) -> Tensor:
    dim = dim_of(dim, x.rank)
    half = x.sizes[dim] // 2

    def element(*at: Expr) -> Expr:
        in_first = at[dim] < half
        here = in_first.where(at[dim], at[dim] - half)

        def wide(t: Tensor, place: Expr) -> Expr:
            index = [place if d == dim else a for d, a in enumerate(at)]
            return k.expr(t.at(*(i.node for i in index))).cast(k.wide(t).dtype)

        g, a, b = wide(grad, here), wide(x, here), wide(x, here + half)
        s = sigmoid(b)
        return in_first.where(g * s, g * a * s * (1 - s))

    return k.define(x.sizes, x.dtype, element)


def _dropout_backward(k: Lowering, grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Eager code rounds the factor to the dtype."""
    require(grad.dtype.is_floating_point and mask.dtype is torch.bool, "dropout of integers")
    factor = k.pointwise(lambda m: m * scale, [k.cast(mask, k.wide(grad).dtype)], grad.dtype)
    return k.pointwise(lambda g, m: g * m, [grad, factor], grad.dtype)


ROWS: Mapping[str, Row] = named(
    {
        "native_dropout_backward": _dropout_backward,
        "relu": _relu,
        "relu6": lambda k, x: _hardtanh(k, x, 0, 6),
        "hardtanh": _hardtanh,
        "threshold": _threshold,
        "gelu": _gelu,
        "silu": _of(_silu, 1),
        "mish": _of(_mish, 1),
        "elu": _of(_elu, 1),
        "celu": _of(_celu, 1),
        "leaky_relu": _of(_leaky_relu, 1),
        "hardsigmoid": _of(_hardsigmoid, 1),
        "hardswish": _of(_hardswish, 1),
        "softplus": _of(_softplus, 1),
        "hardshrink": _of(_hardshrink, 1),
        "softshrink": _of(_softshrink, 1),
        "_prelu_kernel": _of(_prelu, 2),
        "log_sigmoid_forward": _log_sigmoid,
        "glu": _glu,
        "threshold_backward": _threshold_backward,
        "gelu_backward": _gelu_backward,
        "silu_backward": _of(_silu_backward, 2),
        "mish_backward": _of(_mish_backward, 2),
        "elu_backward": _elu_backward,
        "leaky_relu_backward": _of(_leaky_relu_backward, 2),
        "hardtanh_backward": _of(_hardtanh_backward, 2),
        "hardsigmoid_backward": _of(_hardsigmoid_backward, 2),
        "hardswish_backward": _of(_hardswish_backward, 2),
        "softplus_backward": _of(_softplus_backward, 2),
        "hardshrink_backward softshrink_backward": _of(_hardshrink_backward, 2),
        "tanh_backward": _of(_tanh_backward, 2),
        "sigmoid_backward": _of(_sigmoid_backward, 2),
        "logit_backward": _logit_backward,
        "log_sigmoid_backward": _log_sigmoid_backward,
        "glu_backward": _glu_backward,
        "_prelu_kernel_backward": _prelu_backward,
    }
)
