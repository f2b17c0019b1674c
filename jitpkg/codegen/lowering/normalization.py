"""Softmax and the norms of layers, with their derivatives.

A softmax is two folds and a division, taken from the definition; whoever makes the loops may fold
online. Moments are taken in two passes. What is kept for the derivative is rounded as by ATen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.reductions import moments
from jitpkg.codegen.lowering.table import (
    Lowering,
    Result,
    Tensor,
    dims_of,
    named,
    product,
    require,
)
from jitpkg.codegen.lowering.views import view

# Softmax


def _softmax(k: Lowering, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    powers, total, _ = _powers(k, x, dim)
    return _finished(k, x, k.pointwise(lambda e, s: e / s, [powers, total]), half_to_float)


def _log_softmax(k: Lowering, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    _, total, shifted = _powers(k, x, dim)
    made = k.pointwise(lambda v, s: v - s.log(), [shifted, total])
    return _finished(k, x, made, half_to_float)


def _powers(k: Lowering, x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """`exp(x - max)`, its sum, and `x - max`."""
    dims = dims_of(dim, x.rank)
    require(x.dtype.is_floating_point and x.numel > 0, "a softmax of integers or of nothing")
    x = k.wide(x)
    most = k.fold("max", x, dims, keepdim=True)
    shifted = k.pointwise(lambda v, m: v - m, [x, most])
    powers = k.pointwise(Expr.exp, [shifted])
    return powers, k.fold("sum", powers, dims, keepdim=True), shifted


def _finished(k: Lowering, x: Tensor, made: Tensor, half_to_float: bool) -> Tensor:
    return k.cast(made, torch.float32 if half_to_float else x.dtype)


def _safe_softmax(k: Lowering, x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """0 where all of a row is minus infinity."""
    given = k.cast(x, x.dtype if dtype is None else dtype)
    made = _softmax(k, given, dim, False)
    dims = dims_of(dim, x.rank)
    masked = k.fold("all", k.wide(given), dims, keepdim=True, of=lambda v: v.eq(-float("inf")))

    def element(*at: Expr) -> Expr:
        row = k.expr(k.broadcast(masked, [each.node for each in at]))
        return row.where(0, made.get(*at))

    return k.define(made.sizes, made.dtype, element)


def _softmax_backward(k: Lowering, grad: Tensor, y: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    """In the order of ATen's kernels, which differ by device where something is infinite."""
    _check_alike(grad, y)
    grad, y = k.wide(grad), k.wide(y)
    products = k.pointwise(lambda g, v: g * v, [grad, y])
    total = k.fold("sum", products, dims_of(dim, y.rank), keepdim=True)
    if k.device.type == "cuda":
        made = k.pointwise(lambda p, v, s: p - v * s, [products, y, total])
    else:
        made = k.pointwise(lambda g, v, s: (g - s) * v, [grad, y, total])
    return k.cast(made, dtype)


def _check_alike(grad: Tensor, y: Tensor) -> None:
    require(grad.dtype is y.dtype and grad.sizes == y.sizes, "a gradient that does not fit")


def _log_softmax_backward(
    k: Lowering, grad: Tensor, y: Tensor, dim: int, dtype: torch.dtype
) -> Tensor:
    _check_alike(grad, y)
    grad, y = k.wide(grad), k.wide(y)
    total = k.fold("sum", grad, dims_of(dim, y.rank), keepdim=True)
    return k.cast(k.pointwise(lambda g, v, s: g - v.exp() * s, [grad, y, total]), dtype)


# Layer norm


def _layer_norm(
    k: Lowering,
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, ...]:
    dims = _last(x, shape)
    kept = _statistics_dtype(k, x, weight, bias)
    variance, center = moments(k, x, dims, 0)
    scale = k.pointwise(lambda v: 1 / (v + eps).sqrt(), [variance])
    made = k.pointwise(lambda v, m, r: (v - m) * r, [k.wide(x), center, scale])
    made = _affine(k, made, weight, bias)
    return k.cast(made, x.dtype), k.cast(center, kept), k.cast(scale, kept)


def _last(x: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    first = x.rank - len(shape)
    require(first >= 0 and x.sizes[first:] == tuple(shape), "another shape")
    require(x.numel > 0 and x.dtype.is_floating_point, "a norm of nothing")
    return tuple(range(first, x.rank))


def _statistics_dtype(
    k: Lowering, x: Tensor, weight: Tensor | None, bias: Tensor | None
) -> torch.dtype:
    """The same of layer and batch norm, of which CUDA's kernels keep what they compute with."""
    return k.wide(x).dtype if k.device.type == "cuda" else _kept_dtype(x, weight, bias)


def _kept_dtype(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> torch.dtype:
    """The dtype of means. Of weights in float32 beside a narrow input torch is of two minds: its
    kernels keep float32, and what it says on fake tensors is the input's."""
    for each in (weight, bias):
        require(each is None or each.dtype is x.dtype, "weights of another dtype")
    return x.dtype


def _affine(k: Lowering, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        x = k.pointwise(lambda v, w: v * w, [x, k.wide(weight)])
    if bias is not None:
        x = k.pointwise(lambda v, b: v + b, [x, k.wide(bias)])
    return x


def _layer_norm_backward(
    k: Lowering,
    grad: Tensor,
    x: Tensor,
    shape: Sequence[int],
    center: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mask: Sequence[bool],
) -> tuple[Result, ...]:
    dims = _last(x, shape)
    outer = tuple(range(x.rank - len(dims)))
    grad, normal = k.wide(grad), _normal(k, x, center, scale)
    of_x = of_weight = of_bias = None
    if mask[0]:
        made = _through_norm(k, _affine(k, grad, weight, None), normal, k.wide(scale), dims)
        of_x = k.cast(made, x.dtype)
    if mask[1] and weight is not None:
        of_weight = _summed_products(k, grad, normal, outer, weight.dtype)
    if mask[2] and bias is not None:
        of_bias = k.cast(k.fold("sum", grad, outer), bias.dtype)
    return of_x, of_weight, of_bias


def _normal(k: Lowering, x: Tensor, center: Tensor, scale: Tensor) -> Tensor:
    return k.pointwise(lambda v, m, r: (v - m) * r, [k.wide(x), k.wide(center), k.wide(scale)])


def _summed_products(
    k: Lowering, a: Tensor, b: Tensor, dims: Sequence[int], dtype: torch.dtype
) -> Tensor:
    return k.cast(k.fold("sum", k.pointwise(lambda p, q: p * q, [a, b]), dims), dtype)


def _through_norm(
    k: Lowering, grad: Tensor, normal: Tensor, scale: Tensor, dims: Sequence[int]
) -> Tensor:
    """The derivative by what was normalised over `dims`."""
    count = product([normal.sizes[d] for d in dims])
    total = k.fold("sum", grad, dims, keepdim=True)
    along = k.fold("sum", k.pointwise(lambda g, n: g * n, [grad, normal]), dims, keepdim=True)
    return k.pointwise(
        lambda g, n, t, a, r: r * (g - (t + n * a) / count), [grad, normal, total, along, scale]
    )


def _check_parameters(channels: int, *given: Tensor | None) -> None:
    """ATen's kernels refuse others, or read beyond their end."""
    for each in given:
        require(each is None or each.sizes == (channels,), "parameters of another size")


def _check_dtypes(x: Tensor, *given: Tensor | None) -> None:
    """Parameters are as their input, or of float32 beside a narrow one; all of them alike."""
    dtypes = {each.dtype for each in given if each is not None}
    may_be = [{x.dtype}, {torch.float32}] if x.dtype in ops.NARROW else [{x.dtype}]
    require(not dtypes or dtypes in may_be, "parameters of another dtype")


# Group norm


def _group_norm(
    k: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: int,
    channels: int,
    inner: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, ...]:
    require(x.numel > 0 and channels % groups == 0, "a norm of nothing")
    require(x.numel == n * channels * inner, "another size than it is told")
    _check_parameters(channels, weight, bias)
    kept = _kept_dtype(x, weight, bias)
    size = [n, groups, channels // groups, inner]
    split = k.wide(view(k, x, size))
    variance, center = moments(k, split, (2, 3), 0)
    scale = k.pointwise(lambda v: 1 / (v + eps).sqrt(), [variance])
    made = k.pointwise(lambda v, m, r: (v - m) * r, [split, center, scale])
    by_channel = [1, groups, channels // groups, 1]
    made = _affine(k, made, *(w and view(k, w, by_channel) for w in (weight, bias)))
    return (
        view(k, k.cast(made, x.dtype), x.sizes),
        view(k, k.cast(center, kept), [n, groups]),
        view(k, k.cast(scale, kept), [n, groups]),
    )


def _group_norm_backward(
    k: Lowering,
    grad: Tensor,
    x: Tensor,
    center: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    n: int,
    channels: int,
    inner: int,
    groups: int,
    mask: Sequence[bool],
) -> tuple[Result, ...]:
    if k.device.type == "cpu":
        _check_dtypes(x, weight, center, scale)
    size = [n, groups, channels // groups, inner]
    kept = [n, groups, 1, 1]
    scale = k.wide(view(k, scale, kept))
    normal = _normal(k, view(k, x, size), view(k, center, kept), scale)
    split = k.wide(view(k, grad, size))
    parameter = x.dtype if weight is None else weight.dtype
    of_x = of_weight = of_bias = None
    if mask[0]:
        by_channel = weight and view(k, weight, [1, groups, channels // groups, 1])
        made = _through_norm(k, _affine(k, split, by_channel, None), normal, scale, (2, 3))
        of_x = view(k, k.cast(made, x.dtype), x.sizes)
    if mask[1]:
        made = _summed_products(k, split, normal, (0, 3), parameter)
        of_weight = view(k, made, [channels])
    if mask[2]:
        made = k.fold("sum", split, (0, 3))
        of_bias = view(k, k.cast(made, parameter), [channels])
    return of_x, of_weight, of_bias


# Batch norm


def _by_channel(k: Lowering, x: Tensor, like: Tensor) -> Tensor:
    return view(k, x, [1, x.sizes[0], *(1,) * (like.rank - 2)])


def _but_channels(x: Tensor) -> tuple[int, ...]:
    require(x.rank >= 2 and x.numel > 0 and x.dtype.is_floating_point, "a norm of nothing")
    return (0, *range(2, x.rank))


def _normalised(
    k: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    center: Tensor,
    scale: Tensor,
) -> Tensor:
    """With a mean and a scale for each channel."""
    center, scale = _by_channel(k, center, x), _by_channel(k, scale, x)
    made = k.pointwise(lambda v, m, r: (v - m) * r, [k.wide(x), k.wide(center), k.wide(scale)])
    return k.cast(_affine(k, made, *(w and _by_channel(k, w, x) for w in (weight, bias))), x.dtype)


def _scale_of(k: Lowering, variance: Tensor, eps: float) -> Tensor:
    return k.pointwise(lambda v: 1 / (v + eps).sqrt(), [k.wide(variance)])


def _batch_norm_eval(
    k: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    _but_channels(x)
    _check_parameters(x.sizes[1], weight, bias, running_mean, running_var)
    scale = _scale_of(k, running_var, eps)
    made = _normalised(k, x, weight, bias, running_mean, scale)
    kept = _statistics_dtype(k, x, weight, bias)
    if k.device.type == "cuda":
        return made, k.cast(running_mean, kept), k.cast(scale, kept)
    return made, k.nothing([0], kept), k.nothing([0], kept)


def _batch_norm_train(
    k: Lowering, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The result, the mean, the scale, and the variance of this batch."""
    dims = _but_channels(x)
    _check_parameters(x.sizes[1], weight, bias)
    variance, center = (view(k, t, [x.sizes[1]]) for t in moments(k, x, dims, 0))
    scale = _scale_of(k, variance, eps)
    return _normalised(k, x, weight, bias, center, scale), center, scale, variance


def _batch_norm_functional(
    k: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    narrow = {running_mean.dtype, running_var.dtype} & ops.NARROW
    unsure = narrow and (training or k.device.type == "cuda")
    require(not unsure, "narrow statistics, of which torch is of two minds")
    if not training:
        found = _batch_norm_eval(k, x, weight, bias, running_mean, running_var, momentum, eps)
        return (*found, running_mean, running_var)
    _check_parameters(x.sizes[1], running_mean, running_var)
    made, center, scale, variance = _batch_norm_train(k, x, weight, bias, eps)
    kept = _statistics_dtype(k, x, weight, bias)
    count = x.numel // x.sizes[1]
    unbiased = count / (count - 1) if count > 1 else float("nan")

    def moved(old: Tensor, new: Tensor, factor: float) -> Tensor:
        made = k.pointwise(
            lambda o, n: n * (momentum * factor) + o * (1 - momentum), [k.wide(old), new]
        )
        return k.cast(made, old.dtype)

    return (
        made,
        k.cast(center, kept),
        k.cast(scale, kept),
        moved(running_mean, center, 1.0),
        moved(running_var, variance, unbiased),
    )


def _batch_norm(
    k: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    if not training:
        require(running_mean is not None and running_var is not None, "no statistics")
        assert running_mean is not None
        assert running_var is not None
        return _batch_norm_eval(k, x, weight, bias, running_mean, running_var, momentum, eps)
    require(running_mean is None and running_var is None, "statistics that are written to")
    return _batch_norm_no_stats(k, x, weight, bias, training, momentum, eps)


def _batch_norm_no_stats(
    k: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    require(training, "no statistics")
    made, center, scale, _ = _batch_norm_train(k, x, weight, bias, eps)
    kept = _statistics_dtype(k, x, weight, bias)
    return made, k.cast(center, kept), k.cast(scale, kept)


def _batch_norm_backward(
    k: Lowering,
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_scale: Tensor | None,
    training: bool,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Result, ...]:
    """On a GPU, statistics that were used are kept: the running ones may be others by now."""
    dims = _but_channels(x)
    are_kept = k.device.type == "cuda" and save_scale is not None and save_scale.numel
    of_batch = training or are_kept
    center, spread = (save_mean, save_scale) if of_batch else (running_mean, running_var)
    require(center is not None and spread is not None, "no statistics")
    assert center is not None
    assert spread is not None
    _check_parameters(x.sizes[1], weight, center, spread)
    _check_dtypes(x, center, spread, *([weight] if k.device.type == "cpu" else []))
    _check_alike(grad, x)
    scale = spread if of_batch else _scale_of(k, spread, eps)
    scale = k.wide(_by_channel(k, scale, x))
    normal = _normal(k, x, _by_channel(k, center, x), scale)
    wide = k.wide(grad)
    of_x = of_weight = of_bias = None
    parameter = x.dtype if weight is None else weight.dtype
    if mask[0]:
        through = _affine(k, wide, weight and _by_channel(k, weight, x), None)
        if training:
            made = _through_norm(k, through, normal, scale, dims)
        else:
            made = k.pointwise(lambda g, r: g * r, [through, scale])
        of_x = k.cast(made, x.dtype)
    if mask[1]:
        of_weight = _summed_products(k, wide, normal, dims, parameter)
    if mask[2]:
        of_bias = k.cast(k.fold("sum", wide, dims), parameter)
    return of_x, of_weight, of_bias


# RMS norm


def _rms_norm(
    k: Lowering, x: Tensor, shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    dims = _last(x, shape)
    wide = k.wide(x)
    eps = torch.finfo(wide.dtype).eps if eps is None else eps
    require(weight is None or weight.dtype is x.dtype, "weights of another dtype")
    count = product([x.sizes[d] for d in dims])
    squares = k.fold("sum", wide, dims, keepdim=True, of=lambda v: v * v)
    scale = k.pointwise(lambda s: 1 / (s / count + eps).sqrt(), [squares])
    made = _affine(k, k.pointwise(lambda v, r: v * r, [wide, scale]), weight, None)
    return k.cast(made, x.dtype), scale


def _rms_norm_backward(
    k: Lowering,
    grad: Tensor,
    x: Tensor,
    shape: Sequence[int],
    scale: Tensor,
    weight: Tensor | None,
    mask: Sequence[bool],
) -> tuple[Result, ...]:
    dims = _last(x, shape)
    outer = tuple(range(x.rank - len(dims)))
    count = product([x.sizes[d] for d in dims])
    grad, scale = k.wide(grad), k.wide(scale)
    normal = k.pointwise(lambda v, r: v * r, [k.wide(x), scale])
    of_x = of_weight = None
    if mask[0]:
        through = _affine(k, grad, weight, None)
        along = k.fold(
            "sum", k.pointwise(lambda g, n: g * n, [through, normal]), dims, keepdim=True
        )
        made = k.pointwise(
            lambda g, n, a, r: r * (g - n * a / count), [through, normal, along, scale]
        )
        of_x = k.cast(made, x.dtype)
    if mask[1] and weight is not None:
        of_weight = _summed_products(k, grad, normal, outer, weight.dtype)
    return of_x, of_weight


ROWS: Mapping[str, Any] = named(
    {
        "_softmax": _softmax,
        "_log_softmax": _log_softmax,
        "_safe_softmax": _safe_softmax,
        "_softmax_backward_data": _softmax_backward,
        "_log_softmax_backward_data": _log_softmax_backward,
        "native_layer_norm": _layer_norm,
        "native_layer_norm_backward": _layer_norm_backward,
        "native_group_norm": _group_norm,
        "native_group_norm_backward": _group_norm_backward,
        "native_batch_norm": _batch_norm,
        "_native_batch_norm_legit_functional": _batch_norm_functional,
        "_native_batch_norm_legit_no_training": _batch_norm_eval,
        "_native_batch_norm_legit.no_stats": _batch_norm_no_stats,
        "native_batch_norm_backward": _batch_norm_backward,
        "_fused_rms_norm": _rms_norm,
        "_fused_rms_norm_backward": _rms_norm_backward,
    }
)
