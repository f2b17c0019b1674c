"""Ops that autograd's formulas call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from jitpkg.facts.layout import strides
from jitpkg.facts.rows.common import (
    NARROW,
    empty,
    is_usual,
    lies_in_order,
    operand,
    rows,
    sure,
    tensors,
)
from jitpkg.facts.rows.creation import plain
from jitpkg.facts.rows.functions import attention as whole_attention
from jitpkg.facts.rows.layers import batch_norm as batch_norm_of
from jitpkg.facts.rows.reductions import softmax as softmax_of


def elementwise(func: Any, args: Any, kwargs: Any) -> Any:
    """Of tensors of one size and floating dtype; numbers besides are parameters."""
    return _elementwise(tensors(args), kwargs)


def of_input_first(func: Any, args: Any, kwargs: Any) -> Any:
    """The same, where the result lies as the input does rather than as the gradient."""
    return _elementwise([*tensors(args)[::-1]], kwargs)


def _elementwise(given: list[Any], kwargs: Any) -> Any:
    size = tuple(given[0].shape)
    sure(not tensors(kwargs.values()) and given[0].is_floating_point())
    sure(all(t.dtype is given[0].dtype and tuple(t.shape) == size for t in given))
    return empty(size, given[0].dtype, strides(size, [operand(t) for t in given]))


def dropout(func: Any, args: Any, kwargs: Any) -> Any:
    """`native_dropout_backward`: of a gradient and a mask."""
    gradient, mask, _ = args
    size = tuple(gradient.shape)
    sure(gradient.is_floating_point() and mask.dtype is torch.bool and tuple(mask.shape) == size)
    return empty(size, gradient.dtype, strides(size, [operand(gradient), operand(mask)]))


def softmax(func: Any, args: Any, kwargs: Any) -> Any:
    gradient, output, _, dtype = args
    sure(gradient.dtype is output.dtype is dtype and gradient.is_floating_point())
    sure(gradient.shape == output.shape)
    return empty(gradient.shape, dtype)


def _asked(mask: Sequence[bool], *made: Callable[[], Any]) -> tuple[Any, ...]:
    """Those gradients that are asked for."""
    return tuple(make() if asked else None for asked, make in zip(mask, made, strict=True))


def _alike(*given: Any, narrow: bool = False) -> None:
    sure(all(t.dtype is given[0].dtype and lies_in_order(t) and t.numel() > 0 for t in given))
    sure(given[0].dtype in _FULL or (narrow and given[0].dtype in NARROW))


_FULL = (torch.float32, torch.float64)


def layer_norm(func: Any, args: Any, kwargs: Any) -> Any:
    gradient, x, normalized, mean, rstd, weight, bias, mask = args
    sure(gradient.numel() > 0 and x.dtype is gradient.dtype)
    dtype = x.dtype  # of all that is not laid out like the input
    if x.dtype not in _FULL:
        sure(x.dtype in NARROW)
        if weight is not None or bias is not None:
            dtype = torch.float32
    sure(all(t.dtype is dtype for t in tensors((mean, rstd, weight, bias))))
    return _asked(
        (mask[0], mask[1] and weight is not None, mask[2] and bias is not None),
        lambda: empty(x.shape, x.dtype),
        lambda: empty(normalized, dtype),
        lambda: empty(normalized, dtype),
    )


def group_norm(func: Any, args: Any, kwargs: Any) -> Any:
    gradient, x, mean, rstd, weight, _, channels, *_, mask = args
    _alike(gradient, x, mean, rstd, *tensors((weight,)))
    return _asked(
        (mask[0], mask[1] and weight is not None, mask[2]),
        lambda: empty(x.shape, x.dtype),
        lambda: empty((channels,), x.dtype),
        lambda: empty((channels,), x.dtype),
    )


def batch_norm_functional(func: Any, args: Any, kwargs: Any) -> Any:
    """`_native_batch_norm_legit_functional`: it returns the new statistics, too."""
    made = batch_norm_of(func, args, kwargs)
    sure(bool(args[5]) and all(isinstance(t, torch.Tensor) for t in args[3:5]))
    return *made, *(empty(t.shape, t.dtype) for t in args[3:5])


def batch_norm(func: Any, args: Any, kwargs: Any) -> Any:
    gradient, x, *_, mask = args
    _alike(gradient, x, narrow=True)
    parameters = tensors(args[2:7])
    _alike(*parameters, narrow=True)
    dtype = parameters[0].dtype
    sure(dtype is x.dtype or (x.dtype in NARROW and dtype is torch.float32))
    channels = (x.shape[1],)
    return _asked(
        (mask[0], mask[1], mask[2]),
        lambda: empty(x.shape, x.dtype),
        lambda: empty(channels, dtype),
        lambda: empty(channels, dtype),
    )


def convolution(func: Any, args: Any, kwargs: Any) -> Any:
    gradient, x, weight, biases, *_, mask = args
    _alike(gradient, x, weight, narrow=True)
    sure(all(map(is_usual, (gradient, x, weight))))
    return _asked(
        mask,
        lambda: empty(x.shape, x.dtype),
        lambda: empty(weight.shape, x.dtype),
        lambda: empty(biases or (gradient.shape[1],), x.dtype),
    )


def nll_loss(func: Any, args: Any, kwargs: Any) -> Any:
    gradient, x, *_ = args
    sure(gradient.dtype is x.dtype and x.is_floating_point() and x.dim() == 2)
    return empty(x.shape, x.dtype)


def embedding(func: Any, args: Any, kwargs: Any) -> Any:
    gradient, _, count, *_ = args
    sure(gradient.dtype in _FULL and gradient.dim() > 0 and gradient.numel() > 0)
    return empty((count, gradient.shape[-1]), gradient.dtype)


def pooling(func: Any, args: Any, kwargs: Any) -> Any:
    """Of pooled images, the gradient of the images."""
    gradient, x, *_ = args
    _alike(gradient, x)
    sure(x.dim() in (3, 4) and all(n > 1 for n in x.shape))
    return empty(x.shape, x.dtype)


def strided(func: Any, args: Any, kwargs: Any) -> Any:
    """`empty_strided`: for a gradient that is to lie as something else does."""
    plain(kwargs)
    size, stride = args
    sure(len(size) == len(stride) and all(n >= 0 for n in (*size, *stride)))
    return empty(size, kwargs.get("dtype") or torch.get_default_dtype(), stride)


def of_a_part(func: Any, args: Any, kwargs: Any) -> Any:
    """`slice_backward` and its like: zeros around a gradient."""
    gradient, size, *_ = args
    return empty(size, gradient.dtype)


def safe_softmax(func: Any, args: Any, kwargs: Any) -> Any:
    """Of attention that is computed op by op: 0 where all are minus infinity."""
    x, dim, *dtype = args
    sure(lies_in_order(x) and not any((*dtype, *kwargs.values())))
    return softmax_of(func, (x, dim, False), {})


def attention(func: Any, args: Any, kwargs: Any) -> Any:
    """The result of attention, and for each row of it the logarithm of a sum."""
    query, key, value, *_ = args
    mask = kwargs.get("attn_mask")
    sure(query.dtype in _FULL and (mask is None or mask.dtype is query.dtype))
    made, _ = whole_attention(query, key, value)
    batch, heads, length, _ = query.shape
    rows_of = empty((batch, length, heads), query.dtype).transpose(1, 2)
    return made.tensors[0], rows_of


def attention_backward(func: Any, args: Any, kwargs: Any) -> Any:
    gradient, *given = args[:4]
    sure(gradient.dtype in _FULL)
    sure(all(t.dim() == 4 and t.dtype is gradient.dtype for t in given))
    turned = [(t.shape[0], t.shape[2], t.shape[1], t.shape[3]) for t in given]
    return tuple(empty(size, gradient.dtype).transpose(1, 2) for size in turned)


ROWS = rows(
    (elementwise, "gelu_backward sigmoid_backward tanh_backward silu_backward elu_backward"),
    (elementwise, "hardtanh_backward hardswish_backward hardsigmoid_backward"),
    (elementwise, "softplus_backward mish_backward"),
    (of_input_first, "threshold_backward leaky_relu_backward"),
    (dropout, "native_dropout_backward"),
    (softmax, "_softmax_backward_data _log_softmax_backward_data"),
    (layer_norm, "native_layer_norm_backward"),
    (group_norm, "native_group_norm_backward"),
    (batch_norm_functional, "_native_batch_norm_legit_functional"),
    (batch_norm, "native_batch_norm_backward"),
    (convolution, "convolution_backward"),
    (nll_loss, "nll_loss_backward"),
    (embedding, "embedding_dense_backward"),
    (pooling, "max_pool2d_with_indices_backward avg_pool2d_backward"),
    (pooling, "_adaptive_avg_pool2d_backward"),
    (strided, "empty_strided"),
    (of_a_part, "slice_backward select_backward diagonal_backward"),
    (safe_softmax, "_safe_softmax"),
    (attention, "_scaled_dot_product_flash_attention_for_cpu"),
    (attention_backward, "_scaled_dot_product_flash_attention_for_cpu_backward"),
)
