"""Loads and stores: addresses that are computed as far outside as they can be, and lanes."""

from __future__ import annotations

from functools import partial

import torch

from jitpkg.codegen.cpu.arithmetic import (
    constant,
    constants,
    literal,
    memory,
    suffix,
    vector,
)
from jitpkg.codegen.cpu.casts import cast
from jitpkg.codegen.cpu.frame import Frame, Turned, Value
from jitpkg.codegen.cpu.scalar_ops import rows
from jitpkg.codegen.fusion.statements import offset
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import same, varies
from jitpkg.codegen.ir.nodes import Axis, Buffer, Load, Node, Store
from jitpkg.dataclass import dataclass

NOWHERE = "@nowhere"
"""Memory that may always be read: zeros."""


LINE = 64
"""Bytes of a cache line."""

AHEAD = 1024
"""Bytes by which memory is asked for ahead: 512 and 2048 gave a little less (AMD, Zen 5)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the lanes of an access are."""

    base: str
    """A pointer to the first lane's element, without `apart`."""
    step: int
    """From each lane to the next, in elements."""
    apart: str | None
    """Further elements from the base, an i64 for each lane."""


def place(frame: Frame, buffer: Buffer, index: tuple[Node, ...]) -> Place:
    """Where an access is."""
    whole = offset(buffer, index)
    step, apart = 0, None
    terms: list[tuple[int, str, int]] = []
    for atom, factor in whole.terms:
        if isinstance(atom, Axis):
            if atom is frame.axis:
                step = factor
            text, depth = frame.positions[atom]
            terms.append((depth, text, factor))
            continue
        value = frame.of(atom)
        if value.lanes == 1:
            terms.append((value.depth, value.text, factor))
            continue
        a = frame.arithmetic(torch.int64, value.lanes)
        far = value.text
        if not same(factor, 1):
            far = a.op("mul", far, _everywhere(frame, factor))
        apart = far if apart is None else a.op("add", apart, far)
    base = frame.pointers[buffer]
    terms.sort(key=lambda term: term[:2])
    element = memory(buffer.dtype)
    for k, (depth, _, _) in enumerate(terms):
        if k + 1 < len(terms) and terms[k + 1][0] == depth:
            continue  # goes with the next one
        here = tuple(term for term in terms if term[0] == depth)
        make = partial(_moved, frame, base, element, here)
        base = frame.once(("at", base, here), depth, make)
    if not same(whole.constant, 0):
        constant = frame.number(whole.constant)
        base = frame.w.op(f"getelementptr {element}, ptr {base}, i64 {constant}")
    return Place(base, step, apart)


def _moved(
    frame: Frame,
    base: str,
    element: str,
    terms: tuple[tuple[int, str, int], ...],
    into: list[str] | None,
) -> str:
    total = ""
    for _, text, factor in terms:
        by = frame.number(factor)
        term = text if by == "1" else frame.w.op(f"mul i64 {text}, {by}", into)
        total = frame.w.op(f"add i64 {total}, {term}", into) if total else term
    return frame.w.op(f"getelementptr {element}, ptr {base}, i64 {total}", into)


def _everywhere(frame: Frame, number: int) -> str:
    """A number in all lanes."""
    return frame.splat(frame.number(number), torch.int64, 0)


def _both(frame: Frame, one: str | None, other: str | None) -> str | None:
    """A mask where both are true."""
    if one is None or other is None:
        return one or other
    return frame.arithmetic(torch.bool, frame.width).op("and", one, other)


def _is_empty(buffer: Buffer) -> bool:
    return any(same(length, 0) for length in buffer.sizes)


# Loads


def load(frame: Frame, node: Load) -> None:
    if _is_empty(node.buffer):
        frame.define(node, literal(0, node.dtype), 1)
        return
    turned = frame.turned.get(node)
    if turned is not None and frame.axis is turned.turn.lanes:
        raw = row(frame, _turned_row(frame, turned), node.dtype, None)
        frame.define(node, of_memory(frame, raw, node.dtype, frame.width), frame.width)
        return
    at = place(frame, node.buffer, node.index)
    mask = None if node.mask is None else frame.of(node.mask)
    if frame.axis is None or (
        same(at.step, 0) and at.apart is None and (mask is None or mask.lanes == 1)
    ):
        frame.define(node, _scalar(frame, node, at, mask), 1)
        return
    masked = None if node.mask is None else frame.wide(node.mask, frame.width)
    both = _both(frame, frame.mask, masked)
    if at.apart is None and same(at.step, 1):
        raw = row(frame, at.base, node.dtype, both)
    elif at.apart is None and same(at.step, -1):
        raw = _reversed_row(frame, at.base, node.dtype, both)
    else:
        raw = _gathered(frame, at, node.dtype, both)
    frame.define(node, of_memory(frame, raw, node.dtype, frame.width), frame.width)


def ask_ahead(frame: Frame, node: Load) -> None:
    """Ask for what neighbouring lanes read some iterations later; it may lie outside."""
    if node in frame.turned:
        return
    w, base = frame.w, place(frame, node.buffer, node.index).base
    w.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for line in range(0, frame.width * node.dtype.itemsize, LINE):
        later = w.op(f"getelementptr i8, ptr {base}, i64 {AHEAD + line}")
        w.do(f"call void @llvm.prefetch.p0(ptr {later}, i32 0, i32 3, i32 1)")


def _turned_row(frame: Frame, turned: Turned) -> str:
    """A pointer to the lanes' elements; all lanes may be read."""
    element = memory(turned.turn.load.dtype)
    at, depth = frame.positions[turned.turn.outer]

    def line(into: list[str] | None) -> str:
        number = frame.w.op(f"sub i64 {at}, {turned.start}", into)
        far = frame.w.op(f"mul i64 {number}, {turned.row}", into)
        return frame.w.op(f"getelementptr {element}, ptr {turned.rows}, i64 {far}", into)

    start = frame.once(("turned", turned.rows, at), depth, line)
    lane, _ = frame.positions[turned.turn.lanes]
    if turned.first != "0":
        lane = frame.w.op(f"sub i64 {lane}, {turned.first}")
    return frame.w.op(f"getelementptr {element}, ptr {start}, i64 {lane}")


def of_memory(frame: Frame, raw: str, dtype: torch.dtype, lanes: int) -> str:
    """What has been read, as it is in registers."""
    if dtype is torch.bfloat16:
        bits = frame.arithmetic(torch.int32, lanes)
        wide = frame.w.op(f"zext {vector('i16', lanes)} {raw} to {bits.type}")
        return bits.to("bitcast", bits.op("shl", wide, bits.const(16)), torch.float32)
    if dtype is not torch.bool:
        return raw
    zero = constant("0", "i8", lanes)
    return frame.w.op(f"icmp ne {vector('i8', lanes)} {raw}, {zero}")


def _scalar(frame: Frame, node: Load, at: Place, mask: Value | None) -> str:
    base = at.base
    if mask is not None:
        base = frame.w.op(f"select i1 {mask.text}, ptr {base}, ptr {NOWHERE}")
    element = memory(node.dtype)
    raw = frame.w.op(f"load {element}, ptr {base}, align {node.dtype.itemsize}")
    return of_memory(frame, raw, node.dtype, 1)  # nowhere are zeros


def row(
    frame: Frame, base: str, dtype: torch.dtype, mask: str | None, lanes: int | None = None
) -> str:
    """Neighbouring elements: `lanes`, or those of the loop."""
    element, lanes = memory(dtype), lanes or frame.width
    kind = vector(element, lanes)
    if mask is None:
        return frame.w.op(f"load {kind}, ptr {base}, align {dtype.itemsize}")
    ones, name = vector("i1", lanes), f"@llvm.masked.load.{suffix(element, lanes)}.p0"
    frame.w.declare(f"declare {kind} {name}(ptr, i32, {ones}, {kind})")
    return frame.w.op(
        f"call {kind} {name}(ptr {base}, i32 {dtype.itemsize}, {ones} {mask}, "
        f"{kind} zeroinitializer)"
    )


def reversed_lanes(frame: Frame, value: str, element: str) -> str:
    kind, lanes = vector(element, frame.width), frame.width
    order = f"<{lanes} x i32> {constants('i32', range(lanes - 1, -1, -1))}"
    return frame.w.op(f"shufflevector {kind} {value}, {kind} poison, {order}")


def _reversed_row(frame: Frame, base: str, dtype: torch.dtype, mask: str | None) -> str:
    element = memory(dtype)
    first = frame.w.op(f"getelementptr {element}, ptr {base}, i64 {1 - frame.width}")
    if mask is not None:
        mask = reversed_lanes(frame, mask, "i1")
    return reversed_lanes(frame, row(frame, first, dtype, mask), element)


def _pointers(frame: Frame, at: Place, dtype: torch.dtype) -> str:
    """One for each lane."""
    a = frame.arithmetic(torch.int64, frame.width)
    if varies(at.step):
        lanes = constants("i64", range(frame.width))
        steps = a.op("mul", _everywhere(frame, at.step), lanes)
    else:
        steps = constants("i64", [lane * at.step for lane in range(frame.width)])
    far = steps
    if at.apart is not None:
        far = at.apart if same(at.step, 0) else a.op("add", at.apart, steps)
    return frame.w.op(f"getelementptr {memory(dtype)}, ptr {at.base}, {a.type} {far}")


def _gathered(frame: Frame, at: Place, dtype: torch.dtype, mask: str | None) -> str:
    """Zeros in the lanes where the mask is false."""
    lanes, element = frame.width, memory(dtype)
    pointers = _pointers(frame, at, dtype)
    kind, ones = vector(element, lanes), vector("i1", lanes)
    everywhere = constant("true", "i1", lanes)
    if dtype.itemsize < 4 and mask is not None:
        # There is no such instruction, and LLVM would make a branch for each lane.
        nowhere = constant(NOWHERE, "ptr", lanes)
        pointers = frame.w.op(
            f"select {ones} {mask}, {vector('ptr', lanes)} {pointers}, "
            f"{vector('ptr', lanes)} {nowhere}"
        )
        mask = None
    name = f"@llvm.masked.gather.{suffix(element, lanes)}.{suffix('ptr', lanes)}"
    frame.w.declare(f"declare {kind} {name}({vector('ptr', lanes)}, i32, {ones}, {kind})")
    return frame.w.op(
        f"call {kind} {name}({vector('ptr', lanes)} {pointers}, i32 {dtype.itemsize}, "
        f"{ones} {mask or everywhere}, {kind} zeroinitializer)"
    )


# Stores


def store(frame: Frame, write: Store) -> None:
    buffer = write.buffer
    if _is_empty(buffer):
        return
    at = place(frame, buffer, write.index)
    if frame.axis is None:
        value = to_memory(frame, frame.of(write.value).text, buffer.dtype, 1)
        _put(frame, write, at.base, value)
        return
    value = to_memory(frame, frame.wide(write.value, frame.width), buffer.dtype, frame.width)
    if at.apart is None and same(at.step, 1):
        if write.combine is not None:  # each lane has an element of its own
            old = row(frame, at.base, buffer.dtype, frame.mask)
            value = _combined(frame, write, old, value, frame.width)
            _put_row(frame, at.base, value, buffer.dtype, frame.mask)
        elif frame.mask is None and _is_whole_lines(frame, write):
            kind = vector(memory(buffer.dtype), frame.width)
            frame.w.do(f"store {kind} {value}, ptr {at.base}, align {LINE}, !nontemporal !0")
        else:
            _put_row(frame, at.base, value, buffer.dtype, frame.mask)
    elif (
        write.combine is None
        and at.apart is None
        and not same(at.step, 0)
        and buffer.dtype.itemsize >= 4
    ):
        _scatter(frame, at, value, buffer.dtype)
    else:
        _one_by_one(frame, write, at, value)


def _is_whole_lines(frame: Frame, write: Store) -> bool:
    """Whether the lanes fill cache lines that should be written past the caches."""
    buffer, size = write.buffer, write.buffer.dtype.itemsize
    if buffer not in frame.streamed or frame.width * size % LINE:
        return False
    whole = offset(buffer, write.index)
    far = [factor for atom, factor in whole.terms if atom is not frame.axis]
    affine = all(isinstance(atom, Axis) for atom, _ in whole.terms)
    return affine and all(same(each * size % LINE, 0) for each in (*far, whole.constant))


def to_memory(frame: Frame, value: str, dtype: torch.dtype, lanes: int) -> str:
    if dtype is torch.bfloat16:
        bits = frame.arithmetic(torch.int32, lanes)
        high = frame.w.op(f"bitcast {vector('float', lanes)} {value} to {bits.type}")
        high = bits.op("lshr", high, bits.const(16))
        return bits.to("trunc", high, torch.int16)
    if dtype is not torch.bool:
        return value
    return frame.w.op(f"zext {vector('i1', lanes)} {value} to {vector('i8', lanes)}")


def _put_row(frame: Frame, base: str, value: str, dtype: torch.dtype, mask: str | None) -> None:
    element, lanes = memory(dtype), frame.width
    kind, ones = vector(element, lanes), vector("i1", lanes)
    if mask is None:
        frame.w.do(f"store {kind} {value}, ptr {base}, align {dtype.itemsize}")
        return
    if mask == frame.first_lanes("1"):
        # LLVM 22, of a vector that is truncated, stores the one lane with the bits cut off.
        first = frame.w.op(f"extractelement {kind} {value}, i32 0")
        frame.w.do(f"store {element} {first}, ptr {base}, align {dtype.itemsize}")
        return
    name = f"@llvm.masked.store.{suffix(element, lanes)}.p0"
    frame.w.declare(f"declare void {name}({kind}, ptr, i32, {ones})")
    frame.w.do(f"call void {name}({kind} {value}, ptr {base}, i32 {dtype.itemsize}, {ones} {mask})")


def _scatter(frame: Frame, at: Place, value: str, dtype: torch.dtype) -> None:
    lanes, element = frame.width, memory(dtype)
    pointers = _pointers(frame, at, dtype)
    kind, ones, many = vector(element, lanes), vector("i1", lanes), vector("ptr", lanes)
    name = f"@llvm.masked.scatter.{suffix(element, lanes)}.{suffix('ptr', lanes)}"
    mask = frame.mask or constant("true", "i1", lanes)
    frame.w.declare(f"declare void {name}({kind}, {many}, i32, {ones})")
    frame.w.do(
        f"call void {name}({kind} {value}, {many} {pointers}, i32 {dtype.itemsize}, {ones} {mask})"
    )


def _put(frame: Frame, write: Store, pointer: str, value: str) -> None:
    """One element, combined with what is there."""
    dtype = write.buffer.dtype
    element, size = memory(dtype), dtype.itemsize
    if write.combine is not None:
        old = frame.w.op(f"load {element}, ptr {pointer}, align {size}")
        value = _combined(frame, write, old, value, 1)
    frame.w.do(f"store {element} {value}, ptr {pointer}, align {size}")


def _combined(frame: Frame, write: Store, old: str, new: str, lanes: int) -> str:
    """What is in memory and what is added to it, as it goes to memory."""
    assert write.combine is not None
    combine = ops.REDUCTIONS[write.combine].combine
    assert combine is not None
    dtype = write.buffer.dtype
    wide = torch.float32 if dtype in ops.NARROW else dtype
    a, own = frame.arithmetic(wide, lanes), frame.arithmetic(dtype, lanes)
    both = rows(wide)[combine](
        a,
        cast(own, of_memory(frame, old, dtype, lanes), wide),
        cast(own, of_memory(frame, new, dtype, lanes), wide),
    )
    return to_memory(frame, cast(a, both, dtype), dtype, lanes)


def _one_by_one(frame: Frame, write: Store, at: Place, value: str) -> None:
    """The lanes in order: two of them may hit the same element."""
    lanes, w = frame.width, frame.w
    dtype = write.buffer.dtype
    element, kind, many = memory(dtype), vector(memory(dtype), lanes), vector("ptr", lanes)
    key = frame.w.fresh()
    entry = frame.levels[0].before
    entry.append(f"  %lanes.{key} = alloca {kind}, align 64")
    entry.append(f"  %places.{key} = alloca {many}, align 64")
    entry.append(f"  %active.{key} = alloca <{lanes} x i8>, align 64")
    w.do(f"store {kind} {value}, ptr %lanes.{key}, align 64")
    w.do(f"store {many} {_pointers(frame, at, dtype)}, ptr %places.{key}, align 64")
    if frame.mask is not None:
        bytes_ = w.op(f"zext {vector('i1', lanes)} {frame.mask} to <{lanes} x i8>")
        w.do(f"store <{lanes} x i8> {bytes_}, ptr %active.{key}, align 64")

    def one(lane: str, _: list[str]) -> list[str]:
        if frame.mask is not None:
            flag = w.op(f"getelementptr i8, ptr %active.{key}, i64 {lane}")
            on = w.op(f"icmp ne i8 {w.op(f'load i8, ptr {flag}')}, 0")
            w.do(f"br i1 {on}, label %on.{key}, label %off.{key}")
            frame.w.label(f"on.{key}")
        each = w.op(f"getelementptr {element}, ptr %lanes.{key}, i64 {lane}")
        pointer = w.op(f"getelementptr ptr, ptr %places.{key}, i64 {lane}")
        loaded = w.op(f"load {element}, ptr {each}, align {dtype.itemsize}")
        _put(frame, write, w.op(f"load ptr, ptr {pointer}, align 8"), loaded)
        if frame.mask is not None:
            w.do(f"br label %off.{key}")
            frame.w.label(f"off.{key}")
        return []

    frame.repeat("0", str(lanes), 1, [], one, surely=True)
