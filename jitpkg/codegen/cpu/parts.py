"""Values of many lanes, worked on in parts that are as wide as a register."""

from __future__ import annotations

from collections.abc import Callable

from jitpkg.codegen.cpu.arithmetic import Arithmetic, constants, vector


def by_parts(f: Arithmetic, emit: Callable[..., str], *args: str) -> str:
    """What `emit` prints for vectors as wide as a register, for any number of lanes."""
    lanes = f.vector_bits // f.bits
    one = Arithmetic(f.w, f.dtype, lanes, f.vector_bits)
    if f.lanes <= lanes:
        found = emit(one, *(_widened(f, arg, lanes) for arg in args))
        return _narrowed(f, found, lanes)
    parts = []
    for first in range(0, f.lanes, lanes):
        mask = constants("i32", range(first, first + lanes))
        cut = [
            f.w.op(f"shufflevector {f.type} {arg}, {f.type} poison, <{lanes} x i32> {mask}")
            for arg in args
        ]
        parts.append(emit(one, *cut))
    while len(parts) > 1:
        part = vector(f.element, lanes)
        both = f"<{2 * lanes} x i32> {constants('i32', range(2 * lanes))}"
        joined = zip(parts[::2], parts[1::2], strict=True)
        parts = [f.w.op(f"shufflevector {part} {a}, {part} {b}, {both}") for a, b in joined]
        lanes *= 2
    return parts[0]


def _widened(f: Arithmetic, value: str, lanes: int) -> str:
    wide = vector(f.element, lanes)
    if f.lanes == lanes:
        return value
    if f.lanes == 1:
        one = f.w.op(f"insertelement {wide} poison, {f.element} {value}, i32 0")
        return f.w.op(f"shufflevector {wide} {one}, {wide} poison, <{lanes} x i32> zeroinitializer")
    mask = constants("i32", [lane % f.lanes for lane in range(lanes)])
    return f.w.op(f"shufflevector {f.type} {value}, {f.type} poison, <{lanes} x i32> {mask}")


def _narrowed(f: Arithmetic, value: str, lanes: int) -> str:
    wide = vector(f.element, lanes)
    if f.lanes == lanes:
        return value
    if f.lanes == 1:
        return f.w.op(f"extractelement {wide} {value}, i32 0")
    mask = constants("i32", range(f.lanes))
    return f.w.op(f"shufflevector {wide} {value}, {wide} poison, <{f.lanes} x i32> {mask}")
