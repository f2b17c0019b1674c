"""Functions of Sleef, which is a part of torch's library: called for each register."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from jitpkg.codegen.cpu.arithmetic import Arithmetic
from jitpkg.codegen.cpu.parts import by_parts

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

IN_FLOAT64 = frozenset({"fmod"})
"""What Sleef's float32 gets wrong where a step on the way overflows, or is too small."""


def sleef(f: Arithmetic, name: str, *args: str) -> str:
    """A call of one of them."""
    if f.dtype is torch.float32 and name in IN_FLOAT64:
        wide = f.of(torch.float64)
        found = sleef(wide, name, *(f.to("fpext", arg, wide.dtype) for arg in args))
        return wide.to("fptrunc", found, f.dtype)
    lanes = f.vector_bits // f.bits
    letter = "f" if f.dtype is torch.float32 else "d"
    symbol = f"Sleef_{SLEEF[name].replace('#', f'{letter}{lanes}')}"

    def part(f: Arithmetic, *given: str) -> str:
        f.w.declare(f"declare {f.type} @{symbol}({', '.join([f.type] * len(given))}) #1")
        return f.w.op(f"call {f.type} @{symbol}({', '.join(f'{f.type} {a}' for a in given)})")

    return by_parts(f, part, *args)
