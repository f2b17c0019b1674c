"""Functions of float32 that divide, or take a root of squares."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from jitpkg.codegen.cpu.arithmetic import Arithmetic
from jitpkg.codegen.cpu.logarithms import log
from jitpkg.codegen.cpu.sleef import sleef

INVERSE_TANH = (0.176378503, 0.0516043603, 0.118163861, 0.142237857, 0.20002453, 0.333333015)
"""(atanh(x) - x) / x**3 by x**2, up to 1 / 2."""


def atanh(f: Arithmetic, x: str) -> str:
    """`log((1 + x) / (1 - x)) / 2`, from 1/2 on; what is lost in the quotient is put back."""
    size, one = f.abs(x), f.const(1.0)
    square = f.mul(size, size)
    small = f.fma(f.mul(f.polynomial(square, *INVERSE_TANH), square), size, size)
    above, below = f.add(one, size), f.sub(one, size)
    quotient = f.div(above, below)
    lost = f.add(f.fma(quotient, f.neg(below), above), f.sub(size, f.sub(above, one)))
    inverse = f.fma(above, f.const(-1 / 3), f.const(7 / 6))  # of 3/2 to 2, nearly
    lost = f.select(f.compare("olt", size, one), f.mul(lost, inverse), f.const(0.0))
    large = f.mul(f.add(log(f, quotient), lost), f.const(0.5))
    near = f.compare("olt", size, f.const(0.5))
    return f.copysign(f.select(near, small, large), x)


def hypot(f: Arithmetic, x: str, y: str) -> str:
    """The root of the sum of squares, of numbers over a power of two that is as large."""
    wide, high = f.abs(x), f.abs(y)
    more = f.select(f.compare("ogt", wide, high), wide, high)
    less = f.select(f.compare("ogt", wide, high), high, wide)
    large = f.compare("ogt", more, f.const(2.0**60))
    tiny = f.compare("olt", more, f.const(2.0**-60))

    def chosen(if_large: float, if_tiny: float) -> str:
        return f.select(large, f.const(if_large), f.select(tiny, f.const(if_tiny), f.const(1.0)))

    scale, back = chosen(2.0**-70, 2.0**90), chosen(2.0**70, 2.0**-90)
    a, b = f.mul(more, scale), f.mul(less, scale)
    found = f.mul(f.intrinsic("sqrt", f.fma(a, a, f.mul(b, b))), back)
    infinite = f.mask(
        "or", f.compare("oeq", wide, f.const(inf)), f.compare("oeq", high, f.const(inf))
    )
    return f.select(infinite, f.const(inf), found)


_FAR = 2.0**22
"""A quotient of two floats that is below it is at most 1 too large when truncated."""


def fmod(f: Arithmetic, x: str, y: str) -> str:
    """What is left of x, exactly: `x - n y` is a float, also where n is 1 too large."""
    size, step = f.abs(x), f.abs(y)
    quotient = f.div(size, step)
    rest = f.fma(f.intrinsic("trunc", quotient), f.neg(step), size)
    rest = f.select(f.compare("olt", rest, f.const(0.0)), f.add(rest, step), rest)
    rest = f.select(f.compare("olt", size, step), size, rest)
    found = f.copysign(rest, x)
    far = f.compare("oge", quotient, f.const(_FAR))

    def otherwise() -> str:
        # Of infinity, and by zero, it is found's NaN: see `low_half`.
        there_is_one = f.mask(
            "and", f.compare("olt", size, f.const(inf)), f.compare("ogt", step, f.const(0.0))
        )
        return f.select(f.mask("and", far, there_is_one), sleef(f, "fmod", x, y), found)

    return f.rarely(far, found, otherwise)


QUOTIENTS: dict[str, Callable[..., str]] = {"atanh": atanh, "hypot": hypot, "fmod": fmod}
