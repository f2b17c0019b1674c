"""The dims of the tiles, and where programs stand: read off a tree."""

from __future__ import annotations

from collections.abc import Sequence

from jitpkg.codegen.fusion.kernel import Grid, Loop, Schedule, Statement, Tile
from jitpkg.codegen.fusion.statements import loops
from jitpkg.codegen.ir.nodes import Axis, Extent
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Dim:
    """A dim of the tiles."""

    name: str
    """As loops say it: `y`, `x`, `r`; and `r1` for the second one that is used as `r`."""
    axes: tuple[Axis, ...]
    """That it runs along; the last one is the fastest. Others of the same extents may share it."""
    looped: bool = False
    """Whether a loop goes over its blocks."""

    @property
    def letter(self) -> str:
        """Of which tensors' dim it takes the place."""
        return self.name[0]

    @property
    def block(self) -> str:
        """The parameter that says how wide it is."""
        return f"{self.letter.upper()}BLOCK{self.name[1:]}"

    @property
    def extent(self) -> Extent:
        whole: Extent = 1
        for axis in self.axes:
            whole = whole * axis.extent
        return whole


@dataclass(frozen=True, eq=False, slots=True)
class Dims:
    """Of a schedule."""

    rows: tuple[Axis, ...]
    """Of the grid: each position is a program of its own."""
    grid: tuple[Dim, ...]
    """That the grid's blocks run along."""
    inside: dict[str, Dim]
    """Those of what a program does, by name, in order."""
    body: tuple[Statement, ...]
    """What a program does."""

    @property
    def programs(self) -> tuple[Axis, ...]:
        """The axes of the grid."""
        return (*self.rows, *(axis for dim in self.grid for axis in dim.axes))


def nest(body: Sequence[Statement]) -> tuple[list[Loop], tuple[Statement, ...]]:
    """The loops of the grid, which stand in each other, and what is inside."""
    found: list[Loop] = []
    inside = [each for each in body if isinstance(each, Loop)]
    while len(inside) == 1 and isinstance(inside[0].kind, Grid):
        found.append(inside[0])
        body = inside[0].body
        inside = [each for each in body if isinstance(each, Loop)]
    return found, tuple(body)


def dims(schedule: Schedule) -> Dims:
    """Those of a tree in which all of them stand."""
    grid, body = nest(schedule.body)
    rows: list[Axis] = []
    blocks: dict[str, list[Axis]] = {}
    for loop in grid:
        assert isinstance(loop.kind, Grid)
        (blocks.setdefault(loop.kind.dim, []) if loop.kind.dim else rows).append(loop.axis)
    inside: dict[str, Dim] = {}
    for loop in loops(body):
        match loop.kind:
            case Tile(dim=name, whole=whole) if name not in inside:
                inside[name] = Dim(name, together(loop), not whole)
            case _:
                pass
    along = tuple(Dim(name, tuple(axes)) for name, axes in blocks.items())
    return Dims(tuple(rows), along, inside, body)


def together(loop: Loop) -> tuple[Axis, ...]:
    """The axes of the loops in each other that are one dim, from this one inwards."""
    return tuple(each.axis for each in (loop, *loops(loop.body)) if each.kind == loop.kind)
