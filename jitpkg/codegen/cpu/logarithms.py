"""Logarithms of float32: `n log 2 + log(m)`, with m about 1; the factors of Cephes' logf."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from jitpkg.codegen.cpu import tables
from jitpkg.codegen.cpu.arithmetic import Arithmetic
from jitpkg.codegen.cpu.parts import by_parts
from jitpkg.codegen.cpu.tables import Base

_INF = float("inf")

_LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
"""(log(1 + r) - r + r**2 / 2) / r**3"""


_E = Base((0.693145751953125, 1.42860677e-06), (1.0, 0.0), math.log)
_TWO = Base((1.0, 0.0), (1.44269502162933349609375, 1.92596299112661746887e-8), math.log2)
_TEN = Base((0.301025390625, 4.605038981195214e-6), (0.434294492, -1.01038098e-8), math.log10)


class Split(NamedTuple):
    """A positive number."""

    exponent: str
    """An int32, such that the rest lies between sqrt(1/2) and sqrt(2)."""
    n: str
    """The same as a float, less by what the number was multiplied with."""
    rest: str


def split(f: Arithmetic, x: str) -> Split:
    i = f.of(torch.int32)
    tiny = f.compare("olt", x, f.const(1.17549435e-38))
    bits = f.to("bitcast", f.select(tiny, f.mul(x, f.const(8388608.0)), x), torch.int32)
    above = i.op("sub", bits, i.const(0x3F3504F3))
    exponent = i.op("ashr", above, i.const(23))
    rest = i.op("sub", bits, i.op("shl", exponent, i.const(23)))
    n = i.to("sitofp", exponent, torch.float32)
    n = f.sub(n, f.select(tiny, f.const(23.0), f.const(0.0)))
    return Split(exponent, n, i.to("bitcast", rest, torch.float32))


def _cubic(f: Arithmetic, r: str) -> tuple[str, str]:
    """`r**2`, and what of `log(1 + r)` is behind `r - r**2 / 2`."""
    square = f.mul(r, r)
    return square, f.mul(f.mul(f.polynomial(r, *_LOG), square), r)


def _at_ends(f: Arithmetic, x: str, found: str) -> str:
    """The logarithm where it is of infinity, of zero, of less, or of no number."""
    found = f.select(f.compare("oeq", x, f.const(_INF)), x, found)
    found = f.select(f.compare("oeq", x, f.const(0.0)), f.const(-_INF), found)
    return f.select(f.compare("ult", x, f.const(0.0)), f.const(float("nan")), found)


def _natural(f: Arithmetic, n: str, r: str) -> str:
    square, cubic = _cubic(f, r)
    low = f.fma(square, f.const(-0.5), f.fma(n, f.const(-2.12194440e-4), cubic))
    return f.fma(n, f.const(0.693359375), f.add(r, low))


def log(f: Arithmetic, x: str) -> str:
    if tables.there_are(f):
        return by_parts(f, partial(tables.log, base=_E), x)
    parts = split(f, x)
    return _at_ends(f, x, _natural(f, parts.n, f.sub(parts.rest, f.const(1.0))))


def log1p(f: Arithmetic, x: str) -> str:
    """That of `1 + x`, and what is lost where that is rounded."""
    if tables.there_are(f):
        return by_parts(f, partial(tables.log1p, base=_E), x)
    i = f.of(torch.int32)
    one = f.const(1.0)
    whole = f.add(x, one)
    parts = split(f, whole)
    lost = f.sub(x, f.sub(whole, one))
    # From 2**25 on nothing is that counts.
    less = i.select(i.compare("sgt", parts.exponent, i.const(25)), i.const(25), parts.exponent)
    scale = i.op("shl", i.op("sub", i.const(127), less), i.const(23))
    r = f.fma(i.to("bitcast", scale, torch.float32), lost, f.sub(parts.rest, one))
    found = _at_ends(f, whole, _natural(f, parts.n, r))
    return f.select(f.compare("oeq", x, f.const(0.0)), x, found)


def log2(f: Arithmetic, x: str) -> str:
    return _by_base(f, x, _TWO)


def log10(f: Arithmetic, x: str) -> str:
    return _by_base(f, x, _TEN)


def _by_base(f: Arithmetic, x: str, base: Base) -> str:
    if tables.there_are(f):
        return by_parts(f, partial(tables.log, base=base), x)
    two, e = base.two, base.e
    parts = split(f, x)
    r = f.sub(parts.rest, f.const(1.0))
    square, cubic = _cubic(f, r)
    low = f.fma(square, f.const(-0.5), cubic)
    low = f.fma(low, f.const(e[0]), f.mul(r, f.const(e[1])))
    if two[1]:
        low = f.fma(parts.n, f.const(two[1]), low)
    found = f.fma(r, f.const(e[0]), low)
    return _at_ends(f, x, f.fma(parts.n, f.const(two[0]), found))


LOGARITHMS: dict[str, Callable[..., str]] = {
    "log": log,
    "log1p": log1p,
    "log2": log2,
    "log10": log10,
}
