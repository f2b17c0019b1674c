"""What ops make of values, as expressions."""

from __future__ import annotations

import math

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.nodes import Apply, Const, Node
from jitpkg.codegen.triton import scalar_ops
from jitpkg.codegen.triton.frame import Frame, Value
from jitpkg.codegen.triton.scalar_ops import cast, literal


def applied(frame: Frame, node: Apply) -> Value:
    """What an op makes of values that are known."""
    args = node.args
    dims = frozenset[str]().union(*(frame.of(arg).dims for arg in args))
    if node.op == ops.CAST:
        (arg,) = args
        if frame.is_index(node):
            return Value(f"{frame.of(arg).operand}.to({frame.index})", dims)
        source = arg.dtype
        if frame.is_index(arg) and frame.index == "tl.int32":
            source = torch.int32
        return Value(cast(frame.of(arg).operand, source, node.dtype), dims)
    kind = args[1].dtype if node.op == "where" else args[0].dtype
    rows = scalar_ops.rows(kind)
    narrow = all(frame.is_index(a) for a in args if a.dtype is torch.int64)
    if node.dtype is torch.int64 and not frame.is_index(node):
        narrow = False
    alone = node.op == "where" and all(isinstance(arg, Const) for arg in args[1:])
    texts = []
    for arg in args:
        if isinstance(arg, Const) and (
            (narrow and arg.dtype is torch.int64)
            or scalar_ops.takes_literal(node.op, arg, alone=alone)
        ):
            texts.append(_signed(literal(arg.value, arg.dtype)))
        else:
            texts.append(frame.of(arg).operand if narrow else full(frame, arg))
    op = node.op
    if op == "div" and isinstance(args[1], Const) and (inverse := _inverse(args[1])):
        return Value(f"{texts[0]} * {literal(inverse, kind)}", dims)
    if narrow and op in ("floordiv", "mod") and frame.is_positive(args[0]):
        return Value(f"{texts[0]} {'//' if op == 'floordiv' else '%'} {texts[1]}", dims)
    return Value(rows[op](*texts), dims)


def full(frame: Frame, node: Node) -> str:
    """A value in its own dtype: an index may be held in fewer bits."""
    text = frame.of(node).operand
    if frame.is_index(node) and not isinstance(node, Const):
        return f"tl.cast({text}, tl.int64)" if frame.index == "tl.int32" else text
    return text


def _inverse(divisor: Const) -> float | None:
    """What to multiply by instead: exact for powers of two."""
    share, exponent = math.frexp(abs(float(divisor.value)))
    return 1.0 / float(divisor.value) if share == 0.5 and abs(exponent) < 100 else None


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text
