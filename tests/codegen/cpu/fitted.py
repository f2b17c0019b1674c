"""Finds the factors of the polynomials in `jitpkg.codegen.cpu`.

    python -m tests.codegen.cpu.fitted

Prints each with its largest relative error, in units of 2**-24. The factors are found from the
lowest power on: each is rounded to a float before the next ones are, by C. L. Lawson's weights,
which make the errors at all points alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy

from jitpkg.codegen.cpu import angles, exponentials, quotients, tables, wide

Function = Callable[[mpmath.mpf], mpmath.mpf]

POINTS = 1500


def fitted(
    function: Function,
    weight: Function,
    low: float,
    high: float,
    count: int,
    held: type[numpy.floating[Any]] = numpy.float32,
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
                best, lowest = errors.max(), float(held(found[0]))
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


def of_log2(low: float, high: float, count: int) -> tuple[list[float], float]:
    """`log2(1 + r) / r`, in float64."""

    def rest(r: mpmath.mpf) -> mpmath.mpf:
        return mpmath.log1p(r) / mpmath.log(2) / r

    return fitted(rest, lambda r: 1 / rest(r), low, high, count, numpy.float64)


def of_exp2(high: float, count: int) -> tuple[list[float], float]:
    """In float64."""
    return fitted(lambda r: 2**r, lambda r: 1 / 2**r, -high, high, count, numpy.float64)


def of_erfc(low: float, high: float, count: int) -> tuple[list[float], float]:
    """`erfc(x) exp(x**2) (1 + 2 x) - 1` by `(x - 2) / (x + 2)`."""

    def rest(q: mpmath.mpf) -> mpmath.mpf:
        x = 2 * (1 + q) / (1 - q)
        return mpmath.erfc(x) * mpmath.exp(x**2) * (1 + 2 * x) - 1

    ends = ((x - 2) / (x + 2) for x in (low, high))
    return fitted(rest, lambda q: 1 / (1 + rest(q)), *ends, count)


OVER = 1.001
"""A rounded argument may lie so much outside."""

ROOT, SLACK = math.sqrt(2), 1e-6

FITS = {
    "SINE": (angles.SINE, lambda n: of_odd(mpmath.sin, OVER * math.pi / 4, n)),
    "COSINE": (angles.COSINE, lambda n: of_cosine(OVER * math.pi / 4, n)),
    "TANGENT": (angles.TANGENT, lambda n: of_odd(mpmath.tan, OVER * math.pi / 4, n)),
    "ARC_TANGENT": (angles.ARC_TANGENT, lambda n: of_odd(mpmath.atan, 1.0, n)),
    "ARC_SINE": (angles.ARC_SINE, lambda n: of_odd(mpmath.asin, 0.5, n)),
    "EXP2": (exponentials.EXP2, lambda n: of_power(OVER / 2, n)),
    "EXPM1": (exponentials.EXPM1, lambda n: of_expm1(OVER * math.log(2) / 2, n)),
    "ERFC": (exponentials.ERFC, lambda n: of_erfc(0.47, 10.06, n)),
    "INVERSE_TANH": (quotients.INVERSE_TANH, lambda n: of_odd(mpmath.atanh, 0.5, n)),
    "WIDE_LOG2": (wide.LOG2, lambda n: of_log2(1 / ROOT - 1 - SLACK, ROOT - 1 + SLACK, n)),
    "WIDE_EXP2": (wide.EXP2, lambda n: of_exp2(0.5, n)),
    "POWER": (tables.POWER, lambda n: of_power(1 / 32, n)),
    "LOG": (tables.LOG, lambda n: of_log(-OVER / 32, OVER / 16, n)),
}
"""The factors in use, and what finds as many."""

IN_FLOAT64 = frozenset({"WIDE_LOG2", "WIDE_EXP2"})


def main() -> None:
    for name, (used, fit) in FITS.items():
        found, error = fit(len(used))
        shown = tuple(f"{factor:.{17 if name in IN_FLOAT64 else 9}g}" for factor in found)
        in_use = "in use" if used == tuple(map(float, shown)) else "NOT IN USE"
        print(f"{name:12} {error * 2**24:.3f}, {in_use}: {', '.join(shown)}")


if __name__ == "__main__":
    main()
