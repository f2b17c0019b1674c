"""Columns read by blocks of long rows ask for memory early: no prefetcher follows so many pages."""

from __future__ import annotations

from dataclasses import replace

from jitpkg.codegen.fusion.kernel import Blocks, Compute, Lanes, Loop, Schedule, Statement
from jitpkg.codegen.fusion.passes.block_sums import is_inexact
from jitpkg.codegen.fusion.passes.rows_together import PAGE
from jitpkg.codegen.fusion.statements import bytes_apart, offset
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.ir.nodes import Axis, Load, Node


def ask_ahead(schedule: Schedule) -> Schedule:
    """The schedule with notes at such loads.

    Loops that add up floats are left as they are: what their columns carry, in float64, wants the
    first cache for itself. At 4096 x 4096, float32, softmax along dim 0 took 7.2 ms for 8.2,
    and the largest of each column 2.0 for 2.7; sums would take 2.05 for 1.93. With two threads
    these took 5.1 for 5.5, and 1.2 for 1.4; the largest of float64 3.7 for 3.6 (AMD, Zen 5).
    """
    return replace(schedule, body=_within(schedule.body, None, None))


def _within(
    body: tuple[Statement, ...], rows: Axis | None, lanes: Axis | None
) -> tuple[Statement, ...]:
    """`rows`: the axis of the blocks around; `lanes`: that of the loop in lanes inside of them."""
    made: list[Statement] = []
    for each in body:
        match each:
            case Loop(axis=axis, kind=Blocks()):
                each = replace(each, body=_within(each.body, axis, None))
            case Loop(axis=axis, kind=Lanes()) if rows is not None:
                each = replace(each, body=_within(each.body, rows, axis))
            case Loop(axis=axis) if rows is axis and lanes is not None:
                if not any(map(is_inexact, each.folds)):
                    each = replace(each, body=_noted(each.body, axis, lanes))
            case Loop():
                each = replace(each, body=_within(each.body, None, None))
            case _:
                pass
        made.append(each)
    return tuple(made)


def _noted(body: tuple[Statement, ...], rows: Axis, lanes: Axis) -> tuple[Statement, ...]:
    return tuple(
        replace(x, ahead=frozenset(n for n in x.nodes if _is_far_apart(n, rows, lanes)))
        if isinstance(x, Compute)
        else x
        for x in body
    )


def _is_far_apart(node: Node, rows: Axis, lanes: Axis) -> bool:
    """Whether lanes read neighbours, and each row begins in another page."""
    if not isinstance(node, Load):
        return False
    along = offset(node.buffer, node.index).factor(lanes)
    return same(along, 1) and bytes_apart(node, rows) >= PAGE
