"""The scalar ops of the IR, one row each: which dtypes they take, what they return, what they mean.

The meaning is a torch function of whole tensors: the reference interpreter runs it, and printers
are tested against that. There is no arithmetic on bfloat16 and float16: they are cast to float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.dataclass import dataclass

FLOATS = frozenset({torch.float32, torch.float64})
INTEGERS = frozenset({torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8})
BOOL = frozenset({torch.bool})
NARROW = frozenset({torch.bfloat16, torch.float16})
NUMBERS = FLOATS | INTEGERS
EVERY = NUMBERS | BOOL | NARROW

Signature = Callable[[tuple[torch.dtype, ...]], torch.dtype | None]
"""The dtype of the result; None where the op does not take such operands."""


def _same(allowed: frozenset[torch.dtype], arity: int) -> Signature:
    def signature(given: tuple[torch.dtype, ...]) -> torch.dtype | None:
        if len(given) == arity and given[0] in allowed and len(set(given)) == 1:
            return given[0]
        return None

    return signature


def _test(allowed: frozenset[torch.dtype], arity: int) -> Signature:
    same = _same(allowed, arity)
    return lambda given: None if same(given) is None else torch.bool


def _where(given: tuple[torch.dtype, ...]) -> torch.dtype | None:
    ok = len(given) == 3 and given[0] is torch.bool and given[1] is given[2]
    return given[1] if ok else None


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """A row."""

    signature: Signature
    reference: Callable[..., Any]
    cost: int = 1
    """In units of an addition, about; for choosing between computing twice and storing."""


def _unary(reference: Callable[..., Any], cost: int = 20) -> ScalarOp:
    return ScalarOp(_same(FLOATS, 1), reference, cost)


def _truncated(a: Any, b: Any) -> Any:
    return torch.div(a, b, rounding_mode="trunc")


def _floored(a: Any, b: Any) -> Any:
    return torch.div(a, b, rounding_mode="floor")


_LOGIC = BOOL | INTEGERS

OPS: Mapping[str, ScalarOp] = MappingProxyType(
    {
        "add": ScalarOp(_same(NUMBERS, 2), torch.add),
        "sub": ScalarOp(_same(NUMBERS, 2), torch.sub),
        "mul": ScalarOp(_same(NUMBERS, 2), torch.mul),
        "div": ScalarOp(_same(FLOATS, 2), torch.div, 4),
        # Of integers; the divisor is not 0 and the quotient fits.
        "truncdiv": ScalarOp(_same(INTEGERS, 2), _truncated, 20),
        "floordiv": ScalarOp(_same(INTEGERS, 2), _floored, 24),
        "mod": ScalarOp(_same(INTEGERS, 2), torch.remainder, 24),  # the sign of the divisor
        "fmod": ScalarOp(_same(NUMBERS, 2), torch.fmod, 24),  # the sign of the dividend
        "neg": ScalarOp(_same(NUMBERS, 1), torch.neg),
        "abs": ScalarOp(_same(NUMBERS, 1), torch.abs),
        # A NaN on either side is the result.
        "maximum": ScalarOp(_same(NUMBERS | BOOL, 2), torch.maximum, 2),
        "minimum": ScalarOp(_same(NUMBERS | BOOL, 2), torch.minimum, 2),
        "eq": ScalarOp(_test(NUMBERS | BOOL, 2), torch.eq),
        "ne": ScalarOp(_test(NUMBERS | BOOL, 2), torch.ne),
        "lt": ScalarOp(_test(NUMBERS | BOOL, 2), torch.lt),
        "le": ScalarOp(_test(NUMBERS | BOOL, 2), torch.le),
        "gt": ScalarOp(_test(NUMBERS | BOOL, 2), torch.gt),
        "ge": ScalarOp(_test(NUMBERS | BOOL, 2), torch.ge),
        "and": ScalarOp(_same(_LOGIC, 2), torch.bitwise_and),
        "or": ScalarOp(_same(_LOGIC, 2), torch.bitwise_or),
        "xor": ScalarOp(_same(_LOGIC, 2), torch.bitwise_xor),
        "not": ScalarOp(_same(_LOGIC, 1), torch.bitwise_not),
        # The distance is at least 0 and below the width.
        "shl": ScalarOp(_same(INTEGERS, 2), torch.bitwise_left_shift),
        "shr": ScalarOp(_same(INTEGERS, 2), torch.bitwise_right_shift),
        "where": ScalarOp(_where, torch.where),
        "sqrt": _unary(torch.sqrt, 6),
        "floor": _unary(torch.floor, 1),
        "ceil": _unary(torch.ceil, 1),
        "trunc": _unary(torch.trunc, 1),
        "round": _unary(torch.round, 1),  # halves to even
        "copysign": ScalarOp(_same(FLOATS, 2), torch.copysign),
        "signbit": ScalarOp(_test(FLOATS, 1), torch.signbit),
        "exp": _unary(torch.exp, 12),
        "exp2": _unary(torch.exp2, 12),
        "expm1": _unary(torch.expm1),
        "log": _unary(torch.log),
        "log2": _unary(torch.log2),
        "log10": _unary(torch.log10),
        "log1p": _unary(torch.log1p),
        "sin": _unary(torch.sin),
        "cos": _unary(torch.cos),
        "tan": _unary(torch.tan),
        "asin": _unary(torch.asin),
        "acos": _unary(torch.acos),
        "atan": _unary(torch.atan),
        "sinh": _unary(torch.sinh),
        "cosh": _unary(torch.cosh),
        "tanh": _unary(torch.tanh),
        "asinh": _unary(torch.asinh),
        "acosh": _unary(torch.acosh),
        "atanh": _unary(torch.atanh),
        "erf": _unary(torch.erf),
        "erfc": _unary(torch.erfc),
        "pow": ScalarOp(_same(FLOATS, 2), torch.pow, 40),
        "atan2": ScalarOp(_same(FLOATS, 2), torch.atan2, 30),
        "hypot": ScalarOp(_same(FLOATS, 2), torch.hypot, 30),
    }
)
"""All but `cast`, which takes and returns every dtype: floats become integers by truncation, all
become bool by a test against zero, and integers become narrower ones by wrapping around."""

CAST = "cast"


@dataclass(frozen=True, slots=True)
class Reduction:
    """What a fold starts with and how it goes on."""

    combine: str | None
    """The scalar op that combines two; None for those that return a position."""
    allowed: frozenset[torch.dtype]
    identity: Callable[[torch.dtype], bool | int | float] | None
    """Of nothing; None where there must be something."""


def _lowest(dtype: torch.dtype) -> bool | int | float:
    if dtype is torch.bool:
        return False
    return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def _highest(dtype: torch.dtype) -> bool | int | float:
    if dtype is torch.bool:
        return True
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


REDUCTIONS: Mapping[str, Reduction] = MappingProxyType(
    {
        "sum": Reduction("add", NUMBERS, lambda dtype: 0),
        "prod": Reduction("mul", NUMBERS, lambda dtype: 1),
        "max": Reduction("maximum", NUMBERS | BOOL, _lowest),
        "min": Reduction("minimum", NUMBERS | BOOL, _highest),
        "any": Reduction("or", BOOL, lambda dtype: False),
        "all": Reduction("and", BOOL, lambda dtype: True),
        # The position of the first largest (smallest) along one axis, as int64; a NaN is the most.
        "argmax": Reduction(None, NUMBERS | BOOL, None),
        "argmin": Reduction(None, NUMBERS | BOOL, None),
    }
)
"""By name. A sum may be taken in any order; in float32 it is exact to what a tree of sums is."""

SCANS = frozenset({"sum", "prod", "max", "min"})
"""Reductions that may run along an axis."""


def cost(op: str) -> int:
    return 2 if op == CAST else OPS[op].cost
