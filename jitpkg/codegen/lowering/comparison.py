"""Ops that compare, choose, and work on truths and bits; casts. All of these are exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.promotion import promoted
from jitpkg.codegen.lowering.table import (
    Lowering,
    NotLowered,
    Row,
    Scalar,
    Tensor,
    named,
    require,
)

Operand = Tensor | Scalar


def _exact(body: Callable[[Expr, Expr], Expr]) -> Row:
    """Of two operands, numbers rounded to their common dtype."""

    def row(k: Lowering, a: Operand, b: Operand) -> Tensor:
        return k.pointwise(body, [a, b], rounded=True)

    return row


def _of(op: str) -> Row:
    return _exact(lambda a, b: a.apply(op, b))


# Truths


def truth(k: Lowering, x: Operand, index: list[Expr]) -> Expr:
    if isinstance(x, Tensor):
        return k.operand(x, index, x.dtype).cast(torch.bool)
    return k.number(bool(x), torch.bool)


def _logic(body: Callable[..., Expr]) -> Row:
    def row(k: Lowering, *operands: Operand) -> Tensor:
        def element(*index: Expr) -> Expr:
            return body(*(truth(k, x, list(index)) for x in operands))

        return k.define(k.common_sizes(operands), torch.bool, element)

    return row


def _test(of_floats: Callable[[Expr], Expr], of_others: bool) -> Row:
    """A property that all numbers but floats have, or lack."""

    def row(k: Lowering, x: Tensor) -> Tensor:
        if not x.dtype.is_floating_point:
            return k.define(x.sizes, torch.bool, lambda *_: k.number(of_others, torch.bool))
        return k.pointwise(of_floats, [x])

    return row


# Bits


def _bitwise(op: str) -> Row:
    def row(k: Lowering, a: Operand, b: Operand) -> Tensor:
        require(not promoted([a, b]).is_floating_point, "bits of floats")
        return k.pointwise(lambda x, y: x.apply(op, y), [a, b])

    return row


def _bitwise_not(k: Lowering, x: Tensor) -> Tensor:
    require(not x.dtype.is_floating_point, "bits of floats")
    return k.pointwise(lambda v: ~v, [x])


def _shift(op: str) -> Row:
    """A distance that is negative or too long shifts everything out."""

    def element(x: Expr, by: Expr) -> Expr:
        info = torch.iinfo(x.dtype)
        last = info.bits - 1
        outside = (by < 0) | (by > last)
        inside = outside.where(0, by)
        if op == "shl":
            return outside.where(0, x.apply("shl", inside))
        gone = x.apply("shr", x.of(last)) if info.min else x.of(0)
        return outside.where(gone, x.apply("shr", inside))

    def row(k: Lowering, a: Operand, b: Operand) -> Tensor:
        require(promoted([a, b]) in ops.INTEGERS, "a shift of no integers")
        return k.pointwise(element, [a, b])

    return row


# Choice


def _where(k: Lowering, condition: Tensor, yes: Operand, no: Operand) -> Tensor:
    common = promoted([yes, no])

    def element(*index: Expr) -> Expr:
        chosen = [k.operand(x, index, common, rounded=True) for x in (yes, no)]
        return truth(k, condition, list(index)).where(*chosen)

    return k.define(k.common_sizes([condition, yes, no]), common, element)


def _masked_fill(k: Lowering, x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    require(mask.dtype is torch.bool, "a mask that is no truth")
    require(isinstance(value, Tensor) or _holds(x.dtype, value), "a value of a higher kind")
    if isinstance(value, Tensor):
        require(value.rank == 0, "a value with dims")
        require(promoted([x, value]) is x.dtype, "a value of a higher kind")

    def element(*index: Expr) -> Expr:
        own = k.operand(x, index, x.dtype)
        return truth(k, mask, list(index)).where(k.operand(value, index, x.dtype, True), own)

    return k.define(k.common_sizes([x, mask]), x.dtype, element)


def _holds(dtype: torch.dtype, value: Scalar) -> bool:
    if dtype is torch.bool:
        return isinstance(value, bool)
    return dtype.is_floating_point or not isinstance(value, float)


def _clamp(k: Lowering, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    bounds = [bound for bound in (low, high) if bound is not None]
    require(bool(bounds), "no bounds")
    require(promoted([x, *bounds]) is not torch.bool, "bounds of truths")
    # PyTorch 2.11 takes one such bound for none
    require(not any(isinstance(bound, float) and bound != bound for bound in bounds), "NaN")

    def element(v: Expr, *given: Expr) -> Expr:
        if low is not None:  # of two zeros, the second operand's remains, as in eager code
            v = given[0].maximum(v)
        return v if high is None else given[-1].minimum(v)

    return k.pointwise(element, [x, *bounds], rounded=True)


def _clamp_max(k: Lowering, x: Tensor, high: Any) -> Tensor:
    return _clamp(k, x, None, high)


def _fmax(a: Expr, b: Expr) -> Expr:
    return _unless_nan(a, b, "maximum")


def _fmin(a: Expr, b: Expr) -> Expr:
    return _unless_nan(a, b, "minimum")


def _unless_nan(a: Expr, b: Expr, op: str) -> Expr:
    chosen = b.apply(op, a)
    if not a.dtype.is_floating_point:
        return chosen
    return a.is_nan().where(b, b.is_nan().where(a, chosen))


def _nan_to_num(
    k: Lowering,
    x: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    if not x.dtype.is_floating_point:
        return x
    ends = torch.finfo(x.dtype)
    of_nan = k.number(0.0 if nan is None else nan, x.dtype)
    most = k.number(ends.max if posinf is None else posinf, x.dtype)
    least = k.number(ends.min if neginf is None else neginf, x.dtype)

    def element(v: Expr) -> Expr:
        of_finite = v.eq(math.inf).where(
            most.cast(v.dtype), v.eq(-math.inf).where(least.cast(v.dtype), v)
        )
        return v.is_nan().where(of_nan.cast(v.dtype), of_finite)

    return k.pointwise(element, [x])


# Casts and copies


def _to_copy(
    k: Lowering,
    x: Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: Any = None,
    **_: Any,
) -> Tensor:
    require(layout in (None, torch.strided), f"{layout}")
    require(device is None or torch.device(device) == k.device, "another device")
    return k.cast(x, x.dtype if dtype is None else dtype)


def _to_dtype(k: Lowering, x: Tensor, dtype: torch.dtype, *_: Any) -> Tensor:
    return k.cast(x, dtype)


def same(k: Lowering, x: Tensor, *_: Any, **__: Any) -> Tensor:
    """What it is, element by element."""
    return x


def _copy(k: Lowering, x: Tensor, source: Tensor | Scalar, *_: Any) -> Tensor:
    if not isinstance(source, Tensor):
        kind = torch.bool if isinstance(source, bool) else _OF_NUMBERS[isinstance(source, int)]
        return k.define(x.sizes, x.dtype, lambda *at: k.operand(source, at, kind))
    if k.common_sizes([x, source]) != x.sizes:
        raise NotLowered("a source that is larger")
    return k.define(x.sizes, x.dtype, lambda *at: k.operand(source, at, source.dtype))


_OF_NUMBERS = {True: torch.int64, False: torch.float64}
"""What a number is as a tensor, before it is cast."""


def _signbit(k: Lowering, x: Tensor) -> Tensor:
    if x.dtype is torch.bool:
        return k.define(x.sizes, torch.bool, lambda *_: k.number(False, torch.bool))
    return k.pointwise(lambda v: v.apply("signbit") if v.dtype in ops.FLOATS else v < 0, [x])


_COMPARED = {
    "eq": "eq",
    "ne not_equal": "ne",
    "lt less": "lt",
    "le less_equal": "le",
    "gt greater": "gt",
    "ge greater_equal": "ge",
}

ROWS: Mapping[str, Row] = named(
    {
        **{names: _of(op) for names, op in _COMPARED.items()},
        "maximum max.other": _of("maximum"),
        "minimum min.other": _of("minimum"),
        "fmax": _exact(_fmax),
        "fmin": _exact(_fmin),
        "logical_and": _logic(lambda a, b: a & b),
        "logical_or": _logic(lambda a, b: a | b),
        "logical_xor": _logic(lambda a, b: a ^ b),
        "logical_not": _logic(lambda a: ~a),
        "isnan": _test(lambda v: v.is_nan(), False),
        "isinf": _test(lambda v: abs(v).eq(math.inf), False),
        "isposinf": _test(lambda v: v.eq(math.inf), False),
        "isneginf": _test(lambda v: v.eq(-math.inf), False),
        "isfinite": _test(lambda v: abs(v) < math.inf, True),
        "signbit": _signbit,
        "bitwise_and bitwise_and.Scalar_Tensor __and__": _bitwise("and"),
        "bitwise_or bitwise_or.Scalar_Tensor __or__": _bitwise("or"),
        "bitwise_xor bitwise_xor.Scalar_Tensor __xor__": _bitwise("xor"),
        "bitwise_not": _bitwise_not,
        "bitwise_left_shift bitwise_left_shift.Tensor_Scalar "
        "bitwise_left_shift.Scalar_Tensor __lshift__": _shift("shl"),
        "bitwise_right_shift bitwise_right_shift.Tensor_Scalar "
        "bitwise_right_shift.Scalar_Tensor __rshift__": _shift("shr"),
        "where where.ScalarOther where.ScalarSelf": _where,
        "masked_fill": _masked_fill,
        "clamp clip clamp_min clamp_min.Tensor": _clamp,
        "clamp_max clamp_max.Tensor": _clamp_max,
        "nan_to_num": _nan_to_num,
        "_to_copy": _to_copy,
        "to.dtype": _to_dtype,
        "clone contiguous detach alias lift_fresh lift_fresh_copy positive conj "
        "_conj resolve_conj resolve_neg detach_copy alias_copy real conj_physical "
        "_conj_physical": same,
        "copy": _copy,
    }
)
