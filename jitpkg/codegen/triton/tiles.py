"""One loop of each nest in a program runs side by side, as the dim `r` of the program's tile.

It is *whole* where its length fits into registers: then it is no loop at all, and what two such
loops have in common is computed once. All other loops run as they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from jitpkg.codegen.fusion.kernel import Compute, Loop, Schedule, Statement, Tile
from jitpkg.codegen.fusion.statements import loops, typical
from jitpkg.codegen.ir.extents import less, varies
from jitpkg.codegen.ir.nodes import Axis, Extent
from jitpkg.codegen.triton.dims import nest
from jitpkg.codegen.triton.reach import Reach
from jitpkg.dataclass import dataclass

PERSISTENT = 16384
"""Elements of a row, at most, that registers hold. A row of 32768 needs 32 of them in each of 1024
threads for every value that lives from one loop to the next, of 64."""

ACROSS = 128
"""The same where neighbouring elements are of different rows, of which some are in one tile."""

SHORT = 8
"""Loops that are no longer run one by one where there is something else to run side by side."""

FEW = 64
"""And so are nests of those, where they have no more positions."""

FLAT = 512
"""Where the inner one of two loops of a fold is shorter, both become one dim."""


def tiles(schedule: Schedule) -> Schedule:
    """The schedule with a kind for each loop that is a dim, or a part of one."""
    grid, body = nest(schedule.body)
    found = _Inner(body, tuple(loop.axis for loop in grid))
    return replace(schedule, body=_with_kinds(schedule.body, found.kinds))


def _with_kinds(body: tuple[Statement, ...], kinds: dict[Loop, Tile]) -> tuple[Statement, ...]:
    return tuple(
        replace(each, body=_with_kinds(each.body, kinds), kind=kinds.get(each, each.kind))
        if isinstance(each, Loop)
        else each
        for each in body
    )


@dataclass(eq=False)
class _Inner:
    """Finds the dims inside of a program."""

    body: tuple[Statement, ...]
    axes: tuple[Axis, ...]
    """The grid's."""
    kinds: dict[Loop, Tile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reach = Reach(self.body)
        self._shared: dict[tuple[Extent, ...], Tile] = {}
        self._assign(self.body)

    def _assign(self, body: Sequence[Statement]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                self._nest(statement)

    def _nest(self, loop: Loop) -> None:
        chain = [loop]
        while (inside := _only(chain[-1])) is not None:
            chain.append(inside)
        last = chain[-1]
        deeper = list(loops(last.body))
        picked = max(chain, key=self._worth)
        for each in chain:
            if each.scans:
                picked = each
        length = typical(picked.axis.extent)
        if any(typical(each.axis.extent) > 2 * length for each in deeper):
            self._assign(last.body)
            return
        together = self._together(chain)
        if together:
            length = 1
            for each in chain:
                length *= each.axis.extent
        few = length <= FEW and all(typical(each.axis.extent) <= SHORT for each in chain)
        if few and self.axes and not picked.scans:
            return
        along = chain if together else [picked]
        tile = self._tile(tuple(each.axis for each in along))
        self.kinds.update(dict.fromkeys(along, tile))

    def _worth(self, loop: Loop) -> tuple[bool, int]:
        length = typical(loop.axis.extent)
        return length >= 16 and self._reach.along(loop.axis) > 0, length

    def _together(self, chain: Sequence[Loop]) -> bool:
        """Whether all loops of a fold become one dim."""
        axes = tuple(each.axis for each in chain)
        if len(chain) < 2 or any(varies(axis.extent) for axis in axes):
            return False
        if any(each.scans or set(each.folds) != set(chain[0].folds) for each in chain):
            return False
        if any(fold.over != axes for fold in chain[0].folds):
            return False
        for each in loops(self.body):  # an axis of another dim has other positions there
            alike = each.folds and all(fold.over == axes for fold in each.folds)
            if each.axis in axes and not alike:
                return False
        return axes[-1].extent < FLAT

    def _tile(self, axes: tuple[Axis, ...]) -> Tile:
        """One for all loops of the same extents."""
        key = tuple(axis.extent for axis in axes)
        if key not in self._shared:
            count = len(self._shared)
            length: Extent = 1
            for axis in axes:
                length = length * axis.extent
            most = PERSISTENT // max(1, self._reach.kept(axes) - 1)
            inside = self._reach.along(axes[-1], self.axes)
            if any(self._reach.along(axis, axes) > inside for axis in self.axes):
                most = ACROSS
            self._shared[key] = Tile(f"r{count}" if count else "r", less(length, most + 1))
        return self._shared[key]


def _only(loop: Loop) -> Loop | None:
    """The loop that is all that a loop does, besides computing."""
    inside = [each for each in loop.body if not isinstance(each, Compute)]
    if len(inside) == 1 and isinstance(inside[0], Loop) and not loop.scans:
        first = inside[0]
        return first if set(first.folds) >= set(loop.folds) and not first.scans else None
    return None
