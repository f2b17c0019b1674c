"""Exponential and hyperbolic functions of float32, and the error function, as polynomials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from jitpkg.codegen.cpu import tables
from jitpkg.codegen.cpu.arithmetic import Arithmetic
from jitpkg.codegen.cpu.parts import by_parts

_ROUNDS = 12582912.0
"""1.5 * 2**23: a sum with it is rounded to an integer, which the lowest bits are."""

EXP2 = (0.00015327803, 0.00133909972, 0.00961850304, 0.0555035956, 0.240226477, 0.693147182)
"""(2**r - 1) / r, up to 1 / 2 on both sides: see `angles`."""

ERFC = (
    -0.00129611127,
    0.000939818565,
    0.00868116412,
    -0.0079433443,
    -0.0542162806,
    0.164041996,
    -0.166030407,
    -0.0927635878,
    0.276978374,
)
"""erfc(x) exp(x**2) (1 + 2 x) - 1 by (x - 2) / (x + 2), from 0.47 to 10.06: M. M. Shepherd and
J. G. Laframboise's way."""

EXPM1 = (0.00138706958, 0.00836627185, 0.0416674353, 0.166665465, 0.49999997)
"""(exp(r) - 1 - r) / r**2, up to log(2) / 2 on both sides."""


def exp(f: Arithmetic, x: str) -> str:
    return _exp(f, x, 0)


def _exp(f: Arithmetic, x: str, power: int) -> str:
    """`2**power * exp(x)`."""
    if tables.there_are(f):
        return by_parts(f, partial(tables.exp, power=power), x)
    return _by_factors(f, x, power)


def _by_factors(f: Arithmetic, x: str, power: int) -> str:
    """`2**n * exp(r)`, `x = n log 2 + r`."""
    shifted, rest = _reduced_expm1(f, x)
    return _scaled(f, f.add(rest, f.const(1.0)), shifted, power)


def _reduced_expm1(f: Arithmetic, x: str) -> tuple[str, str]:
    """What n is the end of, and `exp(r) - 1`; the factors of Cephes' expf."""
    shifted, _, r = tables.reduced(f, f.between(x, -104.0, 90.0), _ROUNDS)
    p = f.polynomial(
        r,
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    )
    return shifted, f.fma(f.mul(p, r), r, r)


def _scaled(f: Arithmetic, p: str, shifted: str, power: int) -> str:
    """`2**(n + power) * p`, in two steps: the first may be too far. n is what `shifted` ends in."""
    i = f.of(torch.int32)
    whole = i.op("sub", f.to("bitcast", shifted, torch.int32), i.const(0x4B400000 - power))
    half = i.op("ashr", whole, i.const(1))
    rest = i.op("sub", whole, half)
    return f.mul(f.mul(p, _power_of_two(f, half)), _power_of_two(f, rest))


def _power_of_two(f: Arithmetic, n: str) -> str:
    i = f.of(torch.int32)
    bits = i.op("shl", i.op("add", n, i.const(127)), i.const(23))
    return i.to("bitcast", bits, torch.float32)


def tanh(f: Arithmetic, x: str) -> str:
    """An odd polynomial near 0, else `1 - 2 / (exp(2|x|) + 1)`."""
    if tables.there_are(f):
        return by_parts(f, tables.tanh, x)
    size = f.abs(x)
    power = exp(f, f.add(size, size))
    large = f.sub(f.const(1.0), f.div(f.const(2.0), f.add(power, f.const(1.0))))
    square = f.mul(x, x)
    p = f.polynomial(
        square,
        -5.70498872745e-3,
        2.06390887954e-2,
        -5.37397155531e-2,
        1.33314422036e-1,
        -3.33332819422e-1,
    )
    small = f.fma(f.mul(p, square), size, size)
    return f.copysign(f.select(f.compare("olt", size, f.const(0.625)), small, large), x)


def cosh(f: Arithmetic, x: str) -> str:
    half = _exp(f, f.abs(x), -1)
    return f.add(half, f.div(f.const(0.25), half))


def sinh(f: Arithmetic, x: str) -> str:
    """Its power series near 0."""
    half = _by_factors(f, f.abs(x), -1)  # more exact than by tables: what is subtracted adds to it
    large = f.copysign(f.sub(half, f.div(f.const(0.25), half)), x)
    square = f.mul(x, x)
    p = f.polynomial(square, 1 / 39916800, 1 / 362880, 1 / 5040, 1 / 120, 1 / 6)
    small = f.fma(f.mul(p, square), x, x)
    return f.select(f.compare("olt", f.abs(x), f.const(1.0)), small, large)


def erf(f: Arithmetic, x: str) -> str:
    """N. Juffa's polynomials: one in x near 0, else `1 - exp(p(|x|))`."""
    if tables.there_are(f):
        return by_parts(f, tables.erf, x)
    t, square = f.abs(x), f.mul(x, x)
    even = f.fma(f.const(-1.72853470e-5), t, f.const(3.83197126e-4))
    odd = f.fma(f.const(-3.88396438e-3), t, f.const(2.42546219e-2))
    r = f.fma(even, square, odd)
    for factor in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = f.fma(r, t, f.const(factor))
    r = f.fma(r, t, f.neg(t))
    large = f.sub(f.const(1.0), exp(f, r))
    large = f.select(f.compare("ogt", t, f.const(4.0)), f.const(1.0), large)
    large = f.copysign(large, x)
    small = _erf_near_zero(f, x)
    small = f.select(f.compare("uno", x, x), x, small)
    return f.select(f.compare("ogt", t, f.const(0.927734375)), large, small)


def _erf_near_zero(f: Arithmetic, x: str) -> str:
    p = f.polynomial(
        f.mul(x, x),
        -5.96761703e-4,
        4.99119423e-3,
        -2.67681349e-2,
        1.12819925e-1,
        -3.76125336e-1,
        1.28379166e-1,
    )
    return f.fma(p, x, x)


def erfc(f: Arithmetic, x: str) -> str:
    """`exp(-x**2) (1 + p) / (1 + 2 x)`, by N. Juffa's steps: each quotient is corrected by what is
    left, and the power by what the square has lost. Near 0 it is `1 - erf(x)`."""
    size, one, two = f.at_most(f.abs(x), 10.1), f.const(1.0), f.const(2.0)  # from 10.06 on it is 0
    inverse = f.div(one, f.add(size, two))
    at = f.fma(f.const(-4.0), inverse, one)  # (x - 2) / (x + 2)
    left = f.fma(at, f.neg(size), f.fma(f.add(at, one), f.const(-2.0), size))
    p = f.polynomial(f.fma(inverse, left, at), *ERFC)
    inverse = f.div(one, f.fma(two, size, one))
    ratio = f.fma(p, inverse, inverse)
    left = f.add(f.sub(p, ratio), f.fma(f.add(ratio, ratio), f.neg(size), one))
    ratio = f.fma(left, inverse, ratio)
    square = f.mul(size, size)
    lost = f.fma(f.neg(size), size, square)
    shifted, rest = _reduced_expm1(f, f.neg(square))
    power = f.add(one, rest)
    lost = f.fma(lost, power, f.sub(rest, f.sub(power, one)))
    found = _scaled(f, f.fma(ratio, power, f.mul(ratio, lost)), shifted, 0)
    found = f.select(f.compare("olt", x, f.const(0.0)), f.sub(two, found), found)
    near = f.compare("olt", size, f.const(0.47))
    return f.select(near, f.sub(one, _erf_near_zero(f, x)), found)


def exp2(f: Arithmetic, x: str) -> str:
    if tables.there_are(f):
        return by_parts(f, tables.exp2, x)
    x = f.between(x, -151.0, 129.0)
    shifted = f.add(x, f.const(_ROUNDS))
    r = f.sub(x, f.sub(shifted, f.const(_ROUNDS)))
    p = f.fma(f.polynomial(r, *EXP2), r, f.const(1.0))
    return _scaled(f, p, shifted, 0)


def expm1(f: Arithmetic, x: str) -> str:
    """`2 (2**(n-1) (exp(r) - 1) + 2**(n-1) - 1/2)`, `x = n log 2 + r`."""
    shifted, _, r = tables.reduced(f, f.between(x, -30.0, 89.0), _ROUNDS)
    p = f.fma(f.mul(f.polynomial(r, *EXPM1), r), r, r)
    i = f.of(torch.int32)
    less = i.op("sub", f.to("bitcast", shifted, torch.int32), i.const(0x4B400001))
    half = _power_of_two(f, less)
    found = f.fma(half, p, f.sub(half, f.const(0.5)))
    tiny = f.compare("olt", f.abs(x), f.const(2.0**-25))
    return f.select(tiny, x, f.add(found, found))


EXPONENTIALS: dict[str, Callable[..., str]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "erf": erf,
    "erfc": erfc,
}
