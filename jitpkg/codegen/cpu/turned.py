"""Rows that are read before the loops that need them: squares of them are turned in registers."""

from __future__ import annotations

from jitpkg.codegen.cpu.arithmetic import constants, memory, vector
from jitpkg.codegen.cpu.frame import Frame, Turned
from jitpkg.codegen.cpu.memory import place, row
from jitpkg.codegen.fusion.kernel import Turn
from jitpkg.codegen.fusion.passes.turn_rows import BESIDE, WIDE
from jitpkg.codegen.fusion.statements import offset
from jitpkg.codegen.ir.extents import same


def turn(frame: Frame, turn: Turn, rows: tuple[str, str], lanes: tuple[str, str]) -> None:
    """Turn what the positions from one to below another of both axes read, square by square."""
    load = turn.load
    size, element = load.dtype.itemsize, memory(load.dtype)
    # What is next to each other there is in different sets of a cache.
    apart = _sum(frame, frame.rounded(turn.lanes.extent, WIDE, up=True), BESIDE)
    if turn.wide is not None:
        apart = str(turn.wide + BESIDE)
    room = frame.room_for(_product(frame, apart, turn.high), element)
    turned = Turned(turn, apart, room, rows[0], lanes[0])
    frame.turned[load] = turned
    side = min(16, frame.host.bits // 8 // size)

    def along(lane: str, _: list[str]) -> list[str]:
        frame.positions[turn.lanes] = (lane, frame.depth)

        def down(at: str, _: list[str]) -> list[str]:
            frame.positions[turn.outer] = (at, frame.depth)
            _square(frame, turned, side)
            return []

        frame.repeat(*rows, side, [], down, surely=True)
        return []

    frame.repeat(*lanes, side, [], along, surely=True)


def _square(frame: Frame, turned: Turned, side: int) -> None:
    """Those that reach beyond the end have more of the last lane there, and zeros behind the last
    row."""
    w, turn = frame.w, turned.turn
    load, element, size = turn.load, memory(turn.load.dtype), turn.load.dtype.itemsize
    base = place(frame, load.buffer, load.index).base
    step = frame.number(offset(load.buffer, load.index).factor(turn.lanes))
    at, lane = frame.positions[turn.outer][0], frame.positions[turn.lanes][0]
    mask, last = None, ""
    if not same(turn.outer.extent % side, 0):
        left = w.op(f"sub i64 {frame.number(turn.outer.extent)}, {at}")
        mask = frame.first_lanes(left, side)
    if not same(turn.lanes.extent % side, 0):
        last = w.op(f"sub i64 {frame.number(turn.lanes.extent - 1)}, {lane}")
    kind, lines = vector(element, side), []
    for k in range(side):
        far = _product(frame, step, k)
        if last:
            inside = w.op(f"icmp sle i64 {k}, {last}")
            there = w.op(f"select i1 {inside}, i64 {k}, i64 {last}")
            far = w.op(f"mul i64 {there}, {step}")
        pointer = w.op(f"getelementptr {element}, ptr {base}, i64 {far}")
        lines.append(row(frame, pointer, load.dtype, mask, side))
    number = w.op(f"sub i64 {at}, {turned.start}")
    corner = w.op(f"add i64 {w.op(f'mul i64 {number}, {turned.row}')}, {lane}")
    corner = w.op(f"sub i64 {corner}, {turned.first}")
    corner = w.op(f"getelementptr {element}, ptr {turned.rows}, i64 {corner}")
    for k, line in enumerate(_transposed(frame, lines, kind, side)):
        far = _product(frame, turned.row, k)
        pointer = w.op(f"getelementptr {element}, ptr {corner}, i64 {far}")
        w.do(f"store {kind} {line}, ptr {pointer}, align {size}")


def _product(frame: Frame, number: str, by: int) -> str:
    """A multiple of a number that is known before all else."""
    if not number.startswith("%"):
        return str(int(number) * by)
    return frame.at_first(("product", number, by), f"mul i64 {number}, {by}")


def _sum(frame: Frame, number: str, more: int) -> str:
    if not number.startswith("%"):
        return str(int(number) + more)
    return frame.at_first(("sum", number, more), f"add i64 {number}, {more}")


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
