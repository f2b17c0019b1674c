"""How a schedule's loops run: which of them in lanes, how many, and which two are one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from jitpkg.codegen.cpu import math
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.fusion.kernel import Compute, Loop, Schedule, Statement, Write
from jitpkg.codegen.fusion.statements import needed, offset, statements, typical
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.ir.nodes import (
    Apply,
    Axis,
    Load,
    Node,
    Scan,
    Store,
    operands,
)

TYPICAL_LANES = 16
"""For choosing what runs in lanes."""

SOME, MANY, MOST = 1 << 14, 1 << 17, 1 << 22
"""Elements from which on two, four, or eight registers side by side are worth compiling, where much
is computed: LLVM takes 35 microseconds for an instruction, and waiting up to 0.3 nanoseconds of an
op's time for an element."""

WIDEST = 128
"""Lanes; more make the code long and no faster."""


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """A schedule's statements, and what has been decided on its loops."""

    body: tuple[Statement, ...]
    needed: frozenset[Node]
    """Nodes that are wanted as values. The others are parts of addresses."""
    lanes: dict[Loop, int] = field(default_factory=dict)
    """The loops whose iterations run side by side, and how many do."""
    extents: dict[Loop, int] = field(default_factory=dict)
    """Of loops that are two in one."""
    still: dict[Loop, frozenset[Axis]] = field(default_factory=dict)
    """Axes that stay at 0 in a loop, which runs along them too."""
    kept: dict[Loop, set[Node]] = field(default_factory=dict)
    """What a loop computes for a later loop along the same axis too."""
    taken: dict[Loop, set[Node]] = field(default_factory=dict)
    """What a loop finds in memory because an earlier one has kept it."""

    def extent(self, loop: Loop) -> int:
        return self.extents.get(loop, loop.axis.extent)


def plan(schedule: Schedule, host: Host) -> Plan:
    made = Plan((), needed(schedule.body))
    body = tuple(_merged(statement, made) for statement in schedule.body)
    made = Plan(body, made.needed, extents=made.extents, still=made.still)
    for statement in body:
        if isinstance(statement, Loop):
            _choose(statement, 1.0, made, host)
    _keep(body, made)
    return made


def accesses(body: Sequence[Statement], wanted: frozenset[Node]) -> Iterator[Load | Store]:
    for statement in statements(body):
        if isinstance(statement, Compute):
            for node in statement.nodes:
                if isinstance(node, Load) and node in wanted:
                    yield node
        elif isinstance(statement, Write):
            yield statement.store


def scans(loop: Loop, wanted: frozenset[Node]) -> list[Scan]:
    """Those that a loop carries, in the order in which they become known."""
    return [
        node
        for statement in statements(loop.body)
        if isinstance(statement, Compute)
        for node in statement.nodes
        if isinstance(node, Scan) and node.along is loop.axis and node in wanted
    ]


# Two loops as one


def _merged(statement: Statement, plan: Plan) -> Statement:
    """Loops over dims that lie in memory as one dim become one."""
    if not isinstance(statement, Loop):
        return statement
    body = tuple(_merged(each, plan) for each in statement.body)
    loop = Loop(statement.axis, body, statement.folds, statement.scans)
    inside = [
        each
        for each in body
        if not isinstance(each, Compute) or any(node in plan.needed for node in each.nodes)
    ]
    if len(inside) != 1 or not isinstance(inside[0], Loop):
        return loop
    inner = inside[0]
    if not _is_one_dim(loop, inner, plan):
        return loop
    both = Loop(inner.axis, inner.body, inner.folds, inner.scans)
    plan.extents[both] = loop.axis.extent * plan.extent(inner)
    plan.still[both] = plan.still.get(inner, frozenset()) | {loop.axis}
    return both


def _is_one_dim(outer: Loop, inner: Loop, plan: Plan) -> bool:
    if outer.axis in plan.needed or inner.axis in plan.needed:
        return False
    if set(outer.folds) != set(inner.folds):
        return False
    if scans(outer, plan.needed) or scans(inner, plan.needed):
        return False
    size = plan.extent(inner)
    for access in accesses(inner.body, plan.needed):
        whole = offset(access.buffer, access.index)
        if not same(whole.factor(outer.axis), whole.factor(inner.axis) * size):
            return False
    return True


# What is computed once for several loops

DEAR = 12
"""What is worth a store and a load, in units of `ops.cost`."""

LONGEST = 1 << 18
"""Bytes of all rows of values; they lie on the stack, and should stay in the second cache."""


def _keep(body: Sequence[Statement], plan: Plan) -> None:
    """Find what loops along the same axis, one behind the other, compute more than once."""
    for statement in body:
        if isinstance(statement, Loop) and statement not in plan.lanes:
            _keep(statement.body, plan)
    loops = [each for each in body if isinstance(each, Loop) and each in plan.lanes]
    for k, later in enumerate(loops):
        for earlier in loops[:k]:
            alike = earlier.axis is later.axis and plan.lanes[earlier] == plan.lanes[later]
            if alike and same(plan.extent(earlier), plan.extent(later)):
                _keep_for(earlier, later, plan)


def _keep_for(earlier: Loop, later: Loop, plan: Plan) -> None:
    before = dict.fromkeys(_computed(earlier, plan))
    both = {node: 0.0 for node in _computed(later, plan) if node in before}
    roots: list[Node] = [fold.value for fold in later.folds]
    for statement in statements(later.body):
        if isinstance(statement, Write):
            roots.extend((statement.store.value, *statement.store.index))
        elif isinstance(statement, Compute):
            for node in statement.nodes:
                if node in both:
                    own = ops.cost(node.op) if isinstance(node, Apply) else 0
                    both[node] = own + sum(both.get(each, 0) for each in operands(node))
                else:
                    roots.extend(operands(node))
    taken = plan.taken.setdefault(later, set())
    rows = set().union(*plan.kept.values())
    width = sum(each.dtype.itemsize for each in rows)
    for node in dict.fromkeys(roots):
        if node in taken or both.get(node, 0) < DEAR or node.dtype is torch.bool:
            continue
        more = 0 if node in rows else node.dtype.itemsize
        if plan.extent(later) * (width + more) <= LONGEST:
            taken.add(node)
            plan.kept.setdefault(earlier, set()).add(node)
            rows.add(node)
            width += more


def _computed(loop: Loop, plan: Plan) -> Iterator[Node]:
    for statement in loop.body:
        if isinstance(statement, Compute):
            for node in statement.nodes:
                if isinstance(node, Apply | Load) and node in plan.needed:
                    yield node


# What runs in lanes


def _choose(loop: Loop, runs: float, plan: Plan, host: Host) -> float:
    """Decide for a loop and all in it. Returns about how long it takes, in scalar instructions."""
    extent = typical(plan.extent(loop))
    inner = [each for each in loop.body if isinstance(each, Loop)]
    before = dict(plan.lanes)
    apart = runs * extent * (1 + _scalar_cost(loop.body, plan))
    apart += sum(_choose(each, runs * extent, plan, host) for each in inner)
    together = _cost_in_lanes(loop, loop.body, runs, plan, extent) + runs * 6 * len(loop.folds)
    if extent > 1 and (together <= apart if inner else True):
        plan.lanes.clear()
        plan.lanes.update(before)
        plan.lanes[loop] = _width(loop, extent, runs, plan, host)
        return together
    return apart


def _scalar_cost(body: Sequence[Statement], plan: Plan) -> float:
    total = 0.0
    for statement in body:
        if isinstance(statement, Compute):
            total += sum(_node_cost(node) for node in statement.nodes if node in plan.needed)
        elif isinstance(statement, Write):
            total += 1
    return total


def _node_cost(node: Node) -> float:
    return ops.cost(node.op) if isinstance(node, Apply) else 1


def _cost_in_lanes(
    lanes: Loop, body: Sequence[Statement], runs: float, plan: Plan, extent: int
) -> float:
    """Of a part of a loop that runs in lanes; `runs` counts iterations of all loops outside."""
    steps = -(-extent // TYPICAL_LANES)
    total = 0.0
    for statement in body:
        match statement:
            case Loop():
                inner = runs * typical(plan.extent(statement))
                total += inner * steps
                total += _cost_in_lanes(lanes, statement.body, inner, plan, extent)
            case Compute(nodes=nodes):
                for node in nodes:
                    if node in plan.needed:
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


def _width(loop: Loop, extent: int, runs: float, plan: Plan, host: Host) -> int:
    """How many lanes: some registers full, so that one can be worked on while others wait."""
    widest, work, apart, calls = 1, 0, False, False
    for statement in statements(loop.body):
        match statement:
            case Compute(nodes=nodes):
                for node in nodes:
                    if node not in plan.needed:
                        continue
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
    elements = runs * extent * _inner(loop, plan)
    if host.side_by_side is not None:
        many = host.side_by_side
    elif apart or (calls and work > 24):
        many = 1
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


def _inner(loop: Loop, plan: Plan) -> int:
    """How many iterations the loops inside of one have, at most."""
    inner = [each for each in loop.body if isinstance(each, Loop)]
    return max((typical(plan.extent(each)) * _inner(each, plan) for each in inner), default=1)


def _lane_bytes(node: Node) -> int:
    """The size of what is computed; bfloat16 and float16 are computed in float32. Positions and
    indices do not count: there are few."""
    if node.dtype in ops.NARROW:
        return 4
    return 1 if node.dtype is torch.int64 else node.dtype.itemsize


SHORTEST = 64
"""Rows from which on columns are worth blocks."""


def bytes_of_columns(loop: Loop, plan: Plan) -> int | None:
    """What a loop in lanes needs that runs over columns: all that is inside of it are long loops.

    None where it is another kind of loop.
    """
    inner = [each for each in loop.body if isinstance(each, Loop)]
    extent = plan.extent(loop)
    if not inner or typical(extent) < 4 * plan.lanes[loop]:
        return None
    if any(typical(plan.extent(each)) < SHORTEST for each in inner):
        return None
    states: list[Node] = [fold for each in inner for fold in each.folds]
    states += [node for each in inner for node in scans(each, plan.needed)]
    if any(node.dtype is torch.bool for node in states):
        return None
    return sum(16 * extent for _ in states)
