"""Functions of floats: polynomials of our own for float32, and Sleef's for the others.

Sleef is a part of torch's library. Every function is within 2 ulp of the correctly rounded result,
and right at NaN, infinities, zeros of both signs and subnormals. No instruction has flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import torch

from jitpkg.codegen.cpu import tables
from jitpkg.codegen.cpu.arithmetic import Arithmetic, constants, vector

Function = Callable[..., str]

_INF = float("inf")


def _has_tables(f: Arithmetic) -> bool:
    return f.vector_bits == 32 * tables.LANES and f.lanes > 1


def exp(f: Arithmetic, x: str) -> str:
    return _exp(f, x, 0)


def _exp(f: Arithmetic, x: str, power: int) -> str:
    """`2**power * exp(x)`: `2**n * exp(r)`, `x = n log 2 + r`; the factors of Cephes' expf."""
    if _has_tables(f):
        return _by_parts(f, partial(tables.exp, power=power), x)
    x = f.select(f.compare("ogt", x, f.const(90.0)), f.const(90.0), x)
    x = f.select(f.compare("olt", x, f.const(-104.0)), f.const(-104.0), x)
    shifted = f.fma(x, f.const(1.44269504088896341), f.const(12582912.0))  # rounds to an integer
    n = f.sub(shifted, f.const(12582912.0))
    r = f.fma(n, f.const(-0.693145751953125), x)
    r = f.fma(n, f.const(-1.42860682030941723212e-6), r)
    p = f.polynomial(
        r,
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    )
    p = f.add(f.fma(f.mul(p, r), r, r), f.const(1.0))
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
    if _has_tables(f):
        return _by_parts(f, tables.tanh, x)
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
    half = _exp(f, f.abs(x), -1)
    large = f.copysign(f.sub(half, f.div(f.const(0.25), half)), x)
    square = f.mul(x, x)
    p = f.polynomial(square, 1 / 39916800, 1 / 362880, 1 / 5040, 1 / 120, 1 / 6)
    small = f.fma(f.mul(p, square), x, x)
    return f.select(f.compare("olt", f.abs(x), f.const(1.0)), small, large)


def erf(f: Arithmetic, x: str) -> str:
    """N. Juffa's polynomials: one in x near 0, else `1 - exp(p(|x|))`."""
    if _has_tables(f):
        return _by_parts(f, tables.erf, x)
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
    p = f.polynomial(
        square,
        -5.96761703e-4,
        4.99119423e-3,
        -2.67681349e-2,
        1.12819925e-1,
        -3.76125336e-1,
        1.28379166e-1,
    )
    small = f.fma(p, x, x)
    small = f.select(f.compare("uno", x, x), x, small)
    return f.select(f.compare("ogt", t, f.const(0.927734375)), large, small)


def log(f: Arithmetic, x: str) -> str:
    """`n log 2 + log(m)`, `m` about 1; the factors of Cephes' logf."""
    i = f.of(torch.int32)
    tiny = f.compare("olt", x, f.const(1.17549435e-38))
    bits = f.to("bitcast", f.select(tiny, f.mul(x, f.const(8388608.0)), x), torch.int32)
    # The exponent, such that the rest lies between sqrt(1/2) and sqrt(2).
    above = i.op("sub", bits, i.const(0x3F3504F3))
    exponent = i.op("ashr", above, i.const(23))
    rest = i.op("sub", bits, i.op("shl", exponent, i.const(23)))
    n = i.to("sitofp", exponent, torch.float32)
    n = f.sub(n, f.select(tiny, f.const(23.0), f.const(0.0)))
    r = f.sub(i.to("bitcast", rest, torch.float32), f.const(1.0))
    p = f.polynomial(
        r,
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
    square = f.mul(r, r)
    low = f.fma(n, f.const(-2.12194440e-4), f.mul(f.mul(p, square), r))
    low = f.fma(square, f.const(-0.5), low)
    found = f.fma(n, f.const(0.693359375), f.add(r, low))
    found = f.select(f.compare("oeq", x, f.const(_INF)), x, found)
    found = f.select(f.compare("oeq", x, f.const(0.0)), f.const(-_INF), found)
    return f.select(f.compare("ult", x, f.const(0.0)), f.const(float("nan")), found)


OWN: Mapping[str, Function] = MappingProxyType(
    {"exp": exp, "tanh": tanh, "erf": erf, "log": log, "cosh": cosh, "sinh": sinh}
)
"""For float32."""

SLEEF: Mapping[str, str] = MappingProxyType(
    {
        name: f"{name}#_u10"
        for name in (
            *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan"),
            *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
            *("erf", "pow", "atan2"),
        )
    }
    | {"erfc": "erfc#_u15", "hypot": "hypot#_u05", "fmod": "fmod#"}
)
"""The names of functions in Sleef; `#` stands for the type and the number of lanes."""

IN_FLOAT64 = frozenset({"asinh", "acosh", "fmod"})
"""Functions that Sleef's float32 gets wrong where a step on the way overflows, or is too small."""


def is_own(name: str, dtype: torch.dtype) -> bool:
    """Whether a function is printed where it is used, and not called."""
    return dtype is torch.float32 and name in OWN


def call(f: Arithmetic, name: str, *args: str) -> str:
    """A function of the table above, by parts as wide as a register."""
    if is_own(name, f.dtype):
        return OWN[name](f, *args)
    if f.dtype is torch.float32 and name in IN_FLOAT64:
        wide = f.of(torch.float64)
        found = call(wide, name, *(f.to("fpext", arg, wide.dtype) for arg in args))
        return wide.to("fptrunc", found, f.dtype)
    lanes = f.vector_bits // f.bits
    letter = "f" if f.dtype is torch.float32 else "d"
    symbol = f"Sleef_{SLEEF[name].replace('#', f'{letter}{lanes}')}"

    def part(f: Arithmetic, *given: str) -> str:
        f.w.declare(f"declare {f.type} @{symbol}({', '.join([f.type] * len(given))}) #1")
        return f.w.op(f"call {f.type} @{symbol}({', '.join(f'{f.type} {a}' for a in given)})")

    return _by_parts(f, part, *args)


def _by_parts(f: Arithmetic, emit: Function, *args: str) -> str:
    """What `emit` prints for vectors as wide as a register, for any number of lanes."""
    lanes = f.vector_bits // f.bits
    one = Arithmetic(f.w, f.dtype, lanes, f.vector_bits)
    if f.lanes <= lanes:
        found = emit(one, *(_widened(f, arg, lanes) for arg in args))
        return _narrowed(f, found, lanes)
    parts = []
    for first in range(0, f.lanes, lanes):
        mask = constants("i32", range(first, first + lanes))
        cut = [
            f.w.op(f"shufflevector {f.type} {arg}, {f.type} poison, <{lanes} x i32> {mask}")
            for arg in args
        ]
        parts.append(emit(one, *cut))
    while len(parts) > 1:
        part = vector(f.element, lanes)
        both = f"<{2 * lanes} x i32> {constants('i32', range(2 * lanes))}"
        joined = zip(parts[::2], parts[1::2], strict=True)
        parts = [f.w.op(f"shufflevector {part} {a}, {part} {b}, {both}") for a, b in joined]
        lanes *= 2
    return parts[0]


def _widened(f: Arithmetic, value: str, lanes: int) -> str:
    wide = vector(f.element, lanes)
    if f.lanes == lanes:
        return value
    if f.lanes == 1:
        one = f.w.op(f"insertelement {wide} poison, {f.element} {value}, i32 0")
        return f.w.op(f"shufflevector {wide} {one}, {wide} poison, <{lanes} x i32> zeroinitializer")
    mask = constants("i32", [lane % f.lanes for lane in range(lanes)])
    return f.w.op(f"shufflevector {f.type} {value}, {f.type} poison, <{lanes} x i32> {mask}")


def _narrowed(f: Arithmetic, value: str, lanes: int) -> str:
    wide = vector(f.element, lanes)
    if f.lanes == lanes:
        return value
    if f.lanes == 1:
        return f.w.op(f"extractelement {wide} {value}, i32 0")
    mask = constants("i32", range(f.lanes))
    return f.w.op(f"shufflevector {wide} {value}, {wide} poison, <{f.lanes} x i32> {mask}")
