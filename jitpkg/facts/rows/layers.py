"""Products of matrices, windows over images, normalisation, losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jitpkg.facts.layout import broadcast, is_like_channels_last
from jitpkg.facts.rows.common import (
    NARROW,
    empty,
    in_format_of,
    lies_in_order,
    rows,
    sure,
    tensors,
)


def matrix_product(func: Any, args: Any, kwargs: Any) -> Any:
    """`mm`, and `addmm`, which adds something to it."""
    *added, a, b = args
    sure(not kwargs and a.dtype is b.dtype and a.is_floating_point())
    sure(a.dim() == b.dim() == 2 and a.shape[1] == b.shape[0])
    size = (a.shape[0], b.shape[1])
    for t in added:
        sure(t.dtype is a.dtype and broadcast([tuple(t.shape), size]) == size)
    return empty(size, a.dtype)


def batches_of_products(func: Any, args: Any, kwargs: Any) -> Any:
    """`bmm`."""
    a, b = args
    sure(a.dtype is b.dtype and a.is_floating_point() and a.dim() == b.dim() == 3)
    sure(a.shape[0] == b.shape[0] and a.shape[2] == b.shape[1])
    return empty((a.shape[0], a.shape[1], b.shape[2]), a.dtype)


def added_batches(func: Any, args: Any, kwargs: Any) -> Any:
    """`baddbmm`."""
    added, a, b = args
    sure(kwargs.keys() <= {"alpha", "beta"} and added.dtype is a.dtype)
    made = batches_of_products(func, (a, b), {})
    size = tuple(made.shape)
    sure(broadcast([tuple(added.shape), size]) == size and lies_in_order(added))
    return made


def vector_products(func: Any, args: Any, kwargs: Any) -> Any:
    """`mv` and `dot`."""
    a, b = args
    sure(a.dtype is b.dtype and a.is_floating_point() and b.dim() == 1)
    sure(a.dim() in (1, 2) and a.shape[-1] == b.shape[0])
    return empty(a.shape[:-1], a.dtype)


# Windows over images


def windows(length: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How many windows there are along a dim."""
    count = (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    sure(count > 0)
    return count


def convolution(func: Any, args: Any, kwargs: Any) -> Any:
    x, weight, bias, stride, padding, dilation, transposed, ends, groups = args
    if transposed:
        return _convolution_transposed(x, weight, bias, (stride, padding, dilation, ends), groups)
    sure(x.dtype is weight.dtype and x.is_floating_point())
    sure(lies_in_order(x) and lies_in_order(weight) and x.dim() == weight.dim() > 2)
    sure(x.numel() > 0 and x.shape[1] == weight.shape[1] * groups)
    sure(weight.shape[0] % groups == 0)
    sure(bias is None or (bias.dtype is x.dtype and tuple(bias.shape) == (weight.shape[0],)))
    lengths = x.shape[2:]
    sure(all(len(given) == len(lengths) for given in (stride, padding, dilation)))
    over = zip(lengths, weight.shape[2:], stride, padding, dilation, strict=True)
    size = (x.shape[0], weight.shape[0], *(windows(*each) for each in over))
    return _convolved(x, weight, size)


def _convolution_transposed(x: Any, weight: Any, bias: Any, settings: Any, groups: int) -> Any:
    sure(x.dtype is weight.dtype and x.is_floating_point() and x.numel() > 0)
    sure(lies_in_order(x) and lies_in_order(weight) and x.dim() == weight.dim() > 2)
    sure(x.shape[1] == weight.shape[0] and x.shape[1] % groups == 0)
    channels = weight.shape[1] * groups
    sure(bias is None or (bias.dtype is x.dtype and tuple(bias.shape) == (channels,)))
    lengths = x.shape[2:]
    sure(all(len(given) == len(lengths) for given in settings))
    size = [x.shape[0], channels]
    for n, window, *given in zip(lengths, weight.shape[2:], *settings, strict=True):
        stride, padding, dilation, end = given
        sure(0 <= end < max(stride, dilation))
        length = (n - 1) * stride - 2 * padding + dilation * (window - 1) + end + 1
        sure(length > 0)
        size.append(length)
    return _convolved(x, weight, size)


def _convolved(x: Any, weight: Any, size: Sequence[int]) -> Any:
    """Images in the format with the channels innermost if image or weight suggest that: they may,
    and lie in order, where there is one channel or one pixel. Volumes go by what computes them."""
    suggesting = [t for t in (x, weight) if is_like_channels_last(tuple(t.shape), t.stride())]
    if not suggesting:
        return empty(size, x.dtype)
    sure(x.dim() == 4)
    return in_format_of(suggesting[0], size, x.dtype)


def resized(func: Any, args: Any, kwargs: Any) -> Any:
    """`upsample_nearest2d` and its like, to a size or by factors."""
    x, size, *rest = args
    factors: Any = rest[-1] if rest else None
    sure(x.dim() in (3, 4) and x.is_floating_point() and x.numel() > 0 and lies_in_order(x))
    sure(all(n > 1 for n in x.shape[1:]))
    if size is None:
        sure(isinstance(factors, list | tuple) and len(factors) == x.dim() - 2)
        size = [int(n * factor) for n, factor in zip(x.shape[2:], factors, strict=True)]
    sure(len(size) == x.dim() - 2 and all(n > 0 for n in size))
    return empty((*x.shape[:2], *size), x.dtype)


def max_pool(func: Any, args: Any, kwargs: Any) -> Any:
    x, kernel, *rest = args
    stride, padding, dilation, ceil_mode = _with_defaults(rest, (), [0, 0], [1, 1], False)
    size = _pooled(x, kernel, stride or kernel, padding, dilation, ceil_mode)
    return in_format_of(x, size, x.dtype), in_format_of(x, size, torch.int64)


def average_pool(func: Any, args: Any, kwargs: Any) -> Any:
    x, kernel, *rest = args
    stride, padding, ceil_mode = _with_defaults(rest[:3], (), [0, 0], False)
    size = _pooled(x, kernel, stride or kernel, padding, [1, 1], ceil_mode)
    return in_format_of(x, size, x.dtype)


def _with_defaults(given: Any, *defaults: Any) -> Any:
    return (*given, *defaults[len(given) :])


def _pooled(
    x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[int, ...]:
    """Of the last two dims; each setting has two numbers, or one for both."""
    both = [list(n) * 2 if len(n) == 1 else list(n) for n in (kernel, stride, padding, dilation)]
    sure(not ceil_mode and x.dim() in (3, 4) and x.is_floating_point())
    sure(lies_in_order(x) and x.numel() > 0)
    sure(all(2 * both[2][k] <= both[0][k] for k in range(2)))
    ends = (windows(x.shape[k - 2], *(setting[k] for setting in both)) for k in range(2))
    return (*x.shape[:-2], *ends)


def adaptive_pool(func: Any, args: Any, kwargs: Any) -> Any:
    x, size = args
    sure(x.is_floating_point() and x.dim() in (3, 4) and lies_in_order(x) and x.numel() > 0)
    return in_format_of(x, (*x.shape[:-2], *size), x.dtype)


# Normalisation, losses


def layer_norm(func: Any, args: Any, kwargs: Any) -> Any:
    x, normalized, weight, bias, _ = args
    sure(x.is_floating_point())
    lead = x.dim() - len(normalized)
    sure(lead >= 0 and list(x.shape[lead:]) == list(normalized))
    dtype = _of_statistics(x, weight, bias)
    sure(all(list(t.shape) == list(normalized) for t in tensors((weight, bias))))
    statistic = (*x.shape[:lead], *(1 for _ in normalized))
    return empty(x.shape, x.dtype), empty(statistic, dtype), empty(statistic, dtype)


def _of_statistics(x: Any, *parameters: Any) -> torch.dtype:
    """The dtype of a norm's statistics: parameters of float32 beside a narrow input make it so."""
    dtypes = {t.dtype for t in tensors(parameters)}
    wide = dtypes == {torch.float32} and x.dtype in NARROW
    sure(wide or dtypes <= {x.dtype})
    return torch.float32 if wide else x.dtype


def group_norm(func: Any, args: Any, kwargs: Any) -> Any:
    x, weight, bias, n, channels, inner, groups, _ = args
    sure(x.dim() >= 2 and lies_in_order(x) and x.numel() > 0 and channels % groups == 0)
    sure((n, channels, n * channels * inner) == (*x.shape[:2], x.numel()))
    sure(x.is_floating_point())
    dtype = _of_statistics(x, weight, bias)
    sure(all(tuple(t.shape) == (channels,) for t in tensors((weight, bias))))
    return empty(x.shape, x.dtype), empty((n, groups), dtype), empty((n, groups), dtype)


def batch_norm(func: Any, args: Any, kwargs: Any) -> Any:
    x, *parameters = args[:5]
    training, given = args[5], tensors(parameters)
    sure(x.dim() >= 2 and lies_in_order(x) and x.numel() > 0)
    dtype = given[0].dtype if given else x.dtype
    sure(dtype is x.dtype or (x.dtype in NARROW and dtype is torch.float32))
    sure(dtype in (*_FULL, *NARROW))
    for t in given:
        sure(t.dtype is dtype and tuple(t.shape) == (x.shape[1],))
    saved = (x.shape[1],) if training else (0,)
    return empty(x.shape, x.dtype), empty(saved, dtype), empty(saved, dtype)


_FULL = (torch.float32, torch.float64)


def encoder_layer(func: Any, args: Any, kwargs: Any) -> Any:
    """`_transformer_encoder_layer_fwd`, which evaluates a layer of a transformer as one op."""
    x, width = args[:2]
    sure(not tensors(args[18:]))  # a mask
    _check_one_dtype(x, width, args)
    return empty(x.shape, x.dtype)


def self_attention(func: Any, args: Any, kwargs: Any) -> Any:
    """`_native_multi_head_attention`: the result, and the weights where they are asked for."""
    x, key, value, width, heads = args[:5]
    sure(x is key is value)
    _check_one_dtype(x, width, args)
    *_, needs_weights, averages, _ = _with_defaults(args[9:], None, True, True, None)
    if not needs_weights:
        return empty(x.shape, x.dtype), None
    batch, length, _ = x.shape
    each = () if averages else (heads,)
    return empty(x.shape, x.dtype), empty((batch, *each, length, length), x.dtype)


def _check_one_dtype(x: Any, width: int, args: Any) -> None:
    sure(x.dim() == 3 and x.shape[2] == width and x.is_floating_point() and x.numel() > 0)
    sure(all(t.dtype is x.dtype for t in tensors(args)))


def nll_loss(func: Any, args: Any, kwargs: Any) -> Any:
    x, target, weight, reduction, _ = args
    sure(x.is_floating_point() and x.dim() == 2 and target.dtype is torch.int64)
    sure(tuple(target.shape) == (x.shape[0],))
    sure(weight is None or (weight.dtype is x.dtype and tuple(weight.shape) == (x.shape[1],)))
    size = () if reduction else (x.shape[0],)
    return empty(size, x.dtype), empty((), x.dtype)


ROWS = rows(
    (matrix_product, "mm addmm"),
    (batches_of_products, "bmm"),
    (added_batches, "baddbmm"),
    (resized, "upsample_nearest1d upsample_linear1d"),
    (resized, "upsample_nearest2d upsample_bilinear2d upsample_bicubic2d"),
    (vector_products, "mv dot"),
    (convolution, "convolution"),
    (max_pool, "max_pool2d_with_indices"),
    (average_pool, "avg_pool2d"),
    (adaptive_pool, "_adaptive_avg_pool2d"),
    (layer_norm, "native_layer_norm"),
    (batch_norm, "native_batch_norm"),
    (group_norm, "native_group_norm"),
    (encoder_layer, "_transformer_encoder_layer_fwd"),
    (self_attention, "_native_multi_head_attention"),
    (nll_loss, "nll_loss_forward"),
)
