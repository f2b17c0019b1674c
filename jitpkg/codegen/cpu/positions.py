"""Comparisons of positions, as the masks of a pad or of a causal attention are: on 32 bits."""

from __future__ import annotations

import torch

from jitpkg.codegen.cpu.arithmetic import constants
from jitpkg.codegen.cpu.frame import Frame
from jitpkg.codegen.cpu.scalar_ops import compared
from jitpkg.codegen.ir.extents import varies
from jitpkg.codegen.ir.nodes import Apply, Axis
from jitpkg.codegen.ir.ranges import Linear

TESTS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})

SMALL = 1 << 30
"""What is below this, and the lanes' own distances, fit into 32 bits together."""


def compared_positions(frame: Frame, node: Apply) -> str | None:
    """A mask for the lanes, where a test is of numbers that go up by as much from lane to lane."""
    if node.op not in TESTS or node.args[0].dtype is not torch.int64 or frame.axis is None:
        return None
    a, b = node.args
    apart = Linear.of(a).plus(Linear.of(b).times(-1))
    low, high = apart.range()
    if low is None or high is None or low < -SMALL or high > SMALL:
        return None
    step, terms = 0, []
    for atom, factor in apart.terms:
        if isinstance(atom, Axis):
            step = factor if atom is frame.axis else step
            terms.append((frame.positions[atom][0], factor))
        elif frame.of(atom).lanes == 1:
            terms.append((frame.of(atom).text, factor))
        else:
            return None
    if varies(step) or not step or abs(step) > SMALL // frame.width:
        return None
    # step * lane <test> bound
    w, bound = frame.w, frame.number(-apart.constant)
    for text, factor in terms:
        by = frame.number(factor)
        term = text if by == "1" else w.op(f"mul i64 {text}, {by}")
        bound = w.op(f"sub i64 {bound}, {term}")
    i = frame.arithmetic(torch.int32, frame.width)
    bound = frame.splat(w.op(f"trunc i64 {bound} to i32"), torch.int32, frame.depth)
    lanes = constants("i32", [step * lane for lane in range(frame.width)])
    return compared(i, node.op, lanes, bound)
