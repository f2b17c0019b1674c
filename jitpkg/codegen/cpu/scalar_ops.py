"""The ops of `ir.ops` as instructions, one row each for floats, integers and bools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from jitpkg.codegen.cpu import math
from jitpkg.codegen.cpu.angles import FAR, NEAR
from jitpkg.codegen.cpu.arithmetic import Arithmetic

Emit = Callable[..., str]
"""From the arithmetic of the operands and the operands to the result."""


def _op(name: str) -> Emit:
    return lambda a, x, y: a.op(name, x, y)


def _intrinsic(name: str) -> Emit:
    return lambda a, *args: a.intrinsic(name, *args)


def _function(name: str) -> Emit:
    return lambda a, *args: math.call(a, name, *args)


def compared(a: Arithmetic, test: str, x: str, y: str) -> str:
    """A test by its name in the IR."""
    if a.dtype in (torch.float32, torch.float64):
        return a.compare("une" if test == "ne" else f"o{test}", x, y)
    if test in ("eq", "ne"):
        return a.compare(test, x, y)
    unsigned = a.dtype in (torch.uint8, torch.bool)
    return a.compare(("u" if unsigned else "s") + test, x, y)


def _test(name: str) -> Emit:
    return lambda a, x, y: compared(a, name, x, y)


def larger(a: Arithmetic, x: str, y: str) -> str:
    """A NaN on either side is the result."""
    return _extreme(a, "ogt", x, y)


def smaller(a: Arithmetic, x: str, y: str) -> str:
    return _extreme(a, "olt", x, y)


def _extreme(a: Arithmetic, test: str, x: str, y: str) -> str:
    # Takes y where either is NaN, which is one instruction on x86; then x where it is NaN.
    found = a.select(a.compare(test, x, y), x, y)
    return a.select(a.compare("uno", x, x), x, found)


def _whole_extreme(test: str) -> Emit:
    return lambda a, x, y: a.select(compared(a, test, x, y), x, y)


def _abs(a: Arithmetic, x: str) -> str:
    if a.dtype is torch.uint8:
        return x
    whole = f"@llvm.abs.v{a.lanes}{a.element}" if a.lanes > 1 else f"@llvm.abs.{a.element}"
    a.w.declare(f"declare {a.type} {whole}({a.type}, i1)")
    return a.w.op(f"call {a.type} {whole}({a.type} {x}, i1 false)")


def _signbit(a: Arithmetic, x: str) -> str:
    bits = a.of(torch.int32 if a.dtype is torch.float32 else torch.int64)
    return bits.compare("slt", a.to("bitcast", x, bits.dtype), bits.const(0))


def _quotient(a: Arithmetic, x: str, y: str) -> str:
    """Truncated; something, and no trap, where the divisor is 0 or the quotient does not fit."""
    if a.dtype is torch.uint8:
        safe = a.select(a.compare("eq", y, a.const(0)), a.const(1), y)
        return _fitting_quotient(a, x, safe)
    minus = a.compare("eq", y, a.const(-1))
    odd = a.mask("or", minus, a.compare("eq", y, a.const(0)))
    found = _fitting_quotient(a, x, a.select(odd, a.const(1), y))
    return a.select(minus, a.op("sub", a.const(0), x), found)


def _fitting_quotient(a: Arithmetic, x: str, y: str) -> str:
    unsigned = a.dtype is torch.uint8
    if a.bits == 64 or a.lanes == 1:
        return a.op("udiv" if unsigned else "sdiv", x, y)
    # There are no such vector instructions. The quotients of floats with more than twice the bits
    # are exact when truncated.
    f = a.of(torch.float64 if a.bits == 32 else torch.float32)
    to = "uitofp" if unsigned else "sitofp"
    found = f.div(a.to(to, x, f.dtype), a.to(to, y, f.dtype))
    whole = f.to("fptosi", found, torch.int32)
    return whole if a.bits == 32 else f.of(torch.int32).to("trunc", whole, a.dtype)


def _rest(a: Arithmetic, x: str, y: str) -> str:
    """With the sign of the dividend."""
    return a.op("sub", x, a.op("mul", _quotient(a, x, y), y))


def _crosses(a: Arithmetic, rest: str, y: str) -> str:
    """Whether a rest is not 0 and has another sign than the divisor."""
    other = a.compare("slt", a.op("xor", rest, y), a.const(0))
    return a.mask("and", other, a.compare("ne", rest, a.const(0)))


def _floordiv(a: Arithmetic, x: str, y: str) -> str:
    quotient = _quotient(a, x, y)
    if a.dtype is torch.uint8:
        return quotient
    rest = a.op("sub", x, a.op("mul", quotient, y))
    return a.select(_crosses(a, rest, y), a.op("sub", quotient, a.const(1)), quotient)


def _mod(a: Arithmetic, x: str, y: str) -> str:
    rest = _rest(a, x, y)
    if a.dtype is torch.uint8:
        return rest
    return a.select(_crosses(a, rest, y), a.op("add", rest, y), rest)


def _where(a: Arithmetic, condition: str, yes: str, no: str) -> str:
    return a.select(condition, yes, no)


_TESTS = {name: _test(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_LOGIC = {name: _op(name) for name in ("and", "or", "xor")}

FLOAT: Mapping[str, Emit] = MappingProxyType(
    {
        "add": Arithmetic.add,
        "sub": Arithmetic.sub,
        "mul": Arithmetic.mul,
        "div": Arithmetic.div,
        "neg": Arithmetic.neg,
        "abs": Arithmetic.abs,
        "maximum": larger,
        "minimum": smaller,
        "where": _where,
        "sqrt": _intrinsic("sqrt"),
        "floor": _intrinsic("floor"),
        "ceil": _intrinsic("ceil"),
        "trunc": _intrinsic("trunc"),
        "round": _intrinsic("rint"),
        "copysign": Arithmetic.copysign,
        "signbit": _signbit,
        **_TESTS,
        **{name: _function(name) for name in math.FUNCTIONS},
    }
)

INTEGER: Mapping[str, Emit] = MappingProxyType(
    {
        "add": _op("add"),
        "sub": _op("sub"),
        "mul": _op("mul"),
        "truncdiv": _quotient,
        "floordiv": _floordiv,
        "mod": _mod,
        "fmod": _rest,
        "neg": lambda a, x: a.op("sub", a.const(0), x),
        "abs": _abs,
        "maximum": _whole_extreme("gt"),
        "minimum": _whole_extreme("lt"),
        "not": lambda a, x: a.op("xor", x, a.const(-1)),
        "shl": _op("shl"),
        "shr": lambda a, x, y: a.op("lshr" if a.dtype is torch.uint8 else "ashr", x, y),
        "where": _where,
        **_TESTS,
        **_LOGIC,
    }
)

BOOL: Mapping[str, Emit] = MappingProxyType(
    {
        "maximum": _op("or"),
        "minimum": _op("and"),
        "not": lambda a, x: a.op("xor", x, a.const(True)),
        "where": _where,
        **_TESTS,
        **_LOGIC,
    }
)

BITS: Mapping[str, Emit] = MappingProxyType({"where": _where})
"""For bfloat16 and float16, which nothing is computed in."""


def row(dtype: torch.dtype, op: str, most: float) -> Emit:
    """What an op is on operands of a dtype.

    Args:
        most: what the absolute value of the first one is not above, unless it is NaN.
    """
    if dtype is torch.float32 and op in NEAR and most < FAR:
        return NEAR[op]
    return rows(dtype)[op]


def rows(dtype: torch.dtype) -> Mapping[str, Emit]:
    if dtype in (torch.float32, torch.float64):
        return FLOAT
    if dtype in (torch.float16, torch.bfloat16):
        return BITS
    return BOOL if dtype is torch.bool else INTEGER
