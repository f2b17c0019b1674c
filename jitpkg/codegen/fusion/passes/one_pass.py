"""Two folds of which the second needs the first one's result go over the data once, as a pair.

Where a tile holds the whole row in registers, going over it twice costs less than a pair's state.
"""

from __future__ import annotations

from dataclasses import replace

from jitpkg.codegen.fusion.kernel import Finish, Loop, Schedule, Statement
from jitpkg.codegen.fusion.online import Pair, pairs
from jitpkg.codegen.fusion.statements import is_at_once


def in_one_pass(schedule: Schedule) -> Schedule:
    """The schedule without loops that fold nothing but second ones: the first one's loop carries
    the pair, and where the second loop was, it is finished."""
    return replace(schedule, body=_block(schedule.body))


def _block(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    inside = [each for each in body if isinstance(each, Loop)]
    begins = {fold: loop for loop in inside for fold in loop.folds if fold.over[0] is loop.axis}
    found = {pair.second: pair for pair in pairs(begins) if pair.first in begins}
    finished: dict[Loop, list[Pair]] = {}
    carried: dict[Loop, list[Pair]] = {}
    for loop in inside:
        own = [found[fold] for fold in loop.folds if fold in found]
        firsts = [(begins[pair.first], pair.first) for pair in own]
        if not own or len(own) < len(loop.folds):
            continue
        if any(first in finished or is_at_once(first, fold) for first, fold in firsts):
            continue
        finished[loop] = own
        for pair in own:
            carried.setdefault(begins[pair.first], []).append(pair)
    made: list[Statement] = []
    for each in body:
        match each:
            case Loop() if each in finished:
                made.extend(map(Finish, finished[each]))
            case Loop():
                inner = replace(each, body=_block(each.body))
                made.append(_carrying(inner, carried.get(each, [])))
            case _:
                made.append(each)
    return tuple(made)


def _carrying(loop: Loop, own: list[Pair]) -> Loop:
    """The loop, and those inside that carry the same folds, with these pairs."""
    here = tuple(pair for pair in own if pair.first in loop.folds)
    if not here:
        return loop
    body = tuple(_carrying(each, own) if isinstance(each, Loop) else each for each in loop.body)
    return replace(loop, body=body, pairs=here)
