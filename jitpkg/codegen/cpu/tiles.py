"""Two loops by tiles, where loads go across the lanes: what a tile reads is turned first.

A tile is some cache lines high, which lie side by side in each row of memory that it reads, and so
in one page: of 4096 rows with a page each, far more would be touched than the processor knows the
addresses of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitpkg.codegen.cpu.arithmetic import memory, vector
from jitpkg.codegen.cpu.columns import Walk
from jitpkg.codegen.cpu.frame import Turned
from jitpkg.codegen.cpu.lanes import WIDEST, bytes_of_columns
from jitpkg.codegen.cpu.memory import LINE, place
from jitpkg.codegen.cpu.turned import loads_across, transposed
from jitpkg.codegen.fusion.kernel import Lanes, Loop
from jitpkg.codegen.fusion.statements import offset, scans
from jitpkg.codegen.ir.extents import at_least
from jitpkg.codegen.ir.nodes import Load

HIGH = 8
"""Cache lines of a tile. A transposed matrix of 4096 x 4096 plus another one took 14.4 ms with 4,
12.6 with 8, 11.9 with 16; of 1024 x 1024, 0.27, 0.29 and 0.32."""

WIDE = WIDEST
"""Lanes of a tile: 64 KB are turned at once, which the second cache holds."""


def tiles_of(walk: Walk, loop: Loop) -> Tiles | None:
    """Where all that an outer loop does is a loop in lanes that nothing is carried by."""
    frame = walk.frame
    match loop.body:
        case (Loop(kind=Lanes()) as lanes,) if lanes is not walk.parted:
            pass
        case _:
            return None
    if lanes.folds or scans(lanes) or bytes_of_columns(lanes) is not None:
        return None
    loads = list(loads_across(frame, loop))
    if not loads:
        return None
    sides = [_side(walk, load) for load in loads]
    if not at_least(loop.extent, max(sides)) or not at_least(lanes.extent, max(sides)):
        return None
    high = max(HIGH * LINE // load.dtype.itemsize for load in loads)
    row = WIDE + max(sides)
    room = sum((high + max(sides)) * row * load.dtype.itemsize for load in loads)
    if room > frame.room:
        return None
    frame.room -= room
    return Tiles(walk, loop, lanes, loads, high, row)


def _side(walk: Walk, load: Load) -> int:
    """Of the squares that are transposed in registers, in elements."""
    return min(16, walk.frame.host.bits // 8 // load.dtype.itemsize)


class Tiles:
    def __init__(
        self, walk: Walk, loop: Loop, lanes: Loop, loads: Sequence[Load], high: int, row: int
    ) -> None:
        """`high`: iterations of a tile; `row`: elements from one turned row to the next."""
        self.walk, self.loop, self.lanes, self.high = walk, loop, lanes, high
        self.frame, self.w = walk.frame, walk.frame.w
        self.turned = [self._room(load, row) for load in loads]

    def _room(self, load: Load, row: int) -> Turned:
        element, side = memory(load.dtype), _side(self.walk, load)
        # The last square of a row or a column may begin before the tile.
        room = self.frame.room_for(str((self.high + side) * row), element)
        rows = self.w.op(f"getelementptr {element}, ptr {room}, i64 {side * row}")
        made = Turned(
            load,
            self.loop.axis,
            self.lanes.axis,
            self.high,
            str(row),
            rows,
            self.loop.extent,
            self.lanes.extent,
        )
        self.frame.turned[load] = made
        return made

    def print(self, low: str, high: str) -> None:
        """The iterations of the outer loop from `low` to below `high`, with all lanes."""
        walk, frame, lanes = self.walk, self.frame, self.lanes
        walk.open.append(lanes)
        frame.loop, frame.axis, frame.width = lanes, lanes.axis, lanes.lanes
        _, _, full, is_rest = walk.bounds(lanes)

        def tiles(at: str, _: list[str]) -> list[str]:
            end = self._least(self.w.op(f"add i64 {at}, {self.high}"), high)

            def tile(first: str, _: list[str]) -> list[str]:
                behind = self._least(self.w.op(f"add i64 {first}, {WIDE}"), full)
                self._fill(at, end, first, behind)
                self._rows(at, end, lambda: walk.repeated(lanes, [], first, behind, lanes.lanes))
                return []

            def rest() -> list[list[str]]:
                self._fill(at, end, full, frame.number(lanes.extent))
                self._rows(at, end, lambda: walk.block(lanes.body))
                return []

            if full != "0":
                self._counted("0", full, WIDE, tile, surely=at_least(lanes.extent, lanes.lanes))
            if is_rest:
                walk.rest(lanes, full, rest)
            return []

        self._counted(low, high, self.high, tiles, surely=True)
        for each in self.turned:
            del frame.turned[each.load]
        frame.loop, frame.axis, frame.width = None, None, 1
        walk.open.pop()

    def _rows(self, at: str, end: str, run: Callable[[], object]) -> None:
        """The iterations of the outer loop that the tile has."""

        def one(row: str, _: list[str]) -> list[str]:
            self.frame.positions[self.loop.axis] = (row, self.frame.depth)
            run()
            return []

        self._counted(at, end, 1, one, surely=True)

    def _counted(
        self,
        low: str,
        high: str,
        step: int,
        body: Callable[[str, list[str]], list[str]],
        *,
        surely: bool,
    ) -> None:
        self.frame.enter()
        self.frame.counted(low, high, step, [], body, surely=surely)
        self.frame.leave()

    def _least(self, one: str, other: str) -> str:
        if not one.startswith("%") and not other.startswith("%"):
            return str(min(int(one), int(other)))
        less = self.w.op(f"icmp slt i64 {one}, {other}")
        return self.w.op(f"select i1 {less}, i64 {one}, i64 {other}")

    def _fill(self, at: str, end: str, first: str, behind: str) -> None:
        """Turn what the iterations from `at` to below `end` read in the lanes from `first` to below
        `behind`."""
        extent = self.frame.number(self.lanes.extent)
        behind = self._least(behind, extent)
        for each in self.turned:
            each.start, each.first = at, first
            self._squares(each, end, behind)

    def _squares(self, turned: Turned, end: str, behind: str) -> None:
        """Square by square: the last ones reach back, so that nothing is read that is not there."""
        frame, w, load = self.frame, self.w, turned.load
        size, side = load.dtype.itemsize, _side(self.walk, load)
        element, kind = memory(load.dtype), vector(memory(load.dtype), side)
        last_row = frame.number(turned.iterations - side)
        last_lane = frame.number(turned.across - side)
        step = frame.number(offset(load.buffer, load.index).factor(turned.lanes))
        known = dict(frame.positions)

        def along(lane: str, _: list[str]) -> list[str]:
            lane = self._least(lane, last_lane)
            frame.positions[turned.lanes] = (lane, frame.depth)
            to = w.op(f"sub i64 {lane}, {turned.first}")

            def down(row: str, _: list[str]) -> list[str]:
                row = self._least(row, last_row)
                frame.positions[turned.outer] = (row, frame.depth)
                base = place(frame, load.buffer, load.index).base
                lines = []
                for k in range(side):
                    far = w.op(f"mul i64 {step}, {k}")
                    pointer = w.op(f"getelementptr {element}, ptr {base}, i64 {far}")
                    lines.append(w.op(f"load {kind}, ptr {pointer}, align {size}"))
                number = w.op(f"sub i64 {row}, {turned.start}")
                for k, line in enumerate(transposed(frame, lines, kind, side)):
                    far = w.op(f"add i64 {number}, {k}")
                    far = w.op(f"mul i64 {far}, {turned.row}")
                    far = w.op(f"add i64 {far}, {to}")
                    pointer = w.op(f"getelementptr {element}, ptr {turned.rows}, i64 {far}")
                    w.do(f"store {kind} {line}, ptr {pointer}, align {size}")
                return []

            self._counted(turned.start, end, side, down, surely=True)
            return []

        self._counted(turned.first, behind, side, along, surely=True)
        frame.positions.update(known)
