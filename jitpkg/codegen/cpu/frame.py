"""The state of printing: what is known where, and under which name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

import torch

from jitpkg.codegen.cpu.arithmetic import (
    Arithmetic,
    Writer,
    constant,
    constants,
    literal,
    register,
)
from jitpkg.codegen.cpu.bounds import bound
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.low_half import LowHalf, low_half
from jitpkg.codegen.fusion.kernel import Loop, Turn
from jitpkg.codegen.ir.extents import varies
from jitpkg.codegen.ir.nodes import Axis, Buffer, Const, Given, Load, Node
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Value:
    """A node's value."""

    text: str
    lanes: int
    depth: int
    """Of the loops inside of which it is known."""


@dataclass(frozen=True, slots=True)
class Turned:
    """What a load reads lies in rows of ours: see `fusion.kernel.Turn`."""

    turn: Turn
    row: str
    """From one row to the next, in elements."""
    rows: str
    """Where they are."""
    start: str
    """The position of the outer axis that the first row is of."""
    first: str
    """The lane that they begin with."""


@dataclass(slots=True)
class Level:
    """A loop that is being printed, or the function."""

    before: list[str] = field(default_factory=list)
    """Lines before the loop: what inner code needs of outer values is put here."""
    names: dict[object, str] = field(default_factory=dict)
    """What has been made once for the whole level."""
    nodes: list[Node] = field(default_factory=list)
    """What becomes unknown behind the loop."""


class Numbers:
    """What a kernel is given besides tensors: its sizes that vary."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def place(self, value: int) -> int:
        return self._places.setdefault(value, len(self._places))

    def text(self, value: int) -> str:
        """A number, or the register that one is in."""
        return f"%given.{self.place(value)}" if varies(value) else str(value)


class Frame:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.w = Writer()
        self.levels = [Level()]
        self.w.lines.append(self.levels[0].before)
        self.values: dict[Node, Value] = {}
        self.positions: dict[Axis, tuple[str, int]] = {}
        """Where each loop stands (the first lane), and the depth from which on that is known."""
        self.pointers: dict[Buffer, str] = {}
        self.given = Numbers()
        """Numbers that the kernel is given; they lie in the context from `slot` on."""
        self.slot = 0
        self._at_once: dict[object, str] = {}
        self.streamed: frozenset[Buffer] = frozenset()
        """What is written past the caches; it begins at the start of a cache line."""
        self.turned: dict[Load, Turned] = {}
        self.axis: Axis | None = None
        """The one whose positions are the lanes."""
        self.width = 1
        self.loop: Loop | None = None
        """The one that runs in lanes."""
        self.rows: dict[Node, str] = {}
        """Memory with what an earlier loop has computed, for all positions of its axis."""
        self.low_halves: dict[Node, LowHalf] = {}
        """Of values of float32."""
        self.bounds: dict[Node, float] = {}
        """How far from 0 these are at most."""
        self.ranges: dict[Axis, tuple[str, str]] = {}
        """Where the loops along an axis begin, and before what they end, inside of blocks."""
        self.mask: str | None = None
        """The lanes that count; None where all do."""
        self._arithmetic: dict[tuple[torch.dtype, int], Arithmetic] = {}

    @property
    def depth(self) -> int:
        return len(self.levels) - 1

    def arithmetic(self, dtype: torch.dtype, lanes: int) -> Arithmetic:
        key = (dtype, lanes)
        if key not in self._arithmetic:
            self._arithmetic[key] = Arithmetic(self.w, dtype, lanes, self.host.bits)
        return self._arithmetic[key]

    # Values

    def define(self, node: Node, text: str, lanes: int) -> None:
        self.values[node] = Value(text, lanes, self.depth)
        self.levels[-1].nodes.append(node)
        if node.dtype is torch.float32:
            self.low_halves[node] = low_half(node, self.low_halves)
            self.bounds[node] = bound(node, self.bounds)

    def of(self, node: Node) -> Value:
        known = self.values.get(node)
        if known is not None:
            return known
        if isinstance(node, Const):
            return Value(literal(node.value, node.dtype), 1, 0)
        if isinstance(node, Given):
            return Value(self.number(node.value), 1, 0)
        assert isinstance(node, Axis), f"{node} is used before it is known"
        text, depth = self.positions[node]
        if node is not self.axis:
            return Value(text, 1, depth)
        a = self.arithmetic(torch.int64, self.width)
        lanes = constants("i64", range(self.width))
        self.define(node, a.op("add", self.splat(text, torch.int64, self.depth), lanes), self.width)
        return self.values[node]

    def wide(self, node: Node, lanes: int) -> str:
        """A value in that many lanes."""
        if lanes > 1 and isinstance(node, Const):
            text = literal(node.value, node.dtype)
            return constant(text, register(node.dtype, 1), lanes)
        value = self.of(node)
        if value.lanes == lanes:
            return value.text
        return self.splat(value.text, node.dtype, value.depth)

    def splat(self, text: str, dtype: torch.dtype, depth: int) -> str:
        """A scalar that is known at a depth, in all lanes: made before the loops inside of it."""
        kind, whole = register(dtype, 1), register(dtype, self.width)
        if not text.startswith("%"):
            return constant(text, kind, self.width)

        def make(into: list[str] | None) -> str:
            one = self.w.op(f"insertelement {whole} poison, {kind} {text}, i32 0", into)
            zeros = f"<{self.width} x i32> zeroinitializer"
            return self.w.op(f"shufflevector {whole} {one}, {whole} poison, {zeros}", into)

        return self.once(("splat", text, self.width), depth, make)

    def once(self, key: object, depth: int, make: Callable[[list[str] | None], str]) -> str:
        """Something that depends on what is known at a depth only, made there."""
        inner = min(depth + 1, self.depth)
        names = self.levels[inner].names
        key = (key, depth == self.depth)
        if key not in names:
            names[key] = make(None if depth == self.depth else self.levels[inner].before)
        return names[key]

    # Numbers

    def number(self, value: int) -> str:
        """A number as it is printed: that of one that varies is read from the context."""
        if not varies(value):
            return str(value)
        text = self.given.text(value)

        def read(into: list[str]) -> str:
            at = self.slot + self.given.place(value)
            place = self.w.op(f"getelementptr ptr, ptr %context, i64 {at}", into)
            into.append(f"  {text} = load i64, ptr {place}, align 8")
            return text

        return self._first(("number", value), read)

    def rounded(self, value: int, by: int, *, up: bool) -> str:
        """The multiple of a power of two that is next to a number."""
        if not varies(value):
            return str(-(-value // by) * by if up else value // by * by)
        text = self.number(value)

        def make(into: list[str]) -> str:
            high = self.w.op(f"add i64 {text}, {by - 1}", into) if up else text
            return self.w.op(f"and i64 {high}, {-by}", into)

        return self._first(("rounded", value, by, up), make)

    def divided(self, text: str, by: int) -> str:
        """A number that the other one divides."""
        if not text.startswith("%"):
            return str(int(text) // by)

        def make(into: list[str]) -> str:
            return self.w.op(f"sdiv exact i64 {text}, {by}", into)

        return self._first(("divided", text, by), make)

    def room_for(self, count: str, kind: str) -> str:
        """Memory of the function itself for so many elements."""
        name = f"%room.{self.w.fresh()}"
        what = f"{kind}, i64 {count}" if count.startswith("%") else f"[{count} x {kind}]"
        self.levels[0].before.append(f"  {name} = alloca {what}, align 64")
        return name

    def at_first(self, key: object, text: str) -> str:
        """An instruction on numbers that are known before all else."""
        return self._first(key, lambda into: self.w.op(text, into))

    def _first(self, key: object, make: Callable[[list[str]], str]) -> str:
        """What is computed once, before all else."""
        if key not in self._at_once:
            self._at_once[key] = make(self.levels[0].before)
        return self._at_once[key]

    # Loops

    def enter(self) -> Level:
        """What is printed from here on is inside of one more loop."""
        level = Level()
        self.w.lines.append(level.before)
        self.levels.append(level)
        return level

    def leave(self) -> None:
        for node in self.levels.pop().nodes:
            self.values.pop(node, None)
        gone = [axis for axis, (_, depth) in self.positions.items() if depth > self.depth]
        for axis in gone:
            del self.positions[axis]

    def repeat(
        self,
        start: str,
        stop: str,
        step: int,
        state: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
        *,
        surely: bool,
    ) -> list[str]:
        """A loop that carries values, each given by its type and what it starts with; inside of it
        is a level of its own.

        `surely`: it runs at least once.
        """
        self.enter()
        k, before = self.w.fresh(), self.w.block
        if surely:
            self.w.do(f"br label %loop.{k}")
        else:
            runs = self.w.op(f"icmp slt i64 {start}, {stop}")
            self.w.do(f"br i1 {runs}, label %loop.{k}, label %done.{k}")
        self.w.label(f"loop.{k}")
        heads: list[str] = []
        self.w.lines.append(heads)
        carried = [f"%c{k}.{n}" for n in range(len(state))]
        after = body(f"%i.{k}", list(carried))
        self.w.do(f"%next.{k} = add nsw i64 %i.{k}, {step}")
        self.w.do(f"%more.{k} = icmp slt i64 %next.{k}, {stop}")
        self.w.do(f"br i1 %more.{k}, label %loop.{k}, label %done.{k}")
        latch = self.w.block
        heads.append(f"  %i.{k} = phi i64 [ {start}, %{before} ], [ %next.{k}, %{latch} ]")
        for name, (kind, first), new in zip(carried, state, after, strict=True):
            heads.append(f"  {name} = phi {kind} [ {first}, %{before} ], [ {new}, %{latch} ]")
        self.w.label(f"done.{k}")
        self.leave()
        if surely:
            return after
        return [
            self.w.op(f"phi {kind} [ {first}, %{before} ], [ {new}, %{latch} ]")
            for (kind, first), new in zip(state, after, strict=True)
        ]

    def range(self, axis: Axis) -> tuple[str, str]:
        """Where a loop along an axis begins, and before what it ends."""
        return self.ranges.get(axis) or ("0", self.number(axis.extent))

    def least(self, one: str, other: str) -> str:
        """The smaller one of two numbers."""
        if not one.startswith("%") and not other.startswith("%"):
            return str(min(int(one), int(other)))
        less = self.w.op(f"icmp slt i64 {one}, {other}")
        return self.w.op(f"select i1 {less}, i64 {one}, i64 {other}")

    # Lanes

    def first_lanes(self, count: str, width: int | None = None) -> str:
        """A mask: the first `count` lanes, at most all; there are `width`, or those of the loop."""
        width = width or self.width
        if not count.startswith("%"):
            return constants("i1", [int(lane < int(count)) for lane in range(width)])
        kind = f"<{width} x i32>"
        small = self.w.op(f"trunc i64 {self.least(count, str(width))} to i32")
        one = self.w.op(f"insertelement {kind} poison, i32 {small}, i32 0")
        all_ = self.w.op(f"shufflevector {kind} {one}, {kind} poison, {kind} zeroinitializer")
        lanes = constants("i32", range(width))
        return self.w.op(f"icmp slt {kind} {lanes}, {all_}")
