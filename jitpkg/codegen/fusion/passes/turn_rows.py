"""Loads across the lanes: what some iterations read is read and turned before them.

Where the lanes of a load are far from each other in memory, and its neighbours belong to the next
iterations of a loop outside, a gather would take a cache line for each element. So as many rows as
fill a cache line are turned at once; or, where the two loops are all that there is, a tile is: some
cache lines high, which lie side by side and so in one page. Of 4096 rows with a page each, far more
would be touched than the processor knows the addresses of.
"""

from __future__ import annotations

from dataclasses import replace

from jitpkg.codegen.fusion.kernel import (
    Blocks,
    Chunks,
    Compute,
    Lanes,
    Loop,
    Parts,
    Schedule,
    Statement,
    Turn,
)
from jitpkg.codegen.fusion.passes.room import Room
from jitpkg.codegen.fusion.statements import loops, offset, scans, statements, typical
from jitpkg.codegen.ir.extents import at_least, same, varies
from jitpkg.codegen.ir.nodes import Load, Node
from jitpkg.dataclass import dataclass

LINE = 64
"""Bytes of a cache line."""

HIGH = 8
"""Cache lines of a tile. A transposed matrix of 4096 x 4096 plus another one took 14.4 ms with 4,
12.6 with 8, 11.9 with 16; of 1024 x 1024, 0.27, 0.29 and 0.32."""

WIDE = 128
"""Lanes of a tile: 64 KB are turned at once, which the second cache holds. Loops have no more side
by side."""

FEWEST, NARROWEST = 4, 8
"""Iterations, and lanes, from which on it is worth it."""

BESIDE = 16
"""Elements by which rows are longer, so that they lie in different sets of a cache."""


def turn_rows(schedule: Schedule, room: Room) -> Schedule:
    """The schedule with such loads turned before, as far as there is room."""
    turning = _Turning(room)
    known: set[Node] = set()
    return replace(schedule, body=tuple(turning.within(each, known) for each in schedule.body))


@dataclass(eq=False, slots=True)
class _Turning:
    room: Room

    def within(self, statement: Statement, known: set[Node]) -> Statement:
        """A statement, where these values and positions are known; what it makes known is added."""
        if isinstance(statement, Compute):
            known.update(statement.nodes)
        if not isinstance(statement, Loop) or isinstance(statement.kind, Lanes):
            return statement
        found = {} if statement.is_split else _across(statement, known)
        tile = _tile(statement, found)
        if tile is not None and self.room.take(_bytes(tile)):
            return _by_tiles(statement, tile)
        turns = [turn for turn in _rows(statement, found) if self.room.take(_bytes([turn]))]
        inside = known | {turn.load for turn in turns}
        if not statement.is_split:
            inside.add(statement.axis)
        loop = replace(statement, body=tuple(self.within(x, inside) for x in statement.body))
        if not turns:
            return _aligned(loop)
        return replace(loop, body=(*turns, loop), kind=Blocks(turns[0].high))


def _across(loop: Loop, known: set[Node]) -> dict[Load, Loop]:
    """Loads that are worth it, and the loop in lanes that each stands in."""
    found: dict[Load, Loop] = {}
    if typical(loop.extent) < FEWEST:
        return found
    for lanes in loops(loop.body):
        if not isinstance(lanes.kind, Lanes):
            continue
        for statement in statements(lanes.body):
            if isinstance(statement, Compute):
                for node in statement.nodes:
                    if not isinstance(node, Load) or node in known:
                        continue
                    if _is_across(node, loop, lanes, known):
                        found.setdefault(node, lanes)
    return found


def _is_across(load: Load, loop: Loop, lanes: Loop, known: set[Node]) -> bool:
    """Whether the next iteration of `loop` reads the next element, and the next lane a far one."""
    if load.mask is not None or any(same(n, 0) for n in load.buffer.sizes):
        return False
    whole = offset(load.buffer, load.index)
    far = whole.factor(lanes.axis)
    if not same(whole.factor(loop.axis), 1) or any(same(far, near) for near in (-1, 0, 1)):
        return False
    # Nothing else in the address may be found out by inner loops.
    others = {atom for atom, _ in whole.terms if atom not in (loop.axis, lanes.axis)}
    return others <= known and typical(lanes.extent) >= NARROWEST and at_least(lanes.extent, 1)


def _tile(loop: Loop, found: dict[Load, Loop]) -> list[Turn] | None:
    """A tile for these loads, if all that an outer loop does is a loop in lanes that carries
    nothing, and both are as long as the squares that are turned."""
    match loop.body:
        case (Loop(kind=Lanes()) as lanes,) if found and not loop.folds and not scans(loop):
            if lanes.folds or scans(lanes):
                return None
            high = HIGH * max(_line(load) for load in found)
            return [Turn(load, loop.axis, lanes.axis, high, WIDE) for load in found]
    return None


def _by_tiles(loop: Loop, turns: list[Turn]) -> Loop:
    lanes = turns[0].lanes
    across = Loop(lanes, (*turns, loop), kind=Blocks(WIDE))
    return Loop(loop.axis, (across,), kind=Blocks(turns[0].high))


def _aligned(loop: Loop) -> Loop:
    """A loop that threads share, which ends where the blocks inside end."""
    match loop.body:
        case (Loop(kind=Blocks(count=count)) as inner,) if inner.axis is loop.axis:
            pass
        case _:
            return loop
    match loop.kind:
        case Parts(count=old, work=work) if count > old:
            return replace(loop, kind=Parts(count, work * count // old))
        case Chunks(count=old):
            return replace(loop, kind=Chunks(-(-old // count) * count))
        case _:
            return loop


def _rows(loop: Loop, found: dict[Load, Loop]) -> list[Turn]:
    """Whole rows, of which all fill a cache line at least."""
    high = max(map(_line, found), default=0)
    return [Turn(load, loop.axis, lanes.axis, high, None) for load, lanes in found.items()]


def _line(load: Load) -> int:
    return LINE // load.dtype.itemsize


def _row(turn: Turn) -> int:
    """About how many elements there are from one row that has been turned to the next."""
    wide = turn.lanes.extent if turn.wide is None else turn.wide
    return (typical(wide) if varies(wide) else wide) + WIDE + BESIDE


def _bytes(turns: list[Turn]) -> int:
    return sum(turn.high * _row(turn) * turn.load.dtype.itemsize for turn in turns)
