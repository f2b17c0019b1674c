"""The outermost loops are the grid, as far as nothing is folded or written between them."""

from __future__ import annotations

from dataclasses import replace

from jitpkg.codegen.fusion.kernel import Grid, Loop, Schedule, Statement, Write


def grid(schedule: Schedule) -> Schedule:
    """The schedule with a program for each position of these loops. What is computed between them
    each program computes itself."""
    return replace(schedule, body=_of_programs(schedule.body))


def _of_programs(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    inside = [each for each in body if isinstance(each, Loop)]
    alone = len(inside) == 1 and not any(isinstance(each, Write) for each in body)
    if not alone or inside[0].folds or inside[0].scans:
        return body
    (loop,) = inside
    made = replace(loop, body=_of_programs(loop.body), kind=Grid())
    return tuple(made if each is loop else each for each in body)
