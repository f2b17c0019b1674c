"""Ops that go element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from jitpkg.facts.layout import broadcast, overlaps, preserved, strides
from jitpkg.facts.rows.common import (
    COMPLEX,
    Raises,
    Unsure,
    empty,
    lies_in_order,
    operand,
    promoted,
    rows,
    sure,
    tensors,
)
from jitpkg.internals.ops import op_name


def _elementwise(operands: Sequence[Any], dtype: torch.dtype) -> Any:
    shapes = [operand(value) for value in operands]
    size = broadcast([shape.size for shape in shapes])
    if size is None:
        raise Unsure
    return empty(size, dtype, strides(size, shapes))


def _in_place(operands: Sequence[Any], dtype: torch.dtype) -> Any:
    target = operands[0]
    size = broadcast([operand(value).size for value in operands])
    sure(size == tuple(target.shape))
    if not torch.can_cast(dtype, target.dtype):
        raise Raises(f"{dtype} cannot be written to {target.dtype}")
    sure(not overlaps(tuple(target.shape), target.stride()))
    return target


def _written(func: Any) -> Callable[[Sequence[Any], torch.dtype], Any]:
    return _in_place if op_name(func).endswith("_") else _elementwise


def unary(func: Any, args: Any, kwargs: Any) -> Any:
    """Of one floating tensor; numbers besides are parameters."""
    x = args[0]
    sure(x.is_floating_point() and not tensors(args[1:]) and not tensors(kwargs.values()))
    return _written(func)([x], x.dtype)


def unary_like(func: Any, args: Any, kwargs: Any) -> Any:
    """As `unary`, where the result is allocated by `empty_like`."""
    made, x = unary(func, args, kwargs), args[0]
    return x if made is x else empty(x.shape, x.dtype, preserved(tuple(x.shape), x.stride()))


def with_kept(func: Any, args: Any, kwargs: Any) -> Any:
    """`log_sigmoid_forward`: the result, and what its derivative needs, both in order."""
    (x,) = args
    sure(x.is_floating_point() and not kwargs)  # its results are `output` and `buffer`
    return empty(x.shape, x.dtype), empty(x.shape, x.dtype)


def unary_of_numbers(func: Any, args: Any, kwargs: Any) -> Any:
    """Of one tensor of numbers."""
    x = args[0]
    sure(x.dtype not in (torch.bool, *COMPLEX) and len(args) == 1 and not kwargs)
    return _written(func)([x], x.dtype)


def unary_to_bool(func: Any, args: Any, kwargs: Any) -> Any:
    sure(len(args) == 1 and not kwargs and args[0].dtype not in COMPLEX)
    return _written(func)(args, torch.bool)


def is_infinite(func: Any, args: Any, kwargs: Any) -> Any:
    """A comparison of the absolute value with a number; integers are not looked at."""
    (x,) = args
    sure(x.dtype not in COMPLEX and not kwargs)
    if not x.is_floating_point():
        return empty(x.shape, torch.bool, preserved(tuple(x.shape), x.stride()))
    return _elementwise([_elementwise([x], x.dtype), 0.0], torch.bool)


def binary(func: Any, args: Any, kwargs: Any) -> Any:
    """Of two tensors, or a tensor and a number; both are promoted."""
    a, b = args
    dtype = promoted(a, b)
    alpha = kwargs.get("alpha", 1)
    sure(kwargs.keys() <= {"alpha"} and type(alpha) in (int, float))
    sure(dtype.is_floating_point or type(alpha) is int)
    return _written(func)(args, dtype)


def reversed_difference(func: Any, args: Any, kwargs: Any) -> Any:
    """`rsub`, which is `sub` with its operands in turn."""
    a, b = args
    return binary_of_numbers(func, (b, a), kwargs)


def binary_of_numbers(func: Any, args: Any, kwargs: Any) -> Any:
    """As `binary`, where neither is of booleans."""
    sure(not any(getattr(value, "dtype", type(value)) in (torch.bool, bool) for value in args))
    return binary(func, args, kwargs)


def division(func: Any, args: Any, kwargs: Any) -> Any:
    """Of integers it is a floating number, unless it is rounded."""
    a, b = args
    dtype = promoted(a, b)
    if kwargs.get("rounding_mode") is None and not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    return _written(func)(args, dtype)


def power(func: Any, args: Any, kwargs: Any) -> Any:
    """A number as the exponent is a parameter; with one as the base, the result lies in order."""
    base, exponent = args
    dtype = promoted(base, exponent)
    sure(dtype.is_floating_point)
    if not isinstance(base, torch.Tensor):
        return empty(exponent.shape, dtype)
    return _written(func)([base, *tensors([exponent])], dtype)


def comparison(func: Any, args: Any, kwargs: Any) -> Any:
    a, b = args
    promoted(a, b)
    return _written(func)(args, torch.bool)


def bitwise(func: Any, args: Any, kwargs: Any) -> Any:
    dtype = promoted(*args) if len(args) == 2 else args[0].dtype
    sure(not dtype.is_floating_point and dtype not in COMPLEX and not kwargs)
    return _written(func)(args, dtype)


def clamp(func: Any, args: Any, kwargs: Any) -> Any:
    """With numbers as bounds, or tensors of the same type."""
    x, *bounds = args
    bounds = [b for b in (*bounds, *kwargs.values()) if b is not None]
    if bounds and len(tensors(bounds)) == len(bounds):
        sure(all(b.dtype is x.dtype for b in bounds) and x.dtype not in (torch.bool, *COMPLEX))
        return _written(func)([x, *bounds], x.dtype)
    sure(x.is_floating_point() and all(type(b) in (int, float) for b in bounds))
    return _written(func)([x], x.dtype)


def where(func: Any, args: Any, kwargs: Any) -> Any:
    condition, a, b = args
    sure(condition.dtype is torch.bool)
    return _elementwise([condition, a, b], promoted(a, b))


def masked_fill(func: Any, args: Any, kwargs: Any) -> Any:
    x, mask, value = args
    sure(mask.dtype is torch.bool and not isinstance(value, torch.Tensor))
    sure(type(value) in (int, float) and x.is_floating_point())
    if op_name(func).endswith("_"):
        return _in_place([x, mask], x.dtype)
    sure(broadcast([tuple(x.shape), tuple(mask.shape)]) == tuple(x.shape))
    return empty(x.shape, x.dtype)


def of_three(func: Any, args: Any, kwargs: Any) -> Any:
    """`lerp`, `addcmul`, `addcdiv`, `hypot`: tensors of one floating type."""
    given = tensors(args)
    dtype = given[0].dtype
    sure(dtype.is_floating_point and all(t.dtype is dtype for t in given))
    return _written(func)(given, dtype)


def filled(func: Any, args: Any, kwargs: Any) -> Any:
    """What writes to all of a tensor."""
    sure(not tensors(args[1:]))
    return _in_place(args[:1], args[0].dtype)


def elementwise_loss(func: Any, args: Any, kwargs: Any) -> Any:
    """`mse_loss` and its like."""
    x, target, *rest = args
    reduction = rest[0] if rest else kwargs.get("reduction", 1)
    dtype = promoted(x, target)
    sure(dtype.is_floating_point)
    result = _elementwise([x, target], dtype)
    return empty((), dtype) if reduction else result


def huber_loss(func: Any, args: Any, kwargs: Any) -> Any:
    """Of two dtypes it is of the first, or refused."""
    sure(args[0].dtype is args[1].dtype)
    return elementwise_loss(func, args, kwargs)


def gated(func: Any, args: Any, kwargs: Any) -> Any:
    """`glu`: the first half of a dimension, times the sigmoid of the second."""
    x, dim = args[0], args[1] if len(args) > 1 else kwargs.get("dim", -1)
    sure(x.is_floating_point() and -x.dim() <= dim < x.dim() and x.shape[dim] % 2 == 0)
    half = x.narrow(dim, 0, x.shape[dim] // 2)
    return _elementwise([half, half], x.dtype)


def prelu(func: Any, args: Any, kwargs: Any) -> Any:
    """`_prelu_kernel`, whose weight has as many dims."""
    x, weight = args
    sure(x.is_floating_point() and weight.dtype is x.dtype and weight.dim() == x.dim())
    return _elementwise(args, x.dtype)


def cross_entropy_of_two(func: Any, args: Any, kwargs: Any) -> Any:
    """`binary_cross_entropy`, also that of logits: tensors of one dtype and size, in order."""
    x, target, *rest = args
    given = [x, target, *tensors(rest)]
    sure(not kwargs and x.is_floating_point() and all(t.dtype is x.dtype for t in given))
    sure(all(t.shape == x.shape and lies_in_order(t) for t in given))
    reduction = rest[-1] if rest and type(rest[-1]) is int else 1
    return empty((), x.dtype) if reduction else empty(x.shape, x.dtype)


ROWS = rows(
    (
        unary,
        """
        exp exp_ exp2 expm1 log log_ log2 log10 log1p sin sin_ cos cos_ tan tanh tanh_ asin acos
        atan sinh cosh sigmoid sigmoid_ sqrt sqrt_ rsqrt rsqrt_ reciprocal reciprocal_ erf erfc
        gelu silu softplus leaky_relu elu hardswish hardsigmoid mish logit threshold
        floor ceil round trunc frac acosh asinh atanh erfinv lgamma digamma celu sinc
        """,
    ),
    (unary_like, "hardtanh hardtanh_ nan_to_num"),
    (with_kept, "log_sigmoid_forward"),
    (unary_of_numbers, "abs abs_ neg neg_ relu relu_ sign"),
    (unary_to_bool, "isnan logical_not logical_not_"),
    (is_infinite, "isinf"),
    (binary, "add add_ mul mul_ maximum minimum fmax fmin"),
    (reversed_difference, "rsub"),
    (binary_of_numbers, "sub sub_ fmod remainder floor_divide"),
    (division, "div div_ atan2 xlogy copysign"),
    (power, "pow pow_"),
    (comparison, "lt le gt ge eq ne logical_and logical_or logical_xor"),
    (bitwise, "bitwise_and bitwise_or bitwise_xor bitwise_not"),
    (clamp, "clamp clamp_ clamp_min clamp_min_ clamp_max clamp_max_"),
    (where, "where"),
    (masked_fill, "masked_fill masked_fill_"),
    (of_three, "lerp addcmul addcmul_ addcdiv addcdiv_ hypot"),
    (filled, "bernoulli_ zero_ fill_ normal_ uniform_"),
    (elementwise_loss, "mse_loss smooth_l1_loss"),
    (huber_loss, "huber_loss"),
    (gated, "glu"),
    (prelu, "_prelu_kernel"),
    (cross_entropy_of_two, "binary_cross_entropy binary_cross_entropy_with_logits"),
)
