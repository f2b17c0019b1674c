"""Loads across the lanes: square blocks are transposed in registers, into memory of our own.

Where the lanes of a load are far from each other in memory, and its neighbours belong to the next
iterations of the loop outside, a gather would take a cache line for each element. So the rows of
some iterations are read and turned first: as many as fill a cache line.
"""

from __future__ import annotations

from jitpkg.codegen.cpu.arithmetic import constants, memory, suffix, vector
from jitpkg.codegen.cpu.frame import Frame, Turned
from jitpkg.codegen.cpu.lanes import WIDEST
from jitpkg.codegen.cpu.memory import LINE, place
from jitpkg.codegen.fusion.kernel import Compute, Lanes, Loop
from jitpkg.codegen.fusion.statements import loops, offset, statements, typical
from jitpkg.codegen.ir.extents import at_least, same, varies
from jitpkg.codegen.ir.nodes import Load


def loads_across(frame: Frame, loop: Loop) -> dict[Load, Loop]:
    """Those for which the rows of some iterations of `loop` are worth turning, and the loop in
    lanes that each stands in."""
    wanted: dict[Load, Loop] = {}
    if frame.axis is not None or typical(loop.extent) < 4:
        return wanted
    for lanes in loops(loop.body):
        if not isinstance(lanes.kind, Lanes):
            continue
        for statement in statements(lanes.body):
            if isinstance(statement, Compute):
                for node in statement.nodes:
                    if not isinstance(node, Load) or node in wanted:
                        continue
                    if _is_across(frame, loop, lanes, node):
                        wanted[node] = lanes
    return wanted


def turned_loads(frame: Frame, loop: Loop) -> list[Turned]:
    """Memory for whole rows of each of these loads, as far as there is room."""
    wanted = loads_across(frame, loop)
    # All of them fill a cache line at least.
    high = max((LINE // load.dtype.itemsize for load in wanted), default=0)
    found = [_turned(frame, loop, lanes, load, high) for load, lanes in wanted.items()]
    return [each for each in found if each is not None]


def _is_across(frame: Frame, loop: Loop, lanes: Loop, load: Load) -> bool:
    """Whether the next iteration of `loop` reads the next element, and the next lane a far one."""
    if load in frame.turned or load.mask is not None or any(same(n, 0) for n in load.buffer.sizes):
        return False
    whole = offset(load.buffer, load.index)
    far = whole.factor(lanes.axis)
    if not same(whole.factor(loop.axis), 1) or any(same(far, near) for near in (-1, 0, 1)):
        return False
    # Nothing else in the address may be found out by inner loops.
    others = [atom for atom, _ in whole.terms if atom not in (loop.axis, lanes.axis)]
    known = all(atom in frame.positions or atom in frame.values for atom in others)
    return known and typical(lanes.extent) >= 8 and at_least(lanes.extent, 1)


def _turned(frame: Frame, loop: Loop, lanes: Loop, load: Load, high: int) -> Turned | None:
    size, extent = load.dtype.itemsize, lanes.extent
    row = _row(frame, extent, LINE // size)
    longest = extent + WIDEST + LINE // size if varies(extent) else int(row)
    most = high * longest * size
    if most > frame.room:
        return None
    frame.room -= most
    name = frame.room_for(_multiple(frame, row, high), memory(load.dtype))
    made = Turned(load, loop.axis, lanes.axis, high, row, name, loop.extent, extent)
    frame.turned[load] = made
    return made


def _row(frame: Frame, extent: int, more: int) -> str:
    """How long a row is: such that rows are in different cache sets."""
    whole = frame.rounded(extent, WIDEST, up=True)
    if not whole.startswith("%"):
        return str(int(whole) + more)
    return frame.at_first(("row", whole, more), f"add i64 {whole}, {more}")


def _multiple(frame: Frame, number: str, by: int) -> str:
    """A multiple of a number that is known before all else."""
    if not number.startswith("%"):
        return str(int(number) * by)
    return frame.at_first(("multiple", number, by), f"mul i64 {number}, {by}")


def fill(frame: Frame, turned: Turned, start: str) -> None:
    """Turn the rows of the iterations from `start` on."""
    w, load = frame.w, turned.load
    turned.start = start
    size = load.dtype.itemsize
    side = min(16, frame.host.bits // 8 // size)
    element, kind = memory(load.dtype), vector(memory(load.dtype), side)
    step = frame.number(offset(load.buffer, load.index).factor(turned.lanes))
    frame.positions[turned.outer] = (start, frame.depth)
    base = place(frame, load.buffer, load.index, at_start=turned.lanes).base
    extent = turned.across
    uneven = not same(turned.iterations % turned.high, 0)
    left = w.op(f"sub i64 {frame.number(turned.iterations)}, {start}") if uneven else ""
    masks = [
        _first(frame, left, first, side) if left else None for first in range(0, turned.high, side)
    ]

    def block(at: str, count: int, last: str = "") -> None:
        """Elements of `count` lanes, from `at` on; those behind the last one are taken from it."""
        far = w.op(f"mul i64 {at}, {step}")
        corner = w.op(f"getelementptr {element}, ptr {base}, i64 {far}")
        for part, mask in enumerate(masks):
            lines = []
            for lane in range(count):
                pointer = corner
                if last:
                    inside = w.op(f"icmp sle i64 {lane}, {last}")
                    there = w.op(f"select i1 {inside}, i64 {lane}, i64 {last}")
                    there = w.op(f"mul i64 {there}, {step}")
                else:
                    there = _multiple(frame, step, lane)
                if there != "0":
                    pointer = w.op(f"getelementptr {element}, ptr {corner}, i64 {there}")
                if part:
                    pointer = w.op(f"getelementptr {element}, ptr {pointer}, i64 {part * side}")
                lines.append(_line(frame, pointer, element, size, side, mask))
            lines += ["zeroinitializer"] * (side - count)
            for k, line in enumerate(transposed(frame, lines, kind, side)):
                to = _multiple(frame, turned.row, part * side + k)
                pointer = w.op(f"getelementptr {element}, ptr {turned.rows}, i64 {to}")
                pointer = w.op(f"getelementptr {element}, ptr {pointer}, i64 {at}")
                w.do(f"store {kind} {line}, ptr {pointer}, align {size}")

    def all_lanes(at: str, _: list[str]) -> list[str]:
        block(at, side)
        return []

    full = frame.rounded(extent, side, up=False)
    if full != "0":
        frame.counted("0", full, side, [], all_lanes, surely=at_least(extent, side))
    if varies(extent) and not same(extent % side, 0):
        last = w.op(f"sub i64 {frame.number(extent - 1)}, {full}")
        block(full, side, last)
    elif not same(extent % side, 0):
        block(full, extent % side)


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


def transposed(frame: Frame, lines: list[str], kind: str, side: int) -> list[str]:
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
