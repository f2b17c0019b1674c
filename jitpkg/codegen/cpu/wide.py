"""Functions of float32 that are computed in float64: few steps, and nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, nan

import torch

from jitpkg.codegen.cpu.arithmetic import Arithmetic
from jitpkg.codegen.cpu.logarithms import split

LOG2 = (
    -0.086344889681037484,
    0.1548569615916783,
    -0.15698252130385343,
    0.1590016450090026,
    -0.17904693144229752,
    0.20609624284207903,
    -0.24050417482277897,
    0.28854064405992313,
    -0.36067280053704986,
    0.48089832072276306,
    -0.72134752521325296,
    1.4426950409393604,
)
"""log2(1 + r) / r, where 1 + r is from sqrt(1/2) to sqrt(2)."""

EXP2 = (
    0.00015345807352029248,
    0.0013399931179317274,
    0.0096184889737813573,
    0.055503287770765367,
    0.24022646890480517,
    0.69314720573719879,
    1.0000000005541869,
)
"""2**r, up to 1/2 on both sides."""

_ROUNDS = 1.5 * 2.0**52
"""A sum with it is rounded to an integer, which the lowest bits are."""

_TINY = 2.0**-10
"""Below it the inverse of a hyperbolic sine is `x - x**3 / 6`."""


def _wide(f: Arithmetic, x: str) -> str:
    return f.to("fpext", x, torch.float64)


def _log2(d: Arithmetic, n: str, m: str) -> str:
    """`n + log2(m)`."""
    r = d.sub(m, d.const(1.0))
    return d.fma(d.polynomial(r, *LOG2), r, n)


def _exp2(d: Arithmetic, x: str) -> str:
    """Of what is from -1,000 to 1,000, or a NaN."""
    shifted = d.add(x, d.const(_ROUNDS))
    p = d.polynomial(d.sub(x, d.sub(shifted, d.const(_ROUNDS))), *EXP2)
    i = d.of(torch.int64)
    power = i.op("shl", d.to("bitcast", shifted, torch.int64), i.const(52))
    return i.to("bitcast", i.op("add", d.to("bitcast", p, torch.int64), power), torch.float64)


def power(f: Arithmetic, x: str, y: str) -> str:
    """`2**(y log2(|x|))`, and the sign of x where y is odd."""
    d = f.of(torch.float64)
    size = f.abs(x)
    parts = split(f, size)
    found = _log2(d, _wide(f, parts.n), _wide(f, parts.rest))
    found = d.select(f.compare("oeq", size, f.const(0.0)), d.const(-inf), found)
    # Infinite, or no number.
    found = d.select(f.compare("ueq", size, f.const(inf)), _wide(f, size), found)
    # So that infinity times 0 is 0: what is next to 1 has a logarithm of 2**-25 and more.
    times = _wide(f, f.between(y, -(2.0**40), 2.0**40))
    found = _exp2(d, d.between(d.mul(times, found), -200.0, 200.0))
    found = d.to("fptrunc", found, torch.float32)
    whole, half = f.intrinsic("trunc", y), f.mul(y, f.const(0.5))
    is_whole = f.compare("oeq", whole, y)
    is_odd = f.mask("and", is_whole, f.compare("une", f.intrinsic("trunc", half), half))
    found = f.select(is_odd, f.copysign(found, x), found)
    finite = f.compare("olt", size, f.const(inf))
    negative = f.mask("and", finite, f.compare("olt", x, f.const(0.0)))
    there_is_none = f.mask("and", negative, f.compare("une", whole, y))
    found = f.select(there_is_none, f.const(nan), found)
    is_one = f.mask("or", f.compare("oeq", x, f.const(1.0)), f.compare("oeq", y, f.const(0.0)))
    return f.select(is_one, f.const(1.0), found)


def _log(f: Arithmetic, t: str) -> str:
    """Of a float64 from 1 to twice the largest float32."""
    d = f.of(torch.float64)
    # A quarter, for twice the largest float is none.
    parts = split(f, d.to("fptrunc", d.mul(t, d.const(0.25)), torch.float32))
    i = f.of(torch.int64)
    exponent = f.of(torch.int32).to("sext", parts.exponent, torch.int64)
    scale = i.op("shl", i.op("sub", i.const(1023 - 2), exponent), i.const(52))
    m = d.mul(t, i.to("bitcast", scale, torch.float64))
    n = d.add(_wide(f, parts.n), d.const(2.0))
    return d.mul(_log2(d, n, m), d.const(log(2.0)))


def asinh(f: Arithmetic, x: str) -> str:
    """`log(x + sqrt(x**2 + 1))`."""
    d = f.of(torch.float64)
    size = f.abs(x)
    wide = _wide(f, size)
    root = d.intrinsic("sqrt", d.fma(wide, wide, d.const(1.0)))
    found = d.to("fptrunc", _log(f, d.add(wide, root)), torch.float32)
    small = f.fma(f.mul(f.mul(size, size), size), f.const(-1 / 6), size)
    found = f.select(f.compare("olt", size, f.const(_TINY)), small, found)
    found = f.select(f.compare("ueq", size, f.const(inf)), size, found)
    return f.copysign(found, x)


def acosh(f: Arithmetic, x: str) -> str:
    """`log(x + sqrt(x**2 - 1))`."""
    d = f.of(torch.float64)
    wide = _wide(f, x)
    root = d.intrinsic("sqrt", d.fma(wide, wide, d.const(-1.0)))
    found = d.to("fptrunc", _log(f, d.add(wide, root)), torch.float32)
    found = f.select(f.compare("ueq", x, f.const(inf)), x, found)
    return f.select(f.compare("olt", x, f.const(1.0)), f.const(nan), found)


WIDE: dict[str, Callable[..., str]] = {"pow": power, "asinh": asinh, "acosh": acosh}
