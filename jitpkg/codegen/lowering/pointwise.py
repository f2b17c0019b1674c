"""Ops that go element by element: arithmetic and functions of reals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import INDEX
from jitpkg.codegen.ir.extents import varies
from jitpkg.codegen.ir.nodes import Const
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.promotion import as_float, computed_in, promoted
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

Operand = Tensor | Scalar


def real(body: Callable[[Expr], Expr]) -> Row:
    """A function of reals; integers are taken as the default dtype."""

    def row(k: Lowering, x: Tensor) -> Tensor:
        return k.pointwise(body, [x], as_float(x.dtype))

    return row


def real_of_two(body: Callable[[Expr, Expr], Expr]) -> Row:
    def row(k: Lowering, a: Operand, b: Operand) -> Tensor:
        return k.pointwise(body, [a, b], as_float(promoted([a, b])))

    return row


def kept(body: Callable[[Expr], Expr]) -> Row:
    """Of any number, in its dtype."""

    def row(k: Lowering, x: Tensor) -> Tensor:
        require(x.dtype is not torch.bool, "arithmetic on truths")
        return k.pointwise(body, [x])

    return row


def rounding(op: str) -> Row:
    """To an integer, which integers are."""

    def row(k: Lowering, x: Tensor) -> Tensor:
        require(x.dtype is not torch.bool, "arithmetic on truths")
        return k.pointwise(lambda v: v.apply(op), [x]) if x.dtype.is_floating_point else x

    return row


# Sums and products


def plus(a: Expr, b: Expr) -> Expr:
    return a | b if a.dtype is torch.bool else a + b


def times(a: Expr, b: Expr) -> Expr:
    return a & b if a.dtype is torch.bool else a * b


def _add(k: Lowering, a: Operand, b: Operand, alpha: Scalar = 1) -> Tensor:
    by = _alpha(k, promoted([a, b]), alpha)
    return k.pointwise(lambda x, y: plus(x, _scaled(k, y, by)), [a, b], rounded=True)


def _sub(k: Lowering, a: Operand, b: Operand, alpha: Scalar = 1) -> Tensor:
    require(promoted([a, b]) is not torch.bool, "a difference of truths")
    by = _alpha(k, promoted([a, b]), alpha)
    return k.pointwise(lambda x, y: x - _scaled(k, y, by), [a, b], rounded=True)


def _rsub(k: Lowering, a: Operand, b: Operand, alpha: Scalar = 1) -> Tensor:
    return _sub(k, b, a, alpha)


def _alpha(k: Lowering, common: torch.dtype, alpha: Scalar) -> Scalar:
    """ATen's sums round their numbers to the dtype, where its products do not."""
    require(type(alpha) is not bool or common is torch.bool, "a truth that multiplies numbers")
    if not common.is_floating_point:
        return alpha
    if varies(alpha):
        require(common not in ops.NARROW, "a size that is rounded to a narrow dtype")
        return alpha
    rounded = k.number(alpha, common).node
    assert isinstance(rounded, Const)
    return rounded.value


def _scaled(k: Lowering, value: Expr, alpha: Scalar) -> Expr:
    if value.dtype in ops.INTEGERS | ops.BOOL:
        require(not isinstance(alpha, float), "a float beside integers")
    return value if alpha == 1 else times(value, k.number(alpha, value.dtype))


def _mul(k: Lowering, a: Operand, b: Operand) -> Tensor:
    return k.pointwise(times, [a, b], whole=(0, 1))


def _addcmul(k: Lowering, x: Tensor, a: Tensor, b: Tensor, *, value: Scalar = 1) -> Tensor:
    def element(s: Expr, p: Expr, q: Expr) -> Expr:
        return s + _scaled(k, p, value) * q

    require(promoted([x, a, b]) is not torch.bool, "arithmetic on truths")
    return k.pointwise(element, [x, a, b])


def _addcdiv(k: Lowering, x: Tensor, a: Tensor, b: Tensor, *, value: Scalar = 1) -> Tensor:
    require(promoted([x, a, b]).is_floating_point, "a quotient of integers")
    return k.pointwise(lambda s, p, q: s + _scaled(k, p, value) / q, [x, a, b])


_ROUNDED = "ATen rounds a narrow dtype in the middle, where a difference is taken"


def _addr(
    k: Lowering, x: Tensor, a: Tensor, b: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """Plus an outer product. What is multiplied by 0 is not looked at."""
    require(x.dtype not in ops.NARROW, _ROUNDED)
    require(a.rank == 1 and b.rank == 1 and promoted([a, b]) is not torch.bool, "no vectors")
    column = k.define([a.sizes[0], 1], a.dtype, lambda i, j: a.get(i))
    added = k.pointwise(lambda p, q: _scaled(k, p * q, alpha), [column, b])
    require(added.dtype is x.dtype and k.common_sizes([x, added]) == added.sizes, "other operands")
    if beta == 0:
        return added
    return k.pointwise(lambda s, p: _scaled(k, s, beta) + p, [x, added])


def _cross(k: Lowering, a: Tensor, b: Tensor, *, dim: int = -1) -> Tensor:
    """ATen rounds the products of a narrow dtype."""
    sizes = k.common_sizes([a, b])
    dim = dim_of(dim, len(sizes))
    require(len(sizes) == a.rank == b.rank and a.sizes[dim] == b.sizes[dim] == 3, "no vectors")
    common = promoted([a, b])
    require(common is not torch.bool, "arithmetic on truths")

    def element(*at: Expr) -> Expr:
        def part(x: Tensor, ahead: int) -> Expr:
            place = (at[dim] + ahead) % 3
            index = [place if d == dim else i for d, i in enumerate(at)]
            return k.operand(x, index, common)

        first, second = part(a, 1) * part(b, 2), part(a, 2) * part(b, 1)
        return first.cast(common).cast(first.dtype) - second.cast(common).cast(first.dtype)

    return k.define(sizes, common, element)


def _lerp(k: Lowering, a: Tensor, b: Tensor, weight: Operand) -> Tensor:
    def element(start: Expr, end: Expr, w: Expr) -> Expr:
        near = start + w * (end - start)
        return (abs(w) < 0.5).where(near, end - (end - start) * (1 - w))

    return k.pointwise(element, [a, b, weight], a.dtype)


# Quotients


def _div(k: Lowering, a: Operand, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
    match rounding_mode:
        case None:
            common = as_float(promoted([a, b]))
            return k.pointwise(lambda x, y: x / y, [a, b], common, whole=(1,))
        case "trunc":
            return _rounded_quotient(k, a, b, "truncdiv", truncated)
        case "floor":
            return _rounded_quotient(k, a, b, "floordiv", floored)
        case _:
            raise NotLowered(f"rounding {rounding_mode}")


def _rounded_quotient(
    k: Lowering,
    a: Operand,
    b: Operand,
    op: str,
    of_reals: Callable[[Expr, Expr, torch.dtype], Expr],
) -> Tensor:
    def of_integers(x: Expr, y: Expr) -> Expr:
        return _divided(x, y, b, op, -x)

    common = promoted([a, b])
    if common.is_floating_point:
        narrow = common if isinstance(b, Tensor) else computed_in(common)
        return k.pointwise(lambda x, y: of_reals(x, y, narrow), [a, b])
    require(common is not torch.bool, "a quotient of truths")
    return k.pointwise(of_integers, [a, b])


def _divided(x: Expr, y: Expr, b: Operand, op: str, by_minus_one: Expr) -> Expr:
    """Integers: ATen raises where the divisor is 0, and so does the kernel where it is data."""
    if not isinstance(b, Tensor):
        require(b != 0, "a divisor of 0")
        return by_minus_one if b == -1 else x.apply(op, y)
    zero = y.eq(0).cast(INDEX).checked(1).cast(y.dtype)
    if y.dtype is torch.uint8:
        return x.apply(op, y.maximum(1) + zero)
    whole = (y.eq(0) | y.eq(-1)).where(1, y)
    return y.eq(-1).where(by_minus_one, x.apply(op, whole + zero))


def truncated(a: Expr, b: Expr, narrow: torch.dtype) -> Expr:
    """ATen rounds a narrow quotient before it cuts it off."""
    return (a / b).cast(narrow).cast(a.dtype).apply("trunc")


def floored(a: Expr, b: Expr, narrow: torch.dtype) -> Expr:
    """As in `div_floor_floating` of c10, which rounds in between where the divisor is a tensor."""

    def rounded(value: Expr) -> Expr:
        return value.cast(narrow).cast(value.dtype)

    rest = a.apply("fmod", b)
    exact = rounded(rounded(a - rest) / b)
    exact = (rest.ne(0) & ((b < 0) ^ (rest < 0))).where(rounded(exact - 1), exact)
    down = exact.apply("floor")
    near = (rounded(exact - down) > 0.5).where(down + 1, down)
    signed_zero = a.of(0).apply("copysign", a / b)
    return b.eq(0).where(a / b, exact.ne(0).where(near, signed_zero))


def _floor_divide(k: Lowering, a: Operand, b: Operand) -> Tensor:
    return _div(k, a, b, rounding_mode="floor")


def _remainder(k: Lowering, a: Operand, b: Operand) -> Tensor:
    def of_reals(x: Expr, y: Expr) -> Expr:
        rest = x.apply("fmod", y)
        return (rest.ne(0) & ((y < 0) ^ (rest < 0))).where(rest + y, rest)

    return _rest(k, a, b, "mod", of_reals)


def _fmod(k: Lowering, a: Operand, b: Operand) -> Tensor:
    return _rest(k, a, b, "fmod", lambda x, y: x.apply("fmod", y))


def _rest(
    k: Lowering, a: Operand, b: Operand, op: str, of_reals: Callable[[Expr, Expr], Expr]
) -> Tensor:
    def of_integers(x: Expr, y: Expr) -> Expr:
        return _divided(x, y, b, op, x.of(0))

    common = promoted([a, b])
    if common.is_floating_point:
        return k.pointwise(of_reals, [a, b], rounded=True)
    require(common is not torch.bool, "a quotient of truths")
    return k.pointwise(of_integers, [a, b])


# Powers


def _pow(k: Lowering, base: Operand, exponent: Operand) -> Tensor:
    common = promoted([base, exponent])
    require(common is not torch.bool, "a power of truths")
    if not isinstance(exponent, Tensor):
        return k.pointwise(lambda x: power(x, exponent, common), [base], common)
    if not isinstance(base, Tensor):
        require(common.is_floating_point, "a power of integers by data")
        if base == 1:
            return k.pointwise(lambda e: e.of(1), [exponent], common)
        if base == 2:
            return k.pointwise(lambda e: e.apply("exp2"), [exponent], common)
    require(common.is_floating_point, "a power of integers by data")
    return k.pointwise(lambda x, e: x.apply("pow", e), [base, exponent])


def power(x: Expr, exponent: Scalar, dtype: torch.dtype) -> Expr:
    """By a number; the cases that ATen tells apart. It rounds the square of a bfloat16."""
    if x.dtype in ops.INTEGERS:
        return _by_squaring(x, exponent)
    square = x * x
    if dtype is torch.bfloat16:
        square = square.cast(dtype).cast(x.dtype)
    match exponent:
        case 0:
            return x.of(1)
        case 1:
            return x
        case 2:
            return x * x
        case 3:
            return square * x
        case 0.5:
            return x.sqrt()
        case -0.5:
            return 1 / x.sqrt()
        case -1:
            return 1 / x
        case -2:
            return 1 / square
        case _:
            return x.apply("pow", x.of(exponent).cast(dtype).cast(x.dtype))


def _by_squaring(x: Expr, exponent: Scalar) -> Expr:
    require(isinstance(exponent, int) and 0 <= exponent < 1 << 16, "an integer's negative power")
    result, rest = x.of(1), int(exponent)
    while rest:
        if rest & 1:
            result = result * x
        x, rest = x * x, rest >> 1
    return result


# Functions of reals


def sigmoid(x: Expr) -> Expr:
    return 1 / (1 + (-x).exp())


def log_add_exp(a: Expr, b: Expr) -> Expr:
    most = a.maximum(b)
    summed = most + (-abs(a - b)).exp().apply("log1p")
    same_infinity = a.eq(b) & abs(a).eq(math.inf)
    return same_infinity.where(a, summed)


def _log_add_exp2(a: Expr, b: Expr) -> Expr:
    most = a.maximum(b)
    summed = most + (-abs(a - b)).apply("exp2").apply("log1p") * (1 / math.log(2))
    return (a.eq(b) & abs(a).eq(math.inf)).where(a, summed)


def x_log(a: Expr, b: Expr, log: Expr) -> Expr:
    """`a * log(b)`, which is 0 for 0 and NaN for NaN."""
    return b.is_nan().where(b, a.eq(0).where(0, a * log))


def _xlogy(a: Expr, b: Expr) -> Expr:
    return x_log(a, b, b.log())


def _xlog1py(a: Expr, b: Expr) -> Expr:
    return x_log(a, b, b.apply("log1p"))


def _entr(x: Expr) -> Expr:
    negative = x.eq(0).where(0, x.of(-math.inf))
    return x.is_nan().where(x, (x > 0).where(-x * x.log(), negative))


def _sinc(x: Expr) -> Expr:
    angle = x * math.pi
    return x.eq(0).where(1, angle.apply("sin") / angle)


def _logit(k: Lowering, x: Tensor, eps: float | None = None) -> Tensor:
    require(x.dtype not in ops.NARROW, _ROUNDED)

    def element(v: Expr) -> Expr:
        if eps is not None:
            low, high = v.of(eps), v.of(1 - eps)
            v = (v < low).where(low, (v > high).where(high, v))
        return (v / (1 - v)).log()

    return k.pointwise(element, [x], as_float(x.dtype))


def _sign(k: Lowering, x: Tensor) -> Tensor:
    if x.dtype is torch.bool:
        return x
    return k.pointwise(sign, [x])


def sign(v: Expr) -> Expr:
    """0 for NaN."""
    return (v > 0).cast(v.dtype) - (v < 0).cast(v.dtype)


def _round(k: Lowering, x: Tensor, *, decimals: int = 0) -> Tensor:
    require(x.dtype.is_floating_point, "decimals of integers: they are refused")
    require(x.dtype not in ops.NARROW or decimals == 0, "decimals of a narrow dtype")
    scale = float(10 ** abs(decimals))

    def element(v: Expr) -> Expr:
        if decimals >= 0:
            return (v * scale).apply("round") / scale
        return (v / scale).apply("round") * scale

    return k.pointwise(element, [x])


def _angle(k: Lowering, x: Tensor) -> Tensor:
    def element(v: Expr) -> Expr:
        return v.is_nan().where(v, (v < 0).where(math.pi, v.of(0)))

    return k.pointwise(element, [x], as_float(x.dtype))


def _copysign(k: Lowering, a: Operand, b: Operand) -> Tensor:
    return k.pointwise(lambda x, y: x.apply("copysign", y), [a, b], as_float(promoted([a, b])))


def _heaviside(x: Expr, value: Expr) -> Expr:
    return x.eq(0).where(value, (x > 0).cast(x.dtype))


def _of(op: str) -> Row:
    return real(lambda v: v.apply(op))


_REALS = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc sqrt"
)

ROWS: Mapping[str, Row] = named(
    {
        **{name: _of(name) for name in _REALS.split()},
        "special_erf": _of("erf"),
        "rsqrt": real(lambda x: 1 / x.sqrt()),
        "reciprocal": real(lambda x: 1 / x),
        "sigmoid special_expit": real(sigmoid),
        "sinc special_sinc": real(_sinc),
        "special_entr": real(_entr),
        "deg2rad": real(lambda x: x * (math.pi / 180)),
        "rad2deg": real(lambda x: x * (180 / math.pi)),
        "logit special_logit": _logit,
        "angle": _angle,
        "neg": kept(lambda x: -x),
        "abs": kept(abs),
        "square": lambda k, x: _pow(k, x, 2),
        "frac": kept(lambda x: x - x.apply("trunc")),
        "sign sgn": _sign,
        "floor": rounding("floor"),
        "ceil": rounding("ceil"),
        "trunc fix": rounding("trunc"),
        "round": rounding("round"),
        "round.decimals": _round,
        "add": _add,
        "sub subtract": _sub,
        "rsub": _rsub,
        "mul multiply": _mul,
        "addcmul": _addcmul,
        "addcdiv": _addcdiv,
        "addr": _addr,
        "linalg_cross": _cross,
        "lerp": _lerp,
        "div true_divide div.Tensor_mode div.Scalar_mode": _div,
        "floor_divide": _floor_divide,
        "remainder remainder.Scalar_Tensor": _remainder,
        "fmod": _fmod,
        "pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar": _pow,
        "atan2 arctan2": real_of_two(lambda a, b: a.apply("atan2", b)),
        "hypot": real_of_two(lambda a, b: a.apply("hypot", b)),
        "copysign": _copysign,
        "logaddexp": real_of_two(log_add_exp),
        "logaddexp2": real_of_two(_log_add_exp2),
        "xlogy xlogy.Scalar_Self xlogy.Scalar_Other": real_of_two(_xlogy),
        "special_xlog1py special_xlog1py.self_scalar special_xlog1py.other_scalar": real_of_two(
            _xlog1py
        ),
        "heaviside": lambda k, a, b: k.pointwise(_heaviside, [a, b]),
    }
)
