"""Programs of the grid get more to do than one position each, where that is little.

All positions in a row are cut into blocks along `x`; or each is a program of its own where what is
inside is long; or two of the axes are dims of a tile (`y`, `x`) where some memory lies along
another axis than the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitpkg.codegen.fusion.kernel import Compute, Grid, Loop, Schedule, Statement
from jitpkg.codegen.fusion.statements import typical
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.ir.nodes import Axis
from jitpkg.codegen.triton.dims import Dim, dims, nest
from jitpkg.codegen.triton.reach import Reach

ROW = 1024
"""Elements from which on a row has programs of its own."""


def blocks(schedule: Schedule) -> Schedule:
    """The schedule with the loops of the grid in order: those without a dim, along `y`, along `x`.
    All that is computed between them comes to stand in the innermost one."""
    grid, body = nest(schedule.body)
    axes = tuple(loop.axis for loop in grid)
    if not axes:
        return schedule
    inner = list(dims(schedule).inside.values())
    kinds = _kinds(axes, inner, Reach(schedule.body))
    outside = [schedule.body, *(loop.body for loop in grid[:-1])]
    between = [each for part in outside for each in part if isinstance(each, Compute)]
    made: tuple[Statement, ...] = (*between, *body)
    in_order = sorted(axes, key=lambda axis: _ORDER.index(kinds[axis].dim))
    for axis in reversed(in_order):
        made = (Loop(axis, made, kind=kinds[axis]),)
    return replace(schedule, body=made)


_ORDER = ("", "y", "x")


def _kinds(axes: tuple[Axis, ...], inner: Sequence[Dim], reach: Reach) -> dict[Axis, Grid]:
    if not inner:
        turned = _turned(axes, reach)
        if turned is not None:
            x, y = turned
            return {axis: Grid({x: "x", y: "y"}.get(axis, "")) for axis in axes}
    long = [dim for dim in inner if typical(dim.extent) >= ROW or dim.looped]
    fast = max((reach.along(dim.axes[-1], axes) for dim in inner), default=0)
    inside = [axis for dim in inner for axis in dim.axes]
    alone = long and fast >= max(reach.along(axis, inside) for axis in axes)
    return dict.fromkeys(axes, Grid("" if alone else "x"))


def _turned(axes: tuple[Axis, ...], reach: Reach) -> tuple[Axis, Axis] | None:
    """The axis that most results lie along, and another one that something is read along."""
    written = [axis for axis in axes if any(same(at.factor(axis), 1) for _, at in reach.stores)]
    if not written or typical(written[-1].extent) < 16:
        return None
    x = written[-1]
    for y in axes:
        if y is x or typical(y.extent) < 16:
            continue
        if any(
            same(at.factor(y), 1) and not same(at.factor(x), 0) and not same(at.factor(x), 1)
            for _, at in reach.loads
        ):
            return x, y
    return None
