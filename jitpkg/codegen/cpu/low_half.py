"""What is known of the low half of a float32's bits, which a bfloat16 lacks.

Rounding to bfloat16 adds 0x7fff and a bit. Where the low half of a NaN is full that could carry as
far as the sign, so such NaNs are looked for first. None has to be where all that a value comes from
are bfloat16s and numbers: the instructions of arithmetic return the NaN of an operand, made quiet,
or one whose low half is empty, on x86 and on ARM; and our own functions are made of these.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from enum import IntEnum

import torch

from jitpkg.codegen.cpu.math import OWN
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.nodes import Apply, Const, Node, Reduce, Scan


class LowHalf(IntEnum):
    ANY = 0
    EMPTY_IN_NANS = 1
    EMPTY = 2
    """The value is one that bfloat16 holds."""


HELD = frozenset({torch.bfloat16, torch.bool, torch.uint8, torch.int8})
"""Dtypes whose values bfloat16 holds."""

EXACT = frozenset(
    {
        *("neg", "abs", "copysign", "maximum", "minimum", "max", "min"),
        *("floor", "ceil", "trunc", "round"),  # to 8 bits at most: what is larger is whole
    }
)
"""Ops and folds whose result bfloat16 holds where it holds the operands."""

ARITHMETIC = frozenset({"add", "sub", "mul", "div", "sqrt", "sum", "prod", *OWN})


def low_half(node: Node, known: Mapping[Node, LowHalf]) -> LowHalf:
    """Of a value whose operands are `known`, those of float32 that are computed."""

    def least(*args: Node) -> LowHalf:
        return min(low_half_of(arg, known) for arg in args)

    if node.dtype is not torch.float32:
        return LowHalf.ANY
    match node:
        case Apply(op=ops.CAST, args=(given,)):
            if given.dtype in HELD:
                return LowHalf.EMPTY
            return LowHalf.EMPTY_IN_NANS if given.dtype in ops.INTEGERS else LowHalf.ANY
        case Apply(op="where", args=(_, yes, no)):
            return least(yes, no)
        case Apply(op="mul", args=args) if any(map(_doubles, args)):
            return least(*args)
        case Apply(op=op, args=args) if op in EXACT:
            return least(*args)
        case Apply(op=op, args=args) if op in ARITHMETIC:
            return min(least(*args), LowHalf.EMPTY_IN_NANS)
        case Reduce(op=op, value=value) | Scan(op=op, value=value) if op in EXACT:
            return least(value)
        case Reduce(op=op, value=value) | Scan(op=op, value=value) if op in ARITHMETIC:
            return min(least(value), LowHalf.EMPTY_IN_NANS)
        case _:
            return LowHalf.ANY


def low_half_of(node: Node, known: Mapping[Node, LowHalf]) -> LowHalf:
    """Of any value, numbers and those of other dtypes too."""
    if node.dtype in HELD:
        return LowHalf.EMPTY
    if isinstance(node, Const):
        return LowHalf.EMPTY if _is_held(float(node.value)) else LowHalf.EMPTY_IN_NANS
    return known.get(node, LowHalf.ANY)


def _is_held(value: float) -> bool:
    try:
        return value != value or struct.pack("<f", value)[:2] == b"\0\0"
    except OverflowError:
        return False


def _doubles(node: Node) -> bool:
    """A power of two that is 1 at least: a product with it may overflow, but is not rounded."""
    if not isinstance(node, Const):
        return False
    value = float(node.value)
    return 1 <= value < math.inf and math.frexp(value)[0] == 0.5
