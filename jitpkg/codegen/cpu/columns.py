"""Loops over columns, the other way round: their rows are outside, for some rows at a time.

So memory is read along its rows; what a column carries lies in memory of ours meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from jitpkg.codegen.cpu.casts import cast
from jitpkg.codegen.cpu.folds import Fold
from jitpkg.codegen.cpu.frame import Frame
from jitpkg.codegen.cpu.scans import Carried
from jitpkg.codegen.fusion.kernel import Loop, Statement, Write
from jitpkg.codegen.ir.extents import at_least, same
from jitpkg.codegen.ir.nodes import Node

ROWS = 16
"""Of columns that are read at a time: more of them would be too many for the prefetcher."""


class Walk(Protocol):
    """What prints the statements of a loop: see `jitpkg.codegen.cpu.walk`."""

    frame: Frame
    parted: Loop | None
    open: list[Loop]

    def block(self, body: Sequence[Statement]) -> None: ...

    def bounds(self, loop: Loop) -> tuple[str, str, str, bool]: ...

    def carried(self, loop: Loop) -> list[Carried]: ...

    def repeated(
        self,
        loop: Loop,
        carried: list[Carried],
        low: str,
        high: str,
        step: int,
        begin: list[list[str]] | None = None,
    ) -> list[list[str]]: ...

    def rest(
        self, loop: Loop, start: str, run: Callable[[], list[list[str]]]
    ) -> list[list[str]]: ...


class Columns:
    """The loops inside of one that runs in lanes, by blocks of their rows."""

    def __init__(self, walk: Walk, loop: Loop, bounds: tuple[str, str, str, bool]) -> None:
        """`bounds`: of the loop in lanes, as `Walk.bounds` returns them."""
        self.walk, self.loop = walk, loop
        self.frame, self.w = walk.frame, walk.frame.w
        self.low, self.high, self.full, self.is_rest = bounds
        self.results: dict[Node, tuple[Fold, list[str]]] = {}
        """What inner loops have folded, and where the vectors of all columns are."""

    def print(self) -> None:
        """Each inner loop by blocks of its rows, and each block along all lanes."""
        body = self.loop.body
        for k, statement in enumerate(body):
            if isinstance(statement, Loop):
                self.walk.open.append(statement)
                self._stage(statement, [x for x in body[:k] if not isinstance(x, Write)])
                self.walk.open.pop()
        self._across(lambda: self._before(body))

    def _across(self, run: Callable[[], object]) -> None:
        """Along all columns."""
        frame, w, loop = self.frame, self.w, self.loop
        lanes, extent = frame.width, loop.extent
        more = not self.is_rest and not same(extent % lanes, 0)

        def one(at: str, _: list[str]) -> list[str]:
            frame.positions[loop.axis] = (at, frame.depth)
            if more:
                left = w.op(f"sub i64 {frame.number(extent)}, {at}")
                frame.mask = frame.first_lanes(left)
            run()
            frame.mask = None
            return []

        def nothing_carried() -> list[list[str]]:
            run()
            return []

        if self.full != "0":
            frame.enter()
            sure = loop is not self.walk.parted and at_least(extent, 1 if more else lanes)
            frame.counted(self.low, self.high, lanes, [], one, surely=sure)
            frame.leave()
        if self.is_rest:
            self.walk.rest(loop, self.full, nothing_carried)

    def _before(self, statements: Sequence[Statement]) -> None:
        """What the columns compute themselves, of what has been folded."""
        for node, (each, places) in self.results.items():
            kept = each.between_blocks()
            text = self._load(places, kept.types)[-1]
            if kept is not each:
                text = cast(kept.a, text, each.a.dtype)
            self.frame.define(node, text, self.frame.width)
        self.walk.block([each for each in statements if not isinstance(each, Loop)])

    def _stage(self, inner: Loop, statements: Sequence[Statement]) -> None:
        """One inner loop; `statements` are those that stand before it."""
        frame, w = self.frame, self.w
        carried = self.walk.carried(inner)
        kept = [each.between_blocks() for _, each in carried]
        places = [[self._room(kind) for kind in each.types] for each in kept]
        count = inner.extent

        def begin() -> None:
            for each, at in zip(kept, places, strict=True):
                self._store(at, each.types, each.start())

        if carried:
            self._across(begin)

        def block(first: str, _: list[str]) -> list[str]:
            last = w.op(f"add i64 {first}, {ROWS}")
            if not same(count % ROWS, 0):
                end = frame.number(count)
                less = w.op(f"icmp slt i64 {last}, {end}")
                last = w.op(f"select i1 {less}, i64 {last}, i64 {end}")

            def column() -> None:
                self._before(statements)
                self._column(inner, carried, places, first, last)

            self._across(column)
            return []

        frame.enter()
        sure = at_least(count, 1)
        frame.counted("0", frame.number(count), ROWS, [], block, surely=sure)
        frame.leave()
        for (node, each), at in zip(carried, places, strict=True):
            if isinstance(each, Fold):
                self.results[node] = (each, at)

    def _column(
        self,
        inner: Loop,
        carried: list[Carried],
        places: Sequence[list[str]],
        first: str,
        last: str,
    ) -> None:
        """The rows from `first` to below `last` of these lanes' columns."""
        kept = [each.between_blocks() for _, each in carried]
        old = [self._load(at, each.types) for each, at in zip(kept, places, strict=True)]
        start = [
            each.start() if each.is_inexact_sum else state
            for (_, each), state in zip(carried, old, strict=True)
        ]
        new = self.walk.repeated(inner, carried, first, last, 1, start)
        for (_, each), to, at, state, part in zip(carried, kept, places, old, new, strict=True):
            if isinstance(to, Fold) and to.is_inexact_sum:
                part = to.merge(state, [cast(each.a, part[0], to.a.dtype)])
            self._store(at, to.types, part)

    # Memory

    def _load(self, places: Sequence[str], types: Sequence[str]) -> list[str]:
        return [
            self.w.op(f"load {kind}, ptr {self._vector(place, kind)}, align 64")
            for place, kind in zip(places, types, strict=True)
        ]

    def _store(self, places: Sequence[str], types: Sequence[str], state: Sequence[str]) -> None:
        for place, kind, text in zip(places, types, state, strict=True):
            self.w.do(f"store {kind} {text}, ptr {self._vector(place, kind)}, align 64")

    def _room(self, kind: str) -> str:
        """Memory for a vector of this type for each step of the lanes."""
        count = self.frame.rounded(self.loop.extent, self.frame.width, up=True)
        return self.frame.room_for(self.frame.divided(count, self.frame.width), kind)

    def _vector(self, place: str, kind: str) -> str:
        """A pointer to the vector of this step."""
        at, _ = self.frame.positions[self.loop.axis]
        step = self.w.op(f"sdiv exact i64 {at}, {self.frame.width}")
        return self.w.op(f"getelementptr {kind}, ptr {place}, i64 {step}")
