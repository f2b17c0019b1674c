"""Which loops run in lanes, and how many iterations side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from jitpkg.codegen.cpu import math
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.fusion.kernel import Compute, Lanes, Loop, Schedule, Statement, Write
from jitpkg.codegen.fusion.statements import offset, statements, typical
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.ir.nodes import Apply, Axis, Load, Node, Scan, Store

TYPICAL_LANES = 16
"""For choosing what runs in lanes."""

SOME, MANY, MOST = 1 << 14, 1 << 17, 1 << 22
"""Elements from which on two, four, or eight registers side by side are worth compiling, where much
is computed: LLVM takes 35 microseconds for an instruction, and waiting up to 0.3 nanoseconds of an
op's time for an element."""

WIDEST = 128
"""Lanes; more make the code long and no faster."""


def vectorise(schedule: Schedule, host: Host) -> Schedule:
    """The schedule with one loop of each nest in lanes, at most: where that is about cheapest."""
    body = tuple(
        _chosen(each, 1.0, host)[1] if isinstance(each, Loop) else each for each in schedule.body
    )
    return replace(schedule, body=body)


def _chosen(loop: Loop, runs: float, host: Host) -> tuple[float, Loop]:
    """How long a loop and all in it take, in about so many scalar instructions; and the loop, with
    what has been decided."""
    extent = typical(loop.extent)
    inner = {x: _chosen(x, runs * extent, host) for x in loop.body if isinstance(x, Loop)}
    apart = runs * extent * (1 + _scalar_cost(loop.body))
    apart += sum(cost for cost, _ in inner.values())
    together = _cost_in_lanes(loop, loop.body, runs, extent) + runs * 6 * len(loop.folds)
    if extent > 1 and (together <= apart or not inner):
        return together, replace(loop, kind=Lanes(_width(loop, extent, runs, host)))
    body = tuple(inner[x][1] if isinstance(x, Loop) else x for x in loop.body)
    return apart, replace(loop, body=body)


def _scalar_cost(body: Sequence[Statement]) -> float:
    total = 0.0
    for statement in body:
        if isinstance(statement, Compute):
            total += sum(map(_node_cost, statement.nodes))
        elif isinstance(statement, Write):
            total += 1
    return total


def _node_cost(node: Node) -> float:
    return ops.cost(node.op) if isinstance(node, Apply) else 1


def _cost_in_lanes(lanes: Loop, body: Sequence[Statement], runs: float, extent: int) -> float:
    """Of a part of a loop that runs in lanes; `runs` counts iterations of all loops outside."""
    steps = -(-extent // TYPICAL_LANES)
    total = 0.0
    for statement in body:
        match statement:
            case Loop():
                inner = runs * typical(statement.extent)
                total += inner * steps
                total += _cost_in_lanes(lanes, statement.body, inner, extent)
            case Compute(nodes=nodes):
                for node in nodes:
                    each = extent if _is_scattered(node, lanes.axis) else steps
                    total += runs * each * _node_cost(node)
            case Write(store=store):
                each = extent if _is_scattered(store, lanes.axis) else steps
                total += runs * each
    return total


def _is_scattered(node: Node | Store, axis: Axis) -> bool:
    """Whether neighbouring lanes touch elements that are no neighbours."""
    if isinstance(node, Scan):
        return node.along is axis
    if not isinstance(node, Load | Store):
        return False
    whole = offset(node.buffer, node.index)
    inside = any(axis in atom.axes and atom is not axis for atom, _ in whole.terms)
    factor = whole.factor(axis)
    if isinstance(node, Store) and node.combine is not None:
        return inside or not same(factor, 1)
    return inside or not (same(factor, 0) or same(factor, 1))


def _width(loop: Loop, extent: int, runs: float, host: Host) -> int:
    """How many lanes: some registers full, so that one can be worked on while others wait."""
    widest, work, apart, calls = 1, 0, False, False
    for statement in statements(loop.body):
        match statement:
            case Compute(nodes=nodes):
                for node in nodes:
                    work += 1 if isinstance(node, Apply) else 0
                    if isinstance(node, Apply) and node.op in math.FUNCTIONS:
                        work += 12
                        calls = calls or not math.is_own(node.op, node.dtype)
                    apart = apart or _is_scattered(node, loop.axis)
                    widest = max(widest, _lane_bytes(node))
            case Write(store=store):
                widest = max(widest, store.buffer.dtype.itemsize)
                apart = apart or _is_scattered(store, loop.axis)
            case Loop(folds=folds):
                widest = max([widest, *(_lane_bytes(fold) for fold in folds)])
    one = host.bits // (8 * widest)
    elements = runs * extent * _inner(loop)
    if host.side_by_side is not None:
        many = host.side_by_side
    elif apart:
        many = 1
    elif calls and work > 24:
        many = 4
    elif work > 24 and elements >= MOST and all(not isinstance(s, Loop) for s in loop.body):
        many = 8
    elif work <= 8 or elements >= MANY:
        many = 4
    else:
        many = 2 if work <= 24 or elements >= SOME else 1
    lanes = max(2, min(one * many, WIDEST))
    while lanes // 2 >= max(extent, 2):
        lanes //= 2
    while work > 8 and lanes > max(one, 2) and -(-extent // lanes) * lanes > 1.125 * extent:
        lanes //= 2  # the last ones would stand idle
    return lanes


def _inner(loop: Loop) -> int:
    """How many iterations the loops inside of one have, at most."""
    inner = [each for each in loop.body if isinstance(each, Loop)]
    return max((typical(each.extent) * _inner(each) for each in inner), default=1)


def _lane_bytes(node: Node) -> int:
    """The size of what is computed; bfloat16 and float16 are computed in float32. Positions and
    indices do not count: there are few."""
    if node.dtype in ops.NARROW:
        return 4
    return 1 if node.dtype is torch.int64 else node.dtype.itemsize
