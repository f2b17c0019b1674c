"""Loads across the lanes: square blocks are transposed in registers, into memory of our own.

Where the lanes of a load are far from each other in memory, and its neighbours belong to the next
iterations of the loop outside, a gather would take a cache line for each element. So the rows of
some iterations are read and turned first: as many as fill a cache line.
"""

from __future__ import annotations

from jitpkg.codegen.cpu.arithmetic import constants, memory, suffix, vector
from jitpkg.codegen.cpu.frame import Frame, Turned
from jitpkg.codegen.cpu.memory import LINE, place
from jitpkg.codegen.cpu.plan import WIDEST, offset, statements
from jitpkg.codegen.fusion.kernel import Compute, Loop
from jitpkg.codegen.ir.extents import same, varies
from jitpkg.codegen.ir.nodes import Load


def turned_loads(frame: Frame, loop: Loop) -> list[Turned]:
    """Those for which the rows of some iterations of `loop` are worth turning."""
    plan = frame.plan
    if frame.axis is not None or varies(plan.extent(loop)) or plan.extent(loop) < 4:
        return []
    wanted: dict[Load, Loop] = {}
    for lanes in statements(loop.body):
        if not isinstance(lanes, Loop) or lanes not in plan.lanes:
            continue
        for statement in statements(lanes.body):
            if isinstance(statement, Compute):
                for node in statement.nodes:
                    if not isinstance(node, Load) or node not in plan.needed or node in wanted:
                        continue
                    if _is_across(frame, loop, lanes, node):
                        wanted[node] = lanes
    # All of them fill a cache line at least.
    high = max((LINE // load.dtype.itemsize for load in wanted), default=0)
    found = [_turned(frame, loop, lanes, load, high) for load, lanes in wanted.items()]
    return [each for each in found if each is not None]


def _is_across(frame: Frame, loop: Loop, lanes: Loop, load: Load) -> bool:
    """Whether the next iteration of `loop` reads the next element, and the next lane a far one."""
    if load in frame.turned or load.mask is not None or any(same(n, 0) for n in load.buffer.sizes):
        return False
    whole = offset(load.buffer, load.index)
    if any(map(varies, (frame.plan.extent(lanes), *(factor for _, factor in whole.terms)))):
        return False
    if whole.factor(loop.axis) != 1 or whole.factor(lanes.axis) in (-1, 0, 1):
        return False
    # Nothing else in the address may be found out by inner loops.
    others = [atom for atom, _ in whole.terms if atom not in (loop.axis, lanes.axis)]
    known = all(
        atom in frame.still or atom in frame.positions or atom in frame.values for atom in others
    )
    return known and frame.plan.extent(lanes) >= 8


def _turned(frame: Frame, loop: Loop, lanes: Loop, load: Load, high: int) -> Turned | None:
    size, extent = load.dtype.itemsize, frame.plan.extent(lanes)
    row = -(-extent // WIDEST) * WIDEST + LINE // size  # so that they are in different cache sets
    if high * row * size > frame.room:
        return None
    frame.room -= high * row * size
    name = f"%turned.{frame.w.fresh()}"
    frame.levels[0].before.append(
        f"  {name} = alloca [{high * row} x {memory(load.dtype)}], align 64"
    )
    iterations = frame.plan.extent(loop)
    made = Turned(load, loop.axis, lanes.axis, high, row, name, iterations, extent)
    frame.turned[load] = made
    return made


def fill(frame: Frame, turned: Turned, start: str) -> None:
    """Turn the rows of the iterations from `start` on."""
    w, load = frame.w, turned.load
    turned.start = start
    size = load.dtype.itemsize
    side = min(16, frame.host.bits // 8 // size)
    element, kind = memory(load.dtype), vector(memory(load.dtype), side)
    step = offset(load.buffer, load.index).factor(turned.lanes)
    still = frame.still
    frame.still = still | {turned.lanes}
    frame.positions[turned.outer] = (start, frame.depth)
    base = place(frame, load.buffer, load.index).base
    frame.still = still
    extent = turned.across
    uneven = turned.iterations % turned.high
    left = w.op(f"sub i64 {turned.iterations}, {start}") if uneven else ""
    masks = [
        _first(frame, left, first, side) if left else None for first in range(0, turned.high, side)
    ]

    def block(at: str, count: int) -> None:
        """Elements of `count` lanes, from `at` on."""
        far = w.op(f"mul i64 {at}, {step}")
        corner = w.op(f"getelementptr {element}, ptr {base}, i64 {far}")
        for part, mask in enumerate(masks):
            lines = []
            for lane in range(count):
                shift = lane * step + part * side
                pointer = w.op(f"getelementptr {element}, ptr {corner}, i64 {shift}")
                lines.append(_line(frame, pointer, element, size, side, mask))
            lines += ["zeroinitializer"] * (side - count)
            for k, line in enumerate(_transposed(frame, lines, kind, side)):
                to = (part * side + k) * turned.row
                pointer = w.op(f"getelementptr {element}, ptr {turned.rows}, i64 {to}")
                pointer = w.op(f"getelementptr {element}, ptr {pointer}, i64 {at}")
                w.do(f"store {kind} {line}, ptr {pointer}, align {size}")

    def all_lanes(at: str, _: list[str]) -> list[str]:
        block(at, side)
        return []

    full = extent // side * side
    if full:
        frame.counted("0", str(full), side, [], all_lanes, surely=True)
    if extent % side:
        block(str(full), extent % side)


def _first(frame: Frame, left: str, first: int, side: int) -> str:
    """A mask of `side` elements: those of iterations that there are."""
    kind = f"<{side} x i64>"
    one = frame.w.op(f"insertelement {kind} poison, i64 {left}, i32 0")
    all_ = frame.w.op(f"shufflevector {kind} {one}, {kind} poison, <{side} x i32> zeroinitializer")
    return frame.w.op(f"icmp slt {kind} {constants('i64', range(first, first + side))}, {all_}")


def _line(frame: Frame, pointer: str, element: str, size: int, side: int, mask: str | None) -> str:
    kind, ones = vector(element, side), vector("i1", side)
    if mask is None:
        return frame.w.op(f"load {kind}, ptr {pointer}, align {size}")
    name = f"@llvm.masked.load.{suffix(element, side)}.p0"
    frame.w.declare(f"declare {kind} {name}(ptr, i32, {ones}, {kind})")
    return frame.w.op(
        f"call {kind} {name}(ptr {pointer}, i32 {size}, {ones} {mask}, {kind} zeroinitializer)"
    )


def _transposed(frame: Frame, lines: list[str], kind: str, side: int) -> list[str]:
    """By exchanging ever larger squares."""
    far = 1
    while far < side:
        low = [k if not k & far else side + (k ^ far) for k in range(side)]
        high = [(k | far) if not k & far else side + k for k in range(side)]
        masks = [f"<{side} x i32> {constants('i32', order)}" for order in (low, high)]
        new = list(lines)
        for k in range(side):
            if not k & far:
                both = f"{kind} {lines[k]}, {kind} {lines[k | far]}"
                new[k] = frame.w.op(f"shufflevector {both}, {masks[0]}")
                new[k | far] = frame.w.op(f"shufflevector {both}, {masks[1]}")
        lines = new
        far *= 2
    return lines
