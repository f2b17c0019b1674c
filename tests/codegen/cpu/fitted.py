"""Finds the factors of the polynomials in `jitpkg.codegen.cpu`.

    python -m tests.codegen.cpu.fitted

Prints each with its largest relative error, in units of 2**-24. The factors are found from the
lowest power on: each is rounded to a float before the next ones are, by C. L. Lawson's weights,
which make the errors at all points alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy

from jitpkg.codegen.cpu import angles, exponentials, tables

Function = Callable[[mpmath.mpf], mpmath.mpf]

POINTS = 1500


def fitted(
    function: Function, weight: Function, low: float, high: float, count: int
) -> tuple[list[float], float]:
    """So many factors, the highest power's first, and the largest weighted error."""
    angle = numpy.pi * (numpy.arange(POINTS) + 0.5) / POINTS
    x = (low + high) / 2 + (high - low) / 2 * numpy.cos(angle)
    with mpmath.workdps(40):
        wanted = numpy.array([float(function(mpmath.mpf(at))) for at in x])
        weights = numpy.array([float(weight(mpmath.mpf(at))) for at in x])
    factors: list[float] = []
    while len(factors) < count:
        powers = numpy.stack([x**k for k in range(len(factors), count)], 1)
        best, lowest, shares = math.inf, 0.0, numpy.ones_like(x)
        for _ in range(60):
            scale = numpy.sqrt(shares) * weights
            found, *_ = numpy.linalg.lstsq(powers * scale[:, None], wanted * scale, rcond=None)
            errors = numpy.abs(weights * (powers @ found - wanted))
            if errors.max() < best:
                best, lowest = errors.max(), float(numpy.float32(found[0]))
            shares = shares * (errors + 1e-300)
            shares /= shares.sum()
        wanted = wanted - lowest * x ** len(factors)
        factors.append(lowest)
    return factors[::-1], float(numpy.abs(weights * wanted).max())


def of_odd(function: Function, high: float, count: int) -> tuple[list[float], float]:
    """`(function(x) - x) / x**3` by `x**2`."""

    def rest(square: mpmath.mpf) -> mpmath.mpf:
        x = mpmath.sqrt(square)
        return (function(x) - x) / x**3

    def weight(square: mpmath.mpf) -> mpmath.mpf:
        x = mpmath.sqrt(square)
        return x**3 / function(x)

    return fitted(rest, weight, 1e-6, high**2, count)


def of_cosine(high: float, count: int) -> tuple[list[float], float]:
    def rest(square: mpmath.mpf) -> mpmath.mpf:
        return (mpmath.cos(mpmath.sqrt(square)) - 1) / square

    def weight(square: mpmath.mpf) -> mpmath.mpf:
        return square / mpmath.cos(mpmath.sqrt(square))

    return fitted(rest, weight, 1e-6, high**2, count)


def of_power(high: float, count: int) -> tuple[list[float], float]:
    """`(2**r - 1) / r`."""
    return fitted(lambda r: (2**r - 1) / r, lambda r: abs(r / 2**r), -high, high, count)


def of_expm1(high: float, count: int) -> tuple[list[float], float]:
    def rest(r: mpmath.mpf) -> mpmath.mpf:
        return (mpmath.expm1(r) - r) / r**2

    return fitted(rest, lambda r: abs(r**2 / mpmath.expm1(r)), -high, high, count)


def of_log(low: float, high: float, count: int) -> tuple[list[float], float]:
    def rest(r: mpmath.mpf) -> mpmath.mpf:
        return (mpmath.log1p(r) - r) / r**2

    return fitted(rest, lambda r: abs(r**2 / mpmath.log1p(r)), low, high, count)


OVER = 1.001
"""A rounded argument may lie so much outside."""

FITS = {
    "SINE": (angles.SINE, lambda n: of_odd(mpmath.sin, OVER * math.pi / 4, n)),
    "COSINE": (angles.COSINE, lambda n: of_cosine(OVER * math.pi / 4, n)),
    "TANGENT": (angles.TANGENT, lambda n: of_odd(mpmath.tan, OVER * math.pi / 4, n)),
    "ARC_TANGENT": (angles.ARC_TANGENT, lambda n: of_odd(mpmath.atan, 1.0, n)),
    "ARC_SINE": (angles.ARC_SINE, lambda n: of_odd(mpmath.asin, 0.5, n)),
    "EXP2": (exponentials.EXP2, lambda n: of_power(OVER / 2, n)),
    "EXPM1": (exponentials.EXPM1, lambda n: of_expm1(OVER * math.log(2) / 2, n)),
    "POWER": (tables.POWER, lambda n: of_power(1 / 32, n)),
    "LOG": (tables.LOG, lambda n: of_log(-OVER / 32, OVER / 16, n)),
}
"""The factors in use, and what finds as many."""


def main() -> None:
    for name, (used, fit) in FITS.items():
        found, error = fit(len(used))
        shown = tuple(f"{factor:.9g}" for factor in found)
        in_use = "in use" if used == tuple(map(float, shown)) else "NOT IN USE"
        print(f"{name:12} {error * 2**24:.3f}, {in_use}: {', '.join(shown)}")


if __name__ == "__main__":
    main()
