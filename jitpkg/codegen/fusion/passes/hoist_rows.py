"""What an inner loop computes alike in each iteration of the outer one is computed before that.

A batch norm of images with the channels innermost is one: each pixel needs `1 / sqrt(var + eps)` of
all channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from jitpkg.codegen.fusion.kernel import Compute, Keep, Lanes, Loop, Schedule, Statement, Write
from jitpkg.codegen.fusion.passes.keep_rows import DEAR, LONGEST, parted
from jitpkg.codegen.fusion.statements import statements
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.nodes import Apply, Axis, Load, Node, operands

_LEFT = (torch.bool, torch.int64)
"""Masks are no values in memory; and positions, which are int64, are known by their parts."""

SEVERAL = 4
"""Iterations of the outer loop from which on it is worth a loop of its own."""


def hoist_rows(schedule: Schedule) -> Schedule:
    """The schedule with such values kept by a loop before the outermost one, in which they are
    taken."""
    room = LONGEST
    body: list[Statement] = []
    for statement in schedule.body:
        if not isinstance(statement, Loop) or isinstance(statement.kind, Lanes):
            body.append(statement)
            continue
        taken: dict[Loop, set[Node]] = {}
        for inner in _inner(statement):
            wanted = _wanted(inner)
            size = sum(node.dtype.itemsize for node in wanted) * inner.extent
            if wanted and size <= room:
                room -= size
                taken[inner] = wanted
                body.append(_before(inner, wanted))
        body.append(_taking(statement, taken))
    return replace(schedule, body=tuple(body))


def keeps_only(loop: Loop) -> bool:
    """Whether a loop is such a one: it writes nothing, and folds nothing."""
    inside = list(statements(loop.body))
    if loop.folds or any(isinstance(each, Write | Loop) for each in inside):
        return False
    return any(isinstance(each, Keep) for each in inside)


def _inner(outer: Loop, times: int = 1) -> Iterator[Loop]:
    """Loops in lanes that run several times."""
    if type(outer.extent) is not int:
        return
    times *= outer.extent
    for each in outer.body:
        if not isinstance(each, Loop):
            continue
        if not isinstance(each.kind, Lanes):
            yield from _inner(each, times)
        elif times >= SEVERAL and type(each.extent) is int and each.extent > 0:
            yield each


def _wanted(loop: Loop) -> set[Node]:
    """What of a loop depends on nothing but its own axis, and is dear."""
    cost: dict[Node, float] = {}
    for node in _nodes(loop):
        if _is_of(node, loop.axis) and isinstance(node, Apply | Load):
            own = ops.cost(node.op) if isinstance(node, Apply) else 0
            cost[node] = own + sum(cost.get(each, 0) for each in operands(node))
    used: list[Node] = [fold.value for fold in loop.folds]
    for statement in statements(loop.body):
        if isinstance(statement, Write):
            used.extend((statement.store.value, *statement.store.index))
        elif isinstance(statement, Compute):
            used.extend(x for n in statement.nodes if n not in cost for x in operands(n))
    return {n for n in used if cost.get(n, 0) >= DEAR and n.dtype not in _LEFT}


def _nodes(loop: Loop) -> Iterator[Node]:
    for statement in loop.body:
        if isinstance(statement, Compute):
            yield from statement.nodes


def _before(loop: Loop, wanted: set[Node]) -> Loop:
    """A loop along the same axis that computes and keeps what is wanted."""
    nodes = [node for node in _nodes(loop) if _is_of(node, loop.axis)]
    body = tuple(parted(nodes, wanted, set()))
    return Loop(loop.axis, body, kind=loop.kind)


def _is_of(node: Node, axis: Axis) -> bool:
    return node.axes <= {axis}


def _taking(loop: Loop, taken: dict[Loop, set[Node]]) -> Loop:
    body: list[Statement] = []
    for each in loop.body:
        if isinstance(each, Loop):
            body.append(_taking(each, taken))
        elif isinstance(each, Compute) and loop in taken:
            body.extend(parted(each.nodes, set(), taken[loop]))
        else:
            body.append(each)
    return replace(loop, body=tuple(body))
