"""Loops over columns, the other way round: their rows are outside, for some rows at a time.

So memory is read along its rows; what a column carries lies in memory of ours meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from jitpkg.codegen.fusion.kernel import (
    Begin,
    Blocks,
    Gather,
    Lanes,
    Loop,
    Schedule,
    Statement,
    Take,
    Write,
)
from jitpkg.codegen.fusion.passes.room import Room
from jitpkg.codegen.fusion.passes.rows_together import PAGE
from jitpkg.codegen.fusion.statements import accesses, bytes_apart, scans, typical
from jitpkg.codegen.ir.nodes import Reduce, Scan

ROWS = 16
"""Of columns that are read at a time: more of them would be too many for the prefetcher."""

PAGES = 8
"""The same where each row begins in another page. Sums of the columns of a 4096 x 4096 matrix of
float32 took 3.3 ms by 16 rows, and 2.5 by 8; its variances 7.0 and 5.5. Shorter rows are better off
by 16, as what columns carry is then read less often (AMD, Zen 4)."""

SHORTEST = 64
"""Rows from which on columns are worth blocks."""

FEWEST = 4
"""Vectors of columns, likewise."""


def interchange(schedule: Schedule, room: Room) -> Schedule:
    """The schedule with such loops by blocks of their rows, as far as there is room."""
    return replace(schedule, body=tuple(_within(schedule.body, room)))


def _within(body: Sequence[Statement], room: Room) -> Iterator[Statement]:
    for each in body:
        if not isinstance(each, Loop):
            yield each
        elif not isinstance(each.kind, Lanes):
            yield replace(each, body=tuple(_within(each.body, room)))
        elif is_of_columns(each) and room.take(_bytes(each)):
            yield from _by_rows(each)
        else:
            yield each


def is_of_columns(loop: Loop) -> bool:
    """Whether a loop in lanes runs over columns: all that is inside of it are long loops."""
    inner = [each for each in loop.body if isinstance(each, Loop)]
    if loop.folds or scans(loop) or not inner or typical(loop.extent) < FEWEST * loop.lanes:
        return False
    if any(typical(each.extent) < SHORTEST for each in inner):
        return False
    return not any(state.dtype is torch.bool for each in inner for state in _states(each))


def _states(inner: Loop) -> list[Reduce | Scan]:
    return [*inner.folds, *scans(inner)]


def _bytes(loop: Loop) -> int:
    states = sum(len(_states(each)) for each in loop.body if isinstance(each, Loop))
    return 16 * loop.extent * states


def _by_rows(loop: Loop) -> Iterator[Loop]:
    """Each inner loop by blocks of its rows, and each block along all lanes."""
    known: list[Statement] = []
    for k, inner in enumerate(loop.body):
        if not isinstance(inner, Loop):
            continue
        states = _states(inner)
        before = [x for x in loop.body[:k] if not isinstance(x, Loop | Write)]
        if states:
            yield replace(loop, body=tuple(map(Begin, states)))
        column = (*known, *before, inner, *map(Gather, states))
        yield Loop(inner.axis, (replace(loop, body=column),), kind=Blocks(_together(inner)))
        known += map(Take, inner.folds)
    yield replace(loop, body=(*known, *(x for x in loop.body if not isinstance(x, Loop))))


def _together(inner: Loop) -> int:
    """How many rows are read at a time."""
    if any(bytes_apart(each, inner.axis) >= PAGE for each in accesses(inner.body)):
        return min(PAGES, ROWS)
    return ROWS
