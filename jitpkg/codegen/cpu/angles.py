"""Trigonometric functions of float32, and their inverses.

The polynomials are nearly the best of their degree for the interval that is said, by relative error
(`python -m tests.codegen.cpu.fitted` finds them). Arguments are reduced in three steps, as W. J.
Cody and W. Waite do, with parts of pi of 20, 22 and 24 bits: the first step is exact. What is too
large for that goes to Sleef.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi

import torch

from jitpkg.codegen.cpu.arithmetic import Arithmetic
from jitpkg.codegen.cpu.sleef import sleef

_PARTS = tuple(map(float.fromhex, ("0x1.921fb0p+0", "0x1.5110b4p-22", "0x1.846988p-48")))
"""Their sum is pi / 2."""

_LOW = -4.37113883e-8
"""What `pi / 2` is less than the nearest float."""

FAR = 65536.0
"""From here on the three steps may not do."""

_ROUNDS = 12582912.0
"""1.5 * 2**23: a sum with it is rounded to an integer, which the lowest bits are."""

SINE = (-0.000195179091, 0.00833218731, -0.166666552)
"""(sin(r) - r) / r**3 by r**2, up to pi / 4."""

COSINE = (2.44323364e-05, -0.00138873095, 0.0416666456, -0.5)
"""(cos(r) - 1) / r**2 by r**2, up to pi / 4."""

TANGENT = (0.00940270629, 0.00309197837, 0.0244465694, 0.0534070358, 0.133388445, 0.333331555)
"""(tan(r) - r) / r**3 by r**2, up to pi / 4."""

ARC_TANGENT = (
    0.00291972281,
    -0.016364133,
    0.0432058573,
    -0.0755172372,
    0.106657855,
    -0.142110035,
    0.199937671,
    -0.333331525,
)
"""(atan(z) - z) / z**3 by z**2, up to 1."""

ARC_SINE = (0.0421583056, 0.0241847783, 0.0454691499, 0.0749530941, 0.166667521)
"""(asin(z) - z) / z**3 by z**2, up to 1 / 2."""


def _reduced_twice(f: Arithmetic, x: str, n: str) -> tuple[str, str]:
    """`x - n * pi / 2` as the sum of two floats."""
    high, middle, low = map(f.const, _PARTS)
    first = f.fma(n, f.neg(high), x)
    product = f.mul(n, middle)
    r = f.sub(first, product)
    lost = f.sub(f.sub(first, r), product)
    lost = f.sub(lost, f.fma(n, middle, f.neg(product)))
    return r, f.fma(n, f.neg(low), lost)


def _unless_far(f: Arithmetic, name: str, x: str, found: str) -> str:
    """Sleef's result in the lanes where `x` is far from 0: each result depends on its own lane.

    Of infinity it is found's NaN, since Sleef's is not one of those that `low_half` relies on.
    """
    size = f.abs(x)
    far = f.compare("ogt", size, f.const(FAR))

    def otherwise() -> str:
        finite = f.compare("olt", size, f.const(inf))
        return f.select(f.mask("and", far, finite), sleef(f, name, x), found)

    return f.rarely(far, found, otherwise)


def _signed(f: Arithmetic, value: str, *bits: str) -> str:
    """With another sign for each of these whose highest bit is set."""
    i = f.of(torch.int32)
    found = f.to("bitcast", value, torch.int32)
    for each in bits:
        found = i.op("xor", found, each)
    return i.to("bitcast", found, torch.float32)


def _sign(f: Arithmetic, x: str) -> str:
    i = f.of(torch.int32)
    return i.op("and", f.to("bitcast", x, torch.int32), i.const(-(2**31)))


def sin(f: Arithmetic, x: str) -> str:
    return _unless_far(f, "sin", x, _near_sin(f, x))


def cos(f: Arithmetic, x: str) -> str:
    return _unless_far(f, "cos", x, _near_cos(f, x))


def _near_sin(f: Arithmetic, x: str) -> str:
    return _signed(f, _wave(f, x, 0), _sign(f, x))


def _near_cos(f: Arithmetic, x: str) -> str:
    return _wave(f, x, 1)


def _wave(f: Arithmetic, x: str, ahead: int) -> str:
    """The sine of `|x| + ahead * pi / 2`: by the nearest multiple of pi / 2, a sine or a cosine."""
    size = f.abs(x)
    shifted = f.fma(size, f.const(2 / pi), f.const(_ROUNDS))
    n = f.sub(shifted, f.const(_ROUNDS))
    r = size
    for part in _PARTS:
        r = f.fma(n, f.const(-part), r)
    square = f.mul(r, r)
    sine = f.fma(f.mul(f.polynomial(square, *SINE), square), r, r)
    cosine = f.fma(f.polynomial(square, *COSINE), square, f.const(1.0))
    i = f.of(torch.int32)
    quarters = f.to("bitcast", shifted, torch.int32)
    if ahead:
        quarters = i.op("add", quarters, i.const(ahead))
    is_odd = i.compare("ne", i.op("and", quarters, i.const(1)), i.const(0))
    sign = i.op("shl", i.op("and", quarters, i.const(2)), i.const(30))
    return _signed(f, f.select(is_odd, cosine, sine), sign)


def tan(f: Arithmetic, x: str) -> str:
    return _unless_far(f, "tan", x, _near_tan(f, x))


def _near_tan(f: Arithmetic, x: str) -> str:
    """By the nearest multiple of pi / 2; next to an odd one it is `-1 / tan`."""
    size = f.abs(x)
    shifted = f.fma(size, f.const(2 / pi), f.const(_ROUNDS))
    r, lost = _reduced_twice(f, size, f.sub(shifted, f.const(_ROUNDS)))
    square = f.mul(r, r)
    p = f.mul(f.mul(f.polynomial(square, *TANGENT), square), r)
    rough = f.add(r, p)
    slope = f.fma(rough, rough, f.const(1.0))
    rest = f.fma(lost, slope, p)
    found = f.add(r, rest)
    left = f.add(f.sub(r, found), rest)  # what was lost in that sum
    inverse = f.div(f.const(-1.0), found)
    inverse = f.fma(f.mul(inverse, inverse), left, inverse)
    i = f.of(torch.int32)
    lowest = i.op("and", f.to("bitcast", shifted, torch.int32), i.const(1))
    found = f.select(i.compare("ne", lowest, i.const(0)), inverse, found)
    return _signed(f, found, _sign(f, x))


def _arc_tangent(f: Arithmetic, z: str) -> str:
    """What it is more than z."""
    square = f.mul(z, z)
    return f.mul(f.mul(f.polynomial(square, *ARC_TANGENT), square), z)


def atan(f: Arithmetic, x: str) -> str:
    """From 1 on it is `pi / 2 - atan(1 / x)`."""
    size = f.abs(x)
    large = f.compare("ogt", size, f.const(1.0))
    z = f.select(large, f.div(f.const(-1.0), size), size)
    start = f.select(large, f.const(pi / 2), f.const(0.0))
    low = f.add(_arc_tangent(f, z), f.select(large, f.const(_LOW), f.const(0.0)))
    return f.copysign(f.add(start, f.add(z, low)), x)


def atan2(f: Arithmetic, y: str, x: str) -> str:
    """That of the smaller by the larger of the two, in the octant where they are."""
    high, wide = f.abs(y), f.abs(x)
    steep = f.compare("ogt", high, wide)
    less, more = f.select(steep, wide, high), f.select(steep, high, wide)
    nothing = f.compare("oeq", more, f.const(0.0))
    same = f.select(nothing, f.const(0.0), f.const(1.0))  # zeros, or infinities
    z = f.select(f.compare("oeq", less, more), same, f.div(less, more))
    i = f.of(torch.int32)
    left = i.compare("slt", f.to("bitcast", x, torch.int32), i.const(0))
    away = f.mask("xor", steep, left)  # from the axis where the angle is counted from
    z = f.select(away, f.neg(z), z)
    quarters = [f.select(left, f.const(unit * 2), f.const(0.0)) for unit in (pi / 2, _LOW)]
    start, low = (
        f.select(steep, f.const(unit), quarter)
        for unit, quarter in zip((pi / 2, _LOW), quarters, strict=True)
    )
    return f.copysign(f.add(start, f.add(z, f.add(_arc_tangent(f, z), low))), y)


def _arc_sine(f: Arithmetic, x: str) -> tuple[str, str, str]:
    """Whether `|x|` is at most 1 / 2, and z and the rest: `asin(z) = z + rest`, where z is `|x|`,
    or `sqrt((1 - |x|) / 2)`, of which the arc sine is half of x's arc cosine."""
    size = f.abs(x)
    small = f.compare("ole", size, f.const(0.5))
    half = f.fma(size, f.const(-0.5), f.const(0.5))
    square = f.select(small, f.mul(size, size), half)
    z = f.select(small, size, f.intrinsic("sqrt", half))
    return small, z, f.mul(f.mul(f.polynomial(square, *ARC_SINE), square), z)


def asin(f: Arithmetic, x: str) -> str:
    small, z, rest = _arc_sine(f, x)
    near = f.add(z, rest)
    twice = f.add(z, z)
    far = f.sub(f.const(pi / 2), twice)
    lost = f.sub(f.sub(f.const(pi / 2), far), twice)
    far = f.add(far, f.fma(rest, f.const(-2.0), f.add(lost, f.const(_LOW))))
    return f.copysign(f.select(small, near, far), x)


def acos(f: Arithmetic, x: str) -> str:
    small, z, rest = _arc_sine(f, x)
    negative = f.compare("olt", x, f.const(0.0))
    middle = f.sub(f.sub(f.const(pi / 2), f.copysign(z, x)), f.copysign(rest, x))
    right = f.fma(rest, f.const(2.0), f.add(z, z))
    left = f.fma(rest, f.const(-2.0), f.fma(z, f.const(-2.0), f.const(pi)))
    return f.select(small, middle, f.select(negative, left, right))


ANGLES: dict[str, Callable[..., str]] = {
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "atan2": atan2,
}

NEAR: dict[str, Callable[..., str]] = {"sin": _near_sin, "cos": _near_cos, "tan": _near_tan}
"""Where the argument is below `FAR`, or NaN."""
