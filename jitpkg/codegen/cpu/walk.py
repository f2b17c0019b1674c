"""One walk over a schedule's statements, which prints them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch

from jitpkg.codegen.cpu import memory, scalar_ops
from jitpkg.codegen.cpu.arithmetic import any_lane, vector
from jitpkg.codegen.cpu.arithmetic import memory as in_memory
from jitpkg.codegen.cpu.casts import cast
from jitpkg.codegen.cpu.chunks import ChunkStates
from jitpkg.codegen.cpu.folds import Fold, fold
from jitpkg.codegen.cpu.frame import Frame
from jitpkg.codegen.cpu.low_half import low_half_of
from jitpkg.codegen.cpu.positions import compared_positions
from jitpkg.codegen.cpu.scans import Carried, Running
from jitpkg.codegen.cpu.states import States
from jitpkg.codegen.cpu.turned import turn
from jitpkg.codegen.fusion.kernel import (
    Begin,
    Blocks,
    Chunks,
    Compute,
    Gather,
    Keep,
    Lanes,
    Loop,
    Parts,
    Statement,
    Take,
    Turn,
    Write,
)
from jitpkg.codegen.fusion.statements import loops, scans, statements
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import IllegalNode
from jitpkg.codegen.ir.extents import at_least, same, varies
from jitpkg.codegen.ir.nodes import Apply, Axis, Checked, Load, Node, Reduce, Scan

LONG = 40
"""Ops from which on a loop is printed once with a mask, not twice."""


class Walk:
    def __init__(
        self, frame: Frame, shared: Loop | None, chunks: ChunkStates | None = None
    ) -> None:
        """`shared`: the loop that runs from `%low` to `%high` only; with `chunks` it is a chunk."""
        self.frame = frame
        self.chunks = chunks
        self.w = frame.w
        self.shared = shared
        self.partial: dict[Reduce | Scan, tuple[Fold | Running, list[str]]] = {}
        """What inner loops have come by, for what goes on with it."""
        self.running: dict[Scan, tuple[Running, list[str]]] = {}
        """How far the scans are."""
        self.states = States(frame)
        self.open: list[Loop] = []

    # Statements

    def phase(self, body: Sequence[Statement]) -> None:
        """A chunk of the shared loop and what it needs; without one, what is behind all loops."""
        assert self.chunks is not None
        for statement in body:
            if statement is self.shared:
                self.block((statement,))
                return
            if isinstance(statement, Loop):
                self.open.append(statement)
                carried = self.carried(statement)
                folds = [fold for _, fold in carried if isinstance(fold, Fold)]
                self.known(statement, carried, self.chunks.folded(self.frame, statement, folds))
                self.open.pop()
            elif isinstance(statement, Compute) or self.shared is None:
                self.block((statement,))

    def block(self, body: Sequence[Statement]) -> None:
        frame = self.frame
        for statement in body:
            match statement:
                case Compute(nodes=nodes, ahead=ahead):
                    for node in nodes:
                        if isinstance(node, Load) and node in ahead:
                            memory.ask_ahead(frame, node)
                        if node not in frame.values:
                            self.compute(node)
                case Keep(node=node, along=along):
                    self.keep(node, along)
                case Take(node=Reduce() as node):
                    self.states.take(node)
                case Take(node=node, along=along):
                    self.take(node, along)
                case Begin(node=node):
                    self.states.begin(node)
                case Gather(node=node):
                    self.states.gather(node, self.partial.pop(node)[1])
                case Turn():
                    turn(
                        frame, statement, frame.range(statement.outer), frame.range(statement.lanes)
                    )
                case Write(store=store):
                    memory.store(frame, store)
                case Loop():
                    self.loop(statement)

    def keep(self, node: Node, along: Axis | None) -> None:
        frame, pointer = self.frame, self.kept(node, along)
        value = frame.wide(node, frame.width)
        value = memory.to_memory(frame, value, node.dtype, frame.width)
        kind = vector(in_memory(node.dtype), frame.width)
        frame.w.do(f"store {kind} {value}, ptr {pointer}, align {node.dtype.itemsize}")

    def take(self, node: Node, along: Axis | None) -> None:
        frame = self.frame
        if node not in frame.values:
            raw = memory.row(frame, self.kept(node, along), node.dtype, None)
            frame.define(node, memory.of_memory(frame, raw, node.dtype, frame.width), frame.width)

    def kept(self, node: Node, along: Axis | None) -> str:
        """A pointer to where a value is kept for the lanes' positions."""
        frame, loop, element = self.frame, self.frame.loop, in_memory(node.dtype)
        assert loop is not None
        count = frame.rounded(loop.extent, frame.width, up=True)
        if node not in frame.rows:
            room = count if along is None else str(int(count) * along.extent)
            frame.rows[node] = frame.room_for(room, element)
        at = frame.positions[loop.axis][0]
        if along is not None:
            row = self.w.op(f"mul i64 {frame.positions[along][0]}, {count}")
            at = self.w.op(f"add i64 {row}, {at}")
        return self.w.op(f"getelementptr {element}, ptr {frame.rows[node]}, i64 {at}")

    def compute(self, node: Node) -> None:
        frame = self.frame
        match node:
            case Load():
                memory.load(frame, node)
            case Apply(op=op, args=args):
                mask = compared_positions(frame, node)
                if mask is not None:
                    frame.define(node, mask, frame.width)
                    return
                lanes = max(frame.of(arg).lanes for arg in args)
                texts = [frame.wide(arg, lanes) for arg in args]
                if op == ops.CAST:
                    a, low = (
                        frame.arithmetic(args[0].dtype, lanes),
                        low_half_of(args[0], frame.low_halves),
                    )
                    found = cast(a, texts[0], node.dtype, low)
                else:
                    kind = args[1].dtype if op == "where" else args[0].dtype
                    row = scalar_ops.row(kind, op, frame.bounds.get(args[0], inf))
                    found = row(frame.arithmetic(kind, lanes), *texts)
                frame.define(node, found, lanes)
            case Checked():
                self.check(node)
            case Scan():
                self.scan(node)
            case _:
                raise AssertionError(node)

    def check(self, node: Checked) -> None:
        frame, w = self.frame, self.w
        value = frame.of(node.index)
        a = frame.arithmetic(torch.int64, value.lanes)
        size = frame.number(node.extent)
        if value.lanes > 1:
            size = frame.splat(size, torch.int64, 0)
        below = a.compare("slt", value.text, a.const(0))
        index = a.select(below, a.op("add", value.text, size), value.text)
        wrong = a.compare("uge", index, size)
        counted = wrong
        if frame.mask is not None and value.lanes > 1:
            counted = a.mask("and", wrong, frame.mask)
        bit = w.op(f"zext i1 {any_lane(w, counted, value.lanes)} to i32")
        status = w.op("load i32, ptr %status")
        w.do(f"store i32 {w.op(f'or i32 {status}, {bit}')}, ptr %status")
        frame.define(node, a.select(wrong, a.const(0), index), value.lanes)

    def scan(self, node: Scan) -> None:
        frame = self.frame
        running, state = self.running[node]
        value = frame.wide(node.value, running.a.lanes)
        state, found = running.step(state, value, frame.mask)
        self.running[node] = (running, state)
        frame.define(node, found, running.a.lanes)

    # Loops

    def loop(self, loop: Loop) -> None:
        frame = self.frame
        if same(loop.extent, 0):
            return
        self.open.append(loop)
        match loop.kind:
            case Parts() | Chunks():
                self.part(loop)
            case Blocks():
                self.in_blocks(loop)
            case Lanes() if frame.axis is None:
                self.in_lanes(loop)
            case _:
                self.one_by_one(loop)
        self.open.pop()

    def carried(self, loop: Loop) -> list[Carried]:
        frame = self.frame
        lanes = self.lanes_of_folds(loop)
        outside = frame.axis is not None
        found: list[Carried] = [
            (node, fold(frame.arithmetic(node.value.dtype, lanes), node.op, not outside))
            for node in loop.folds
        ]
        inner = self.stepping(loop)
        along = not outside and isinstance(inner.kind, Lanes)
        lanes = frame.width if outside else inner.lanes
        for node in scans(inner):
            if not any(isinstance(s, Compute) and node in s.nodes for s in inner.body):
                raise IllegalNode(f"a running {node.op} that another loop stands inside of")
            if inner is loop or Gather(node) not in statements(loop.body):
                found.append((node, Running(frame, node.dtype, node.op, lanes, along)))
        return found

    def stepping(self, loop: Loop) -> Loop:
        """The loop inside of blocks that goes over their positions."""
        if not loop.is_split:
            return loop
        inner = (x for x in loops(loop.body) if x.axis is loop.axis and not x.is_split)
        return next(inner, loop)

    def lanes_of_folds(self, loop: Loop) -> int:
        """How many lanes the folds have that a loop carries."""
        frame = self.frame
        if frame.axis is not None:
            return frame.width
        found = [x for x in (loop, *loops(loop.body)) if isinstance(x.kind, Lanes)]
        carrying = [each for each in found if set(each.folds) & set(loop.folds)]
        return carrying[0].lanes if carrying else 1

    def begun(self, carried: Sequence[Carried]) -> list[list[str]]:
        """What a loop begins with: scans go on where blocks are around it."""
        found = []
        for node, each in carried:
            if isinstance(node, Scan) and node in self.running:
                found.append(self.running[node][1])
            elif isinstance(node, Scan) and node in self.states:
                found.append(self.states.of(node))
            else:
                found.append(each.start())
        return found

    def part(self, loop: Loop) -> None:
        """The positions from `%low` to `%high`, which count parts, or positions of a chunk."""
        frame, count = self.frame, loop.step
        carried = self.carried(loop)
        low, high = "%low", "%high"
        if isinstance(loop.kind, Parts) and count > 1:
            low, high = (self.w.op(f"mul i64 {x}, {count}") for x in (low, high))
            if not same(loop.extent % count, 0):
                high = frame.least(high, frame.number(loop.extent))
        frame.ranges[loop.axis] = low, high
        state = self.body(loop, carried, self.begun(carried))
        del frame.ranges[loop.axis]
        self.known(loop, carried, state)

    def in_blocks(self, loop: Loop) -> None:
        frame, around = self.frame, self.frame.ranges.get(loop.axis)
        self.one_by_one(loop)
        if around is None:
            del frame.ranges[loop.axis]
        else:
            frame.ranges[loop.axis] = around
        for statement in loop.body:
            if isinstance(statement, Turn):
                del frame.turned[statement.load]

    def one_by_one(self, loop: Loop) -> None:
        carried = self.carried(loop)
        low, high = self.frame.range(loop.axis)
        before, surely = self.begun(carried), at_least(loop.extent, 1)
        self.known(loop, carried, self.repeated(loop, carried, low, high, before, surely))

    def in_lanes(self, loop: Loop) -> None:
        """Full vectors of lanes, and then the last lanes, fewer than the others; or all of them
        with a mask, where the body is long and should be printed once only."""
        frame, extent, lanes = self.frame, loop.extent, loop.lanes
        carried = self.carried(loop)
        state = self.begun(carried)
        low, high = frame.range(loop.axis)
        some = loop.axis in frame.ranges
        frame.loop, frame.axis, frame.width = loop, loop.axis, lanes
        is_rest = not is_long(loop) and not same(extent % lanes, 0)
        end, surely = high, at_least(extent, 1)
        if is_rest:
            full = frame.rounded(extent, lanes, up=False)
            end = frame.least(high, full) if some else full
            surely = at_least(extent, lanes) and not some
        if end != "0":
            state = self.repeated(loop, carried, low, end, state, surely)
        if is_rest:
            state = self.rest(loop, carried, full, high, state)
        frame.loop, frame.axis, frame.width = None, None, 1
        self.known(loop, carried, state)

    def rest(
        self,
        loop: Loop,
        carried: list[Carried],
        start: str,
        high: str,
        before: list[list[str]],
    ) -> list[list[str]]:
        """The last lanes, fewer than the others, if the loop goes on to them.

        Args:
            before: the states of what is carried; those behind it are returned.
        """
        frame, w = self.frame, self.w
        key, extent = w.fresh(), loop.extent
        may_be_none = loop.axis in frame.ranges or varies(extent)
        if may_be_none:
            some = w.op(f"icmp sgt i64 {high}, {start}")
            w.do(f"br i1 {some}, label %rest.{key}, label %whole.{key}")
            outside = frame.w.block
            frame.w.label(f"rest.{key}")
        frame.enter()
        frame.positions[loop.axis] = (start, frame.depth)
        if varies(extent):
            left = w.op(f"sub i64 {frame.number(extent)}, {start}")
        else:
            left = str(extent - int(start))
        frame.mask = frame.first_lanes(left)
        found = self.body(loop, carried, before)
        frame.mask = None
        frame.leave()
        if not may_be_none:
            return found
        inside = frame.w.block
        w.do(f"br label %whole.{key}")
        frame.w.label(f"whole.{key}")
        return [
            [
                w.op(f"phi {kind} [ {old}, %{outside} ], [ {new}, %{inside} ]")
                for kind, old, new in zip(fold.types, olds, news, strict=True)
            ]
            for (_, fold), olds, news in zip(carried, before, found, strict=True)
        ]

    def repeated(
        self,
        loop: Loop,
        carried: list[Carried],
        low: str,
        high: str,
        before: list[list[str]],
        surely: bool,
    ) -> list[list[str]]:
        """The iterations from `low` to below `high`; returns the states of what is carried."""
        frame, w, extent = self.frame, self.w, loop.extent
        in_lanes = loop.axis is frame.axis
        step = loop.step if in_lanes or loop.is_split else 1
        masked = in_lanes and is_long(loop) and not same(extent % loop.lanes, 0)

        def run(at: str, flat: list[str]) -> list[str]:
            if loop.is_split:
                end = frame.least(w.op(f"add i64 {at}, {step}"), high)
                frame.ranges[loop.axis] = at, end
            else:
                frame.positions[loop.axis] = (at, frame.depth)
            if masked:
                frame.mask = frame.first_lanes(w.op(f"sub i64 {frame.number(extent)}, {at}"))
            after = self.body(loop, carried, _grouped(carried, flat))
            if masked:
                frame.mask = None
            return [text for state in after for text in state]

        kinds = [kind for _, each in carried for kind in each.types]
        start = [text for state in before for text in state]
        states = list(zip(kinds, start, strict=True))
        flat = frame.repeat(low, high, step, states, run, surely=surely)
        return _grouped(carried, flat)

    def body(self, loop: Loop, carried: list[Carried], states: list[list[str]]) -> list[list[str]]:
        """One iteration (of all lanes): the statements, and what they mean to the folds."""
        frame = self.frame
        mask = frame.mask if loop.axis is frame.axis else None
        for (node, each), state in zip(carried, states, strict=True):
            if isinstance(node, Scan):
                assert isinstance(each, Running)
                self.running[node] = (each, state)
        self.block(loop.body)
        after = []
        for (node, each), state in zip(carried, states, strict=True):
            if isinstance(node, Scan):
                after.append(self.running.pop(node)[1])
                continue
            assert isinstance(each, Fold)
            if node in self.partial:
                _, part = self.partial.pop(node)
                after.append(each.merge(state, each.masked(part, mask)))
                continue
            value = frame.wide(node.value, each.a.lanes)
            after.append(each.step(state, value, frame.positions[loop.axis][0], mask))
        return after

    def known(self, loop: Loop, carried: list[Carried], states: list[list[str]]) -> None:
        """Behind the loop: results, or parts of what goes on."""
        frame, around = self.frame, self.open[:-1]
        if self.chunks is not None and loop is self.shared:
            folds = [fold for _, fold in carried if isinstance(fold, Fold)]
            self.chunks.keep(frame, loop, folds, states)
            return
        outside = {fold for each in around for fold in each.folds}
        for (node, each), state in zip(carried, states, strict=True):
            gathered = bool(around) and Gather(node) in around[-1].body
            if isinstance(node, Scan) and not gathered:
                if any(x.is_split and x.axis is loop.axis for x in around):
                    assert isinstance(each, Running)
                    self.running[node] = each, state
            elif gathered or node in outside:
                self.partial[node] = each, state
            elif frame.axis is None:
                assert isinstance(each, Fold)
                frame.define(node, each.result(state), 1)
            else:
                frame.define(node, state[-1], each.a.lanes)


def is_long(loop: Loop) -> bool:
    """Whether the body is printed once only, with a mask."""
    count = sum(len(s.nodes) for s in statements(loop.body) if isinstance(s, Compute))
    return count > LONG


def _grouped(carried: list[Carried], flat: Sequence[str]) -> list[list[str]]:
    texts = iter(flat)
    return [[next(texts) for _ in fold.types] for _, fold in carried]
