"""What ATen ops return, one row each: a function of meta tensors that gives meta tensors.

For many ops torch's own meta kernel is as good, and quick; for others it is written in Python,
takes hundreds of microseconds, and makes torch import its compiler (a second) when it is first
called. For those, rows here say it. A row answers only where it is sure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts.elementwise import Operand, broadcast, is_contiguous, is_dense, strides
from jitpkg.facts.tensor import contiguous_stride


class Unsure(Exception):
    """No row says what a call does."""


Row = Callable[..., Any]
"""`row(func, args, kwargs) -> result`."""

_META = torch.device("meta")


def _sure(condition: bool) -> None:
    if not condition:
        raise Unsure


def _empty(size: Sequence[int], dtype: torch.dtype, stride: Sequence[int] | None = None) -> Any:
    size = tuple(size)
    stride = contiguous_stride(size) if stride is None else tuple(stride)
    return torch.empty_strided(size, stride, dtype=dtype, device=_META)


def _lies_in_order(t: Any) -> bool:
    return is_contiguous(tuple(t.shape), t.stride())


def _operand(value: Any) -> Operand:
    if isinstance(value, torch.Tensor):
        return Operand(tuple(value.shape), value.stride())
    return Operand((), ())


# torch's own meta kernels


def as_it_is(func: Any, args: Any, kwargs: Any) -> Any:
    return func(*args, **kwargs)


def of_ordered(func: Any, args: Any, kwargs: Any) -> Any:
    """torch's kernel, where all tensors lie in order: then no other layout comes into question."""
    for arg in args:
        for t in arg if isinstance(arg, list | tuple) else (arg,):
            _sure(not isinstance(t, torch.Tensor) or _lies_in_order(t))
    return func(*args, **kwargs)


def factory(func: Any, args: Any, kwargs: Any) -> Any:
    """What makes a tensor of nothing, or on the device of another one."""
    device = kwargs.get("device")
    _sure(device is None or torch.device(device).type in ("cpu", "meta"))
    _sure(kwargs.get("layout") in (None, torch.strided) and not kwargs.get("pin_memory"))
    return func(*args, **{**kwargs, "device": _META})


def arange(func: Any, args: Any, kwargs: Any) -> Any:
    """Of integers."""
    _sure(all(type(arg) is int for arg in args) and kwargs.get("dtype") in (None, torch.int64))
    length = len(range(*args))
    _sure(length > 0)
    return factory(torch.ops.aten.empty, ([length],), {**kwargs, "dtype": torch.int64})


def converted(func: Any, args: Any, kwargs: Any) -> Any:
    """A copy of another dtype. For another device it is one only if that is not the tensor's."""
    _sure(kwargs.get("device") in (None, _META))
    return factory(func, args, kwargs)


# Elementwise ops


def _elementwise(operands: Sequence[Any], dtype: torch.dtype) -> Any:
    shapes = [_operand(value) for value in operands]
    size = broadcast([shape.size for shape in shapes])
    if size is None:
        raise Unsure
    return _empty(size, dtype, strides(size, shapes))


def _in_place(operands: Sequence[Any], dtype: torch.dtype) -> Any:
    target = operands[0]
    size = broadcast([_operand(value).size for value in operands])
    _sure(size == tuple(target.shape) and torch.can_cast(dtype, target.dtype))
    _sure(is_dense(tuple(target.shape), target.stride()))
    return target


def _written(func: Any) -> Callable[[Sequence[Any], torch.dtype], Any]:
    return _in_place if func._schema.name.endswith("_") else _elementwise


def unary(func: Any, args: Any, kwargs: Any) -> Any:
    """Of one floating tensor; numbers besides are parameters."""
    x = args[0]
    _sure(x.is_floating_point() and not _tensors(args[1:]) and not _tensors(kwargs.values()))
    return _written(func)([x], x.dtype)


def unary_of_numbers(func: Any, args: Any, kwargs: Any) -> Any:
    """Of one tensor of numbers."""
    x = args[0]
    _sure(x.dtype not in (torch.bool, *_COMPLEX) and len(args) == 1 and not kwargs)
    return _written(func)([x], x.dtype)


def unary_to_bool(func: Any, args: Any, kwargs: Any) -> Any:
    _sure(len(args) == 1 and not kwargs and args[0].dtype not in _COMPLEX)
    return _written(func)(args, torch.bool)


def binary(func: Any, args: Any, kwargs: Any) -> Any:
    """Of two tensors, or a tensor and a number; both are promoted."""
    a, b = args
    dtype = _promoted(a, b)
    alpha = kwargs.get("alpha", 1)
    _sure(kwargs.keys() <= {"alpha"} and type(alpha) in (int, float))
    _sure(dtype.is_floating_point or type(alpha) is int)
    return _written(func)(args, dtype)


def binary_of_numbers(func: Any, args: Any, kwargs: Any) -> Any:
    """As `binary`, where neither is of booleans."""
    _sure(not any(getattr(value, "dtype", type(value)) in (torch.bool, bool) for value in args))
    return binary(func, args, kwargs)


def division(func: Any, args: Any, kwargs: Any) -> Any:
    """Of integers it is a floating number, unless it is rounded."""
    a, b = args
    dtype = _promoted(a, b)
    if kwargs.get("rounding_mode") is None and not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    return _written(func)(args, dtype)


def power(func: Any, args: Any, kwargs: Any) -> Any:
    """A number as the exponent is a parameter."""
    base, exponent = args
    dtype = _promoted(base, exponent)
    _sure(dtype.is_floating_point)
    operands = [base] if isinstance(base, torch.Tensor) else []
    if isinstance(exponent, torch.Tensor):
        operands.append(exponent)
    return _written(func)(operands, dtype)


def comparison(func: Any, args: Any, kwargs: Any) -> Any:
    a, b = args
    _promoted(a, b)
    return _written(func)(args, torch.bool)


def bitwise(func: Any, args: Any, kwargs: Any) -> Any:
    dtype = _promoted(*args) if len(args) == 2 else args[0].dtype
    _sure(not dtype.is_floating_point and dtype not in _COMPLEX and not kwargs)
    return _written(func)(args, dtype)


def clamp(func: Any, args: Any, kwargs: Any) -> Any:
    """With numbers as bounds."""
    x, *bounds = args
    bounds = [b for b in (*bounds, *kwargs.values()) if b is not None]
    _sure(x.is_floating_point() and all(type(b) in (int, float) for b in bounds))
    return _written(func)([x], x.dtype)


def where(func: Any, args: Any, kwargs: Any) -> Any:
    condition, a, b = args
    _sure(condition.dtype is torch.bool)
    return _elementwise([condition, a, b], _promoted(a, b))


def masked_fill(func: Any, args: Any, kwargs: Any) -> Any:
    x, mask, value = args
    _sure(mask.dtype is torch.bool and not isinstance(value, torch.Tensor))
    _sure(type(value) in (int, float) and x.is_floating_point())
    if func._schema.name.endswith("_"):
        return _in_place([x, mask], x.dtype)
    _sure(broadcast([tuple(x.shape), tuple(mask.shape)]) == tuple(x.shape) and _lies_in_order(x))
    return _empty(x.shape, x.dtype)


def of_three(func: Any, args: Any, kwargs: Any) -> Any:
    """`lerp`, `addcmul`, `addcdiv`: tensors of one floating type."""
    tensors = _tensors(args)
    dtype = tensors[0].dtype
    _sure(dtype.is_floating_point and all(t.dtype is dtype for t in tensors))
    return _written(func)(tensors, dtype)


def _tensors(values: Any) -> list[Any]:
    return [value for value in values if isinstance(value, torch.Tensor)]


def _promoted(a: Any, b: Any) -> torch.dtype:
    allowed = (torch.Tensor, bool, int, float)
    _sure(isinstance(a, allowed) and isinstance(b, allowed))
    dtype = torch.result_type(a, b)
    _sure(dtype not in _COMPLEX)
    return dtype


_COMPLEX = (torch.complex32, torch.complex64, torch.complex128)


# Reductions


def of_numbers(func: Any, args: Any, kwargs: Any) -> Any:
    """torch's kernel, for numbers, and at least one: the real op may refuse others."""
    _sure(args[0].dtype is not torch.bool and args[0].numel() > 0)
    return func(*args, **kwargs)


def mean(func: Any, args: Any, kwargs: Any) -> Any:
    """As a sum."""
    _sure(kwargs.get("dtype") is None and args[0].is_floating_point())
    total = torch.ops.aten.sum
    return total(args[0]) if len(args) == 1 else total.dim_IntList(*args)


def deviation(func: Any, args: Any, kwargs: Any) -> Any:
    _sure(args[0].is_floating_point())
    return torch.ops.aten.var.correction(*args, **kwargs)


def to_bool(func: Any, args: Any, kwargs: Any) -> Any:
    """`any` and `all`: as a maximum."""
    x, *rest = args
    dims = rest[0] if rest else list(range(x.dim()))
    dims = [dims] if isinstance(dims, int) else dims
    _sure(x.dtype is torch.bool and x.dim() > 0 and x.numel() > 0)
    return torch.ops.aten.amax(x, dims, *rest[1:])


def same_as_softmax(func: Any, args: Any, kwargs: Any) -> Any:
    return torch.ops.aten._softmax(*args, **kwargs)


def running(func: Any, args: Any, kwargs: Any) -> Any:
    """`cumsum` and its like."""
    x = args[0]
    _sure(x.is_floating_point() and kwargs.get("dtype") is None and _lies_in_order(x))
    _sure(-x.dim() <= args[1] < x.dim())
    return _empty(x.shape, x.dtype)


# Linear algebra


def matrix_products(func: Any, args: Any, kwargs: Any) -> Any:
    """`addmm`."""
    bias, a, b = args
    _sure(bias.dtype is a.dtype is b.dtype and a.is_floating_point())
    _sure(a.dim() == b.dim() == 2 and a.shape[1] == b.shape[0])
    size = (a.shape[0], b.shape[1])
    _sure(broadcast([tuple(bias.shape), size]) == size)
    return _empty(size, a.dtype)


def vector_products(func: Any, args: Any, kwargs: Any) -> Any:
    """`mv` and `dot`."""
    a, b = args
    _sure(a.dtype is b.dtype and a.is_floating_point() and b.dim() == 1)
    _sure(a.dim() in (1, 2) and a.shape[-1] == b.shape[0])
    return _empty(a.shape[:-1], a.dtype)


# Joining, normalising, losses


def cat(func: Any, args: Any, kwargs: Any) -> Any:
    tensors, dim = args[0], args[1] if len(args) > 1 else 0
    first = tensors[0]
    rank = first.dim()
    _sure(-rank <= dim < rank)
    dim %= rank
    for t in tensors:
        _sure(t.dim() == rank and t.dtype is first.dtype and _lies_in_order(t))
        _sure(t.shape[:dim] == first.shape[:dim] and t.shape[dim + 1 :] == first.shape[dim + 1 :])
    size = list(first.shape)
    size[dim] = sum(t.shape[dim] for t in tensors)
    return _empty(size, first.dtype)


def stack(func: Any, args: Any, kwargs: Any) -> Any:
    tensors, dim = args[0], args[1] if len(args) > 1 else 0
    first = tensors[0]
    rank = first.dim() + 1
    _sure(-rank <= dim < rank)
    for t in tensors:
        _sure(t.shape == first.shape and t.dtype is first.dtype and _lies_in_order(t))
    size = list(first.shape)
    size.insert(dim % rank, len(tensors))
    return _empty(size, first.dtype)


def layer_norm(func: Any, args: Any, kwargs: Any) -> Any:
    x, normalized, weight, bias, _ = args
    _sure(x.dtype in _FULL and _lies_in_order(x))
    lead = x.dim() - len(normalized)
    _sure(lead >= 0 and list(x.shape[lead:]) == list(normalized))
    for t in _tensors((weight, bias)):
        _sure(t.dtype is x.dtype and list(t.shape) == list(normalized))
    statistic = (*x.shape[:lead], *(1 for _ in normalized))
    return _empty(x.shape, x.dtype), _empty(statistic, x.dtype), _empty(statistic, x.dtype)


def batch_norm(func: Any, args: Any, kwargs: Any) -> Any:
    x, *parameters = args[:5]
    training = args[5]
    _sure(x.dtype in _FULL and x.dim() >= 2 and _lies_in_order(x) and x.numel() > 0)
    for t in _tensors(parameters):
        _sure(t.dtype is x.dtype and tuple(t.shape) == (x.shape[1],))
    saved = (x.shape[1],) if training else (0,)
    return _empty(x.shape, x.dtype), _empty(saved, x.dtype), _empty(saved, x.dtype)


def group_norm(func: Any, args: Any, kwargs: Any) -> Any:
    x, weight, bias, batch, channels, _, groups, _ = args
    _sure(x.dtype in _FULL and _lies_in_order(x) and x.numel() > 0)
    for t in _tensors((weight, bias)):
        _sure(t.dtype is x.dtype and tuple(t.shape) == (channels,))
    _sure(channels % groups == 0)
    saved = (batch, groups)
    return _empty(x.shape, x.dtype), _empty(saved, x.dtype), _empty(saved, x.dtype)


_FULL = (torch.float32, torch.float64)


def nll_loss(func: Any, args: Any, kwargs: Any) -> Any:
    x, target, weight, reduction, _ = args
    _sure(x.dtype in _FULL and x.dim() == 2 and target.dtype is torch.int64)
    _sure(tuple(target.shape) == (x.shape[0],))
    _sure(weight is None or (weight.dtype is x.dtype and tuple(weight.shape) == (x.shape[1],)))
    size = () if reduction else (x.shape[0],)
    return _empty(size, x.dtype), _empty((), x.dtype)


def elementwise_loss(func: Any, args: Any, kwargs: Any) -> Any:
    """`mse_loss` and its like."""
    x, target, *rest = args
    reduction = rest[0] if rest else kwargs.get("reduction", 1)
    dtype = _promoted(x, target)
    _sure(dtype.is_floating_point)
    result = _elementwise([x, target], dtype)
    return _empty((), dtype) if reduction else result


def _rows(row: Row, names: str) -> dict[str, Row]:
    return {f"aten::{name}": row for name in names.split()}


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        **_rows(
            as_it_is,
            """
            view transpose permute t unsqueeze squeeze expand select slice split split_with_sizes
            unbind detach alias diagonal
            clone copy_ mm bmm sum amax amin prod topk _softmax
            bernoulli_ zero_ fill_ gather index_select embedding flip repeat _unsafe_view index
            """,
        ),
        **_rows(of_ordered, "convolution max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d"),
        **_rows(
            factory,
            """
            zeros ones full empty rand scalar_tensor new_zeros new_empty new_ones
            new_full zeros_like ones_like empty_like full_like rand_like
            """,
        ),
        **_rows(arange, "arange"),
        **_rows(converted, "_to_copy"),
        **_rows(
            unary,
            """
            exp exp_ exp2 expm1 log log_ log2 log10 log1p sin sin_ cos cos_ tan tanh tanh_ asin
            acos atan sinh cosh sigmoid sigmoid_ sqrt sqrt_ rsqrt rsqrt_ reciprocal reciprocal_ erf
            erfc gelu silu softplus leaky_relu elu hardtanh
            hardswish hardsigmoid mish logit floor ceil round trunc frac
            """,
        ),
        **_rows(unary_of_numbers, "abs abs_ neg neg_ relu relu_ sign"),
        **_rows(unary_to_bool, "isnan isinf logical_not"),
        **_rows(binary, "add add_ mul mul_ maximum minimum"),
        **_rows(binary_of_numbers, "sub sub_ rsub fmod remainder"),
        **_rows(division, "div div_ atan2"),
        **_rows(power, "pow pow_"),
        **_rows(comparison, "lt le gt ge eq ne logical_and logical_or logical_xor"),
        **_rows(bitwise, "bitwise_and bitwise_or bitwise_xor bitwise_not"),
        **_rows(clamp, "clamp clamp_ clamp_min clamp_min_ clamp_max clamp_max_"),
        **_rows(where, "where"),
        **_rows(masked_fill, "masked_fill masked_fill_"),
        **_rows(of_three, "lerp addcmul addcmul_ addcdiv addcdiv_"),
        **_rows(of_numbers, "max min argmax argmin"),
        **_rows(mean, "mean"),
        **_rows(deviation, "std var"),
        **_rows(to_bool, "any all"),
        **_rows(same_as_softmax, "_log_softmax"),
        **_rows(running, "cumsum cumprod"),
        **_rows(matrix_products, "addmm"),
        **_rows(vector_products, "mv dot"),
        **_rows(cat, "cat"),
        **_rows(stack, "stack"),
        **_rows(layer_norm, "native_layer_norm"),
        **_rows(batch_norm, "native_batch_norm"),
        **_rows(group_norm, "native_group_norm"),
        **_rows(nll_loss, "nll_loss_forward"),
        **_rows(elementwise_loss, "mse_loss smooth_l1_loss huber_loss"),
    }
)
"""ATen op -> what it returns. The rows are compared with the real ops in tests/facts."""
