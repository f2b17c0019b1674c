"""Which outermost loops threads share.

Where the only one carries nothing, each thread has a part of it. Others are cut into chunks, as
many as the sizes alone say, so results do not depend on the threads.
"""

from __future__ import annotations

from dataclasses import replace

from jitpkg.codegen.fusion.kernel import Chunks, Compute, Loop, Parts, Schedule, Statement, Write
from jitpkg.codegen.fusion.passes.hoist_rows import keeps_only
from jitpkg.codegen.fusion.statements import loops, offset, scans, statements
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import same, varies
from jitpkg.codegen.ir.nodes import Axis, Extent, Store

MOST = 64
"""Chunks of a loop: enough for as many threads, few enough to be folded by one of them."""


def share_parts(schedule: Schedule) -> Schedule:
    """The schedule with the only outermost loop in parts, if it carries nothing and each iteration
    writes elements of its own. Each thread does what comes before it."""
    loop = _only(schedule)
    if loop is None:
        return schedule
    shared = Loop(loop.axis, (loop,), kind=Parts(loop.step, loop.step * _inside(loop)))
    body = tuple(shared if each is loop else each for each in schedule.body)
    return replace(schedule, body=body)


def share_chunks(schedule: Schedule, grain: int) -> Schedule:
    """The schedule with the outermost loops in chunks, where there are several or they fold.

    Args:
        grain: elements that are worth a thread.
    """
    if _only(schedule) is not None:
        return schedule
    if any(store.combine is not None for store in schedule.kernel.stores):
        return schedule
    outer = [each for each in schedule.body if isinstance(each, Loop)]
    if not all(_is_apart(write.store, loop) for loop in outer for write in _writes(loop)):
        return schedule
    if not any(loop.folds for loop in outer) or not all(map(_can_be_cut, outer)):
        return schedule
    cut = {loop: _chunks(loop, grain) for loop in outer}
    if all(chunks.count >= loop.extent for loop, chunks in cut.items()):
        return schedule
    body: list[Statement] = []
    for each in schedule.body:
        if isinstance(each, Loop):
            each = Loop(each.axis, (each,), each.folds, kind=cut[each])
        body.append(each)
    return replace(schedule, body=tuple(body))


def _only(schedule: Schedule) -> Loop | None:
    outer = [
        each
        for each in schedule.body
        if not (isinstance(each, Compute) or (isinstance(each, Loop) and keeps_only(each)))
    ]
    if len(outer) != 1 or not isinstance(outer[0], Loop):
        return None
    loop = outer[0]
    if loop.folds or scans(loop):
        return None
    stores = schedule.kernel.stores
    if any(s.combine is not None or not _is_apart(s, loop) for s in stores):
        return None
    return loop


def _chunks(loop: Loop, grain: int) -> Chunks:
    steps = loop.iterations
    elements = loop.extent * max(1, _inside(loop))
    wanted = max(1, min(MOST, steps, elements // grain))
    return Chunks(-(-steps // wanted) * loop.step)


def _inside(loop: Loop) -> Extent:
    """How often the innermost statements run in one iteration; it may vary."""
    inner = [each for each in loop.body if isinstance(each, Loop)]
    total = sum(each.extent * _inside(each) for each in inner)
    return total if inner else 1


def _can_be_cut(loop: Loop) -> bool:
    inside = [loop, *loops(loop.body)]
    return (
        not any(varies(each.extent) for each in inside)
        and loop.extent > 0
        and not any(map(scans, inside))
        and all(ops.REDUCTIONS[fold.op].combine is not None for fold in loop.folds)
    )


def _writes(loop: Loop) -> list[Write]:
    return [each for each in statements(loop.body) if isinstance(each, Write)]


def _is_apart(store: Store, loop: Loop) -> bool:
    """Whether different iterations write different elements."""
    whole = offset(store.buffer, store.index)
    affine = all(isinstance(atom, Axis) for atom, _ in whole.terms)
    return affine and not same(whole.factor(loop.axis), 0)
