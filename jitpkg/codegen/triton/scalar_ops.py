"""The ops of `ir.ops` as Triton's expressions: one row each, for floats, integers and bools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from jitpkg.codegen.ir.builder import exact
from jitpkg.codegen.ir.nodes import Const
from jitpkg.codegen.ir.ops import FLOATS, NARROW

Emit = Callable[..., str]
"""From operands, each a name or in parentheses, to an expression."""

TYPES: Mapping[torch.dtype, str] = MappingProxyType(
    {
        torch.float32: "tl.float32",
        torch.float64: "tl.float64",
        torch.float16: "tl.float16",
        torch.bfloat16: "tl.bfloat16",
        torch.bool: "tl.int1",
        torch.uint8: "tl.uint8",
        torch.int8: "tl.int8",
        torch.int16: "tl.int16",
        torch.int32: "tl.int32",
        torch.int64: "tl.int64",
    }
)

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"} | {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
_TESTS = ("eq", "ne", "lt", "le", "gt", "ge")
_LOGIC = ("and", "or", "xor")


def literal(value: bool | int | float, dtype: torch.dtype) -> str:
    """A number as Python writes it: for operands whose other side is a tensor of the dtype."""
    if dtype is torch.bool:
        return repr(bool(value))
    if not dtype.is_floating_point:
        return repr(int(value))
    value = float(value)
    text = repr(value)
    return text if value - value == 0 else f'float("{text}")'


def constant(value: bool | int | float, dtype: torch.dtype) -> str:
    """A number that has its dtype by itself."""
    if dtype is torch.bfloat16:
        return f"jl.bfloat16({constant(value, torch.float32)})"
    return f"tl.full([], {literal(value, dtype)}, {TYPES[dtype]})"


def _infix(name: str) -> Emit:
    return lambda a, b: f"{a} {_SYMBOLS[name]} {b}"


def _call(name: str) -> Emit:
    return lambda *args: f"{name}({', '.join(map(bare, args))})"


def bare(text: str) -> str:
    """Without the parentheses around the whole."""
    if not text.startswith("("):
        return text
    depth = 0
    for k, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0:
            return text[1:-1] if k == len(text) - 1 else text
    return text


_SHARED = {
    **{name: _infix(name) for name in ("add", "sub", "mul", *_TESTS)},
    "where": _call("tl.where"),
}

FLOAT: Mapping[str, Emit] = MappingProxyType(
    {
        **_SHARED,
        "neg": lambda a: f"{a} * -1.0",  # `-a` is 0 - a, and has no negative zero
        "div": _call("tl.div_rn"),
        "abs": _call("tl.abs"),
        "maximum": _call("jl.maximum"),
        "minimum": _call("jl.minimum"),
        "sqrt": _call("tl.sqrt_rn"),
        "floor": _call("tl.floor"),
        "ceil": _call("tl.ceil"),
        "round": _call("jl.rint"),
        "signbit": _call("jl.signbit"),
        "pow": _call("jl.power"),
        **{
            name: _call(f"jl.{name}")
            for name in (
                *("trunc", "copysign", "fmod", "exp", "exp2", "expm1", "log", "log2", "log10"),
                *("log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
                *("asinh", "acosh", "atanh", "erf", "erfc", "atan2", "hypot"),
            )
        },
    }
)

DOUBLE: Mapping[str, Emit] = MappingProxyType(
    {
        **FLOAT,
        "div": lambda a, b: f"{a} / {b}",
        "sqrt": _call("tl.sqrt"),
        "maximum": _call("jl.maximum64"),
        "minimum": _call("jl.minimum64"),
        "signbit": _call("jl.signbit64"),
    }
)
"""Of float64: the instructions are those of IEEE."""

UNSIGNED: Mapping[str, Emit] = MappingProxyType(
    {
        **_SHARED,
        **{name: _infix(name) for name in _LOGIC},
        "truncdiv": lambda a, b: f"{a} // {b}",
        "floordiv": lambda a, b: f"{a} // {b}",
        "mod": lambda a, b: f"{a} % {b}",
        "fmod": lambda a, b: f"{a} % {b}",
        "abs": lambda a: a,
        "neg": lambda a: f"0 - {a}",
        "maximum": _call("tl.maximum"),
        "minimum": _call("tl.minimum"),
        "not": lambda a: f"{a} ^ 255",
        "shl": lambda a, b: f"{a} << {b}",
        "shr": lambda a, b: f"{a} >> {b}",
    }
)

INTEGER: Mapping[str, Emit] = MappingProxyType(
    {
        **UNSIGNED,
        "not": lambda a: f"{a} ^ -1",
        "floordiv": _call("jl.floordiv"),
        "mod": _call("jl.mod"),
        "abs": _call("tl.abs"),
    }
)

BOOL: Mapping[str, Emit] = MappingProxyType(
    {
        **{name: _infix(name) for name in (*_TESTS, *_LOGIC)},
        "maximum": _infix("or"),
        "minimum": _infix("and"),
        "not": lambda a: f"{a} == 0",
        "where": _call("tl.where"),
    }
)

BITS: Mapping[str, Emit] = MappingProxyType({"where": _call("tl.where")})
"""For bfloat16 and float16, which nothing is computed in."""

_ARITHMETIC = frozenset({"add", "sub", "mul"})
_USUAL = (torch.float32, torch.int32, torch.int64)


def takes_literal(op: str, number: Const, *, alone: bool) -> bool:
    """Whether a number may stand as Python writes it. Beside an arithmetic operator it becomes what
    the other side is; elsewhere a float32, an int32, or an int64 where it is large, which is then
    converted to what the other side is.

    Args:
        alone: there is no other side.
    """
    if op in _ARITHMETIC:
        return True
    if op in _TESTS:
        wide = number.dtype is torch.float64
        return not wide or exact(number.value, torch.float32) == number.value
    return number.dtype in _USUAL and not (alone and number.dtype is torch.int64)


def rows(dtype: torch.dtype) -> Mapping[str, Emit]:
    """By the dtype of the operands."""
    if dtype in FLOATS:
        return FLOAT if dtype is torch.float32 else DOUBLE
    if dtype in NARROW:
        return BITS
    if dtype is torch.bool:
        return BOOL
    return UNSIGNED if dtype is torch.uint8 else INTEGER


def cast(text: str, source: torch.dtype, dtype: torch.dtype) -> str:
    """A value as another dtype; the text is a name or in parentheses."""
    if source is dtype:
        return text
    if source is torch.bfloat16:
        return cast(f"jl.of_bfloat16({bare(text)})", torch.float32, dtype)
    if dtype is torch.bool:
        return f"{text} != 0"
    if dtype is torch.bfloat16:  # by way of float32, as torch's own casts go
        return f"jl.bfloat16({bare(cast(text, source, torch.float32))})"
    if torch.float16 in (source, dtype) and torch.float32 not in (source, dtype):
        return cast(cast(text, source, torch.float32), torch.float32, dtype)
    if source.is_floating_point and not dtype.is_floating_point and dtype.itemsize < 4:
        # Wraps around where the instruction's result is undefined.
        middle = torch.int32 if source is torch.float32 else torch.int64
        text = f"{text}.to({TYPES[middle]})"
    return f"{text}.to({TYPES[dtype]})"
