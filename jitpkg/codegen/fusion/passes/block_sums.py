"""Long sums are sums of sums: errors then grow like the square root of the number of elements."""

from __future__ import annotations

from dataclasses import replace

import torch

from jitpkg.codegen.fusion.kernel import Blocks, Loop, Schedule, Statement
from jitpkg.codegen.ir.extents import example, varies
from jitpkg.codegen.ir.nodes import Axis, Reduce

ADDED_UP = 64
"""Iterations of one accumulator, at least, before it goes into another one."""


def block_sums(schedule: Schedule) -> Schedule:
    """The schedule with loops in blocks that add up many numbers of float32 or float64."""
    body = tuple(_within(each, frozenset()) for each in schedule.body)
    return replace(schedule, body=body)


def _within(statement: Statement, blocks: frozenset[Axis]) -> Statement:
    """A statement inside of blocks of these axes."""
    if not isinstance(statement, Loop):
        return statement
    is_block = isinstance(statement.kind, Blocks) and type(statement.kind) is Blocks
    inside = blocks | {statement.axis} if is_block else blocks
    loop = replace(statement, body=tuple(_within(each, inside) for each in statement.body))
    if loop.is_split or loop.axis in blocks or not any(map(is_inexact, loop.folds)):
        return loop
    iterations = example(loop.extent) // loop.step
    if iterations <= 2 * ADDED_UP and not varies(loop.extent):
        return loop
    many = ADDED_UP
    while many * many < iterations:
        many *= 2
    return replace(loop, body=(loop,), kind=Blocks(many * loop.step))


def is_inexact(fold: Reduce) -> bool:
    """Whether adding up many elements one after the other would lose too much."""
    return fold.op == "sum" and fold.value.dtype in (torch.float32, torch.float64)
