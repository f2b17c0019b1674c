"""How far from 0 a float32 is at most, where its own definition says that."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.nodes import Apply, Const, Node

_RESULTS = {
    **dict.fromkeys(("sin", "cos", "tanh", "erf"), 1.0),
    **dict.fromkeys(("asin", "atan"), 1.6),
    **dict.fromkeys(("acos", "atan2"), 3.2),
    "erfc": 2.0,
}
"""Of functions, whatever they are of."""

_INTEGERS = {torch.bool: 1.0, torch.uint8: 255.0, torch.int8: 128.0, torch.int16: 32768.0}

_ROUNDED = 1 + 2.0**-20
"""Sums and products are rounded; functions, to 2 ulp."""


def bound(node: Node, known: Mapping[Node, float]) -> float:
    """The absolute value of a float32 is not above it, or it is NaN; its operands are `known`."""

    def of(arg: Node) -> float:
        if isinstance(arg, Const):
            size = abs(float(arg.value))
            return size if size == size else 0.0
        return known.get(arg, inf)

    match node:
        case Apply(op=ops.CAST, args=(given,)):
            return _INTEGERS.get(given.dtype, inf)
        case Apply(op=op) if op in _RESULTS:
            return _RESULTS[op] * _ROUNDED
        case Apply(op="neg" | "abs", args=(arg,)):
            return of(arg)
        case Apply(op="where", args=(_, *args)) | Apply(op="maximum" | "minimum", args=args):
            return max(map(of, args))
        case Apply(op="add" | "sub", args=(a, b)):
            return (of(a) + of(b)) * _ROUNDED
        case Apply(op="mul", args=(a, b)) if of(a) < inf and of(b) < inf:
            return of(a) * of(b) * _ROUNDED
        case _:
            return inf
