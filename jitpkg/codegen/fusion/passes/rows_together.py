"""Rows that are only added up, and lie in main memory, are read four at a time.

The processor then waits for four places of memory at once, as eager code lets it. Sums of the rows
of a 4096 x 4096 matrix of float32 took 3.3 ms one by one, and 2.9 so, which is eager code's time
(AMD, Zen 4). Where more is computed, or written, one by one was faster: maxima took 2.5 ms, and 3.6
by fours; norms 5.3 and 8.8. So it was where numbers are converted, and where rows are shorter than
a page, in which a processor foresees one way through memory: bfloat16 went at 24 to 30 GB/s one by
one, and at 10 to 19 by fours.
"""

from __future__ import annotations

from dataclasses import replace

from jitpkg.codegen.fusion.kernel import Compute, Kernel, Lanes, Loop, Schedule, Serial
from jitpkg.codegen.fusion.loops import nested
from jitpkg.codegen.fusion.statements import span
from jitpkg.codegen.ir.builder import INDEX, Builder
from jitpkg.codegen.ir.extents import varies
from jitpkg.codegen.ir.nodes import Apply, Axis, Buffer, Load, Node, Scan, Store, written

TOGETHER = 4
"""Rows; each has a register where one row would have this many side by side."""

PAGE = 4096
"""Bytes of the shortest rows."""

MOST = 2
"""Ops of a row's element, besides adding up; what computes more does not wait for memory."""


def rows_together(schedule: Schedule, cache: int, register: int) -> Schedule:
    """The schedule with such rows together, where all that it does is a loop over rows.

    Args:
        cache: bytes that are held by the last cache.
        register: lanes of one register, which a row has then.
    """
    rows = _rows(schedule, TOGETHER * register)
    if rows is None or _bytes(schedule.kernel) <= cache:
        return schedule
    made = nested(_unrolled(schedule.kernel, rows.axis))
    (loop,) = made.body
    assert isinstance(loop, Loop)
    one = Lanes(register)
    body = (replace(each, kind=one) if isinstance(each, Loop) else each for each in loop.body)
    return replace(made, body=(replace(loop, body=tuple(body)),))


def _rows(schedule: Schedule, lanes: int) -> Loop | None:
    """The loop over rows, if each is one loop in so many lanes that adds up."""
    match schedule.body:
        case (Loop(kind=Serial(), folds=(), scans=()) as rows,):
            pass
        case _:
            return None
    if varies(rows.extent) or rows.extent == 0 or rows.extent % TOGETHER:
        return None
    inner = [each for each in rows.body if isinstance(each, Loop)]
    if len(inner) != 1 or inner[0].kind != Lanes(lanes) or not _adds_up(inner[0]):
        return None
    if not _is_long(inner[0]):
        return None
    stores = schedule.kernel.stores
    if any(store.combine is not None or rows.axis not in _axes(store) for store in stores):
        return None
    return rows


def _adds_up(loop: Loop) -> bool:
    if not loop.folds or any(fold.op != "sum" for fold in loop.folds):
        return False
    work = 0
    for each in loop.body:
        if not isinstance(each, Compute) or any(isinstance(node, Scan) for node in each.nodes):
            return False
        work += sum(isinstance(node, Apply) for node in each.nodes)
    return work <= MOST


def _is_long(loop: Loop) -> bool:
    """Whether all rows are, and are read as what is added up."""
    if varies(loop.extent):
        return False
    added = {fold.dtype for fold in loop.folds}
    nodes = (node for each in loop.body if isinstance(each, Compute) for node in each.nodes)
    read = {node.dtype for node in nodes if isinstance(node, Load) and loop.axis in node.axes}
    return read <= added and all(loop.extent * dtype.itemsize >= PAGE for dtype in added)


def _axes(store: Store) -> frozenset[Node]:
    return frozenset(axis for at in store.index for axis in at.axes)


def _bytes(kernel: Kernel) -> int:
    """Of all that is read and written, where that is known."""
    buffers: list[Buffer] = [*kernel.inputs, *kernel.outputs]
    sizes = [(span(buffer), buffer.dtype.itemsize) for buffer in buffers]
    return sum(size * width for size, width in sizes if not varies(size))


def _unrolled(kernel: Kernel, rows: Axis) -> Kernel:
    """The kernel with an axis of fours of rows, and each store once for each of the four."""
    builder = Builder()
    fours = builder.axis(rows.extent // TOGETHER)
    first = builder.apply("mul", fours, builder.const(TOGETHER, INDEX))
    stores = []
    for number in range(TOGETHER):
        at = builder.apply("add", first, builder.const(number, INDEX))
        new = iter(builder.substituted(written(kernel.stores), {rows: at}))
        for store in kernel.stores:
            index = tuple(next(new) for _ in store.index)
            stores.append(Store(store.buffer, index, next(new)))
    axes = tuple(fours if axis is rows else axis for axis in kernel.axes)
    return replace(kernel, axes=axes, stores=tuple(stores))
