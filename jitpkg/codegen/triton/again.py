"""Rows that go by in blocks leave the cache, unless a later loop or another program reads them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from jitpkg.codegen.fusion.kernel import Compute, Loop, Schedule, Statement, Tile
from jitpkg.codegen.fusion.statements import accesses
from jitpkg.codegen.ir.nodes import Axis, Load, Node
from jitpkg.codegen.triton.dims import nest


def read_again(schedule: Schedule) -> Schedule:
    """The schedule with notes at loads of which the memory is read again."""
    grid, _ = nest(schedule.body)
    loads = Counter(each for each in accesses(schedule.body) if isinstance(each, Load))
    notes = _Notes(loads, frozenset(loop.axis for loop in grid))
    return replace(schedule, body=notes.block(schedule.body, frozenset()))


class _Notes:
    def __init__(self, left: Counter[Load], programs: frozenset[Axis]) -> None:
        self._left = left
        """How many more times a load stands in the schedule."""
        self._programs = programs

    def block(self, body: tuple[Statement, ...], blocks: frozenset[Axis]) -> tuple[Statement, ...]:
        """`blocks`: the axes of the tile around that goes by in blocks."""
        made: list[Statement] = []
        for each in body:
            match each:
                case Compute(nodes=nodes):
                    again = frozenset(n for n in nodes if n.axes & blocks and self._is_again(n))
                    each = replace(each, again=again)
                case Loop(axis=axis, kind=Tile(whole=False)):
                    each = replace(each, body=self.block(each.body, blocks | {axis}))
                case Loop():
                    each = replace(each, body=self.block(each.body, blocks))
                case _:
                    pass
            made.append(each)
        return tuple(made)

    def _is_again(self, node: Node) -> bool:
        if not isinstance(node, Load):
            return False
        if self._programs and self._programs.isdisjoint(node.axes):
            return True  # the next program reads it
        self._left[node] -= 1
        return self._left[node] > 0
