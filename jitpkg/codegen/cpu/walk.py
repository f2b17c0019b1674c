"""One walk over a schedule's statements, which prints them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import torch

from jitpkg.codegen.cpu import memory, scalar_ops
from jitpkg.codegen.cpu.arithmetic import any_lane, vector
from jitpkg.codegen.cpu.arithmetic import memory as in_memory
from jitpkg.codegen.cpu.casts import cast
from jitpkg.codegen.cpu.chunks import Chunks
from jitpkg.codegen.cpu.columns import Columns
from jitpkg.codegen.cpu.folds import Fold, fold
from jitpkg.codegen.cpu.frame import Frame
from jitpkg.codegen.cpu.lanes import bytes_of_columns
from jitpkg.codegen.cpu.low_half import low_half_of
from jitpkg.codegen.cpu.positions import compared_positions
from jitpkg.codegen.cpu.scans import Carried, Running
from jitpkg.codegen.cpu.tiles import tiles_of
from jitpkg.codegen.cpu.turned import fill, turned_loads
from jitpkg.codegen.fusion.kernel import Compute, Keep, Lanes, Loop, Statement, Take, Write
from jitpkg.codegen.fusion.statements import loops, scans, statements
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import IllegalNode
from jitpkg.codegen.ir.extents import at_least, example, same, varies
from jitpkg.codegen.ir.nodes import Apply, Checked, Load, Node, Reduce, Scan

ADDED_UP = 64
"""Iterations of one accumulator of a float sum, at least, before it goes into another one: errors
then grow like the square root of the number of elements at worst."""

LONG = 40
"""Ops from which on a loop is printed once with a mask, not twice."""


class Walk:
    def __init__(self, frame: Frame, parted: Loop | None, chunks: Chunks | None = None) -> None:
        """`parted`: the loop that runs from `%low` to `%high` only; with `chunks` it is a chunk."""
        self.frame = frame
        self.chunks = chunks
        self.w = frame.w
        self.parted = parted
        self.partial: dict[Reduce, tuple[Fold, list[str]]] = {}
        """What inner loops have folded, for the outer loops that carry the same folds."""
        self.running: dict[Scan, tuple[Running, list[str]]] = {}
        """How far the scans are."""
        self.open: list[Loop] = []

    # Statements

    def phase(self, body: Sequence[Statement]) -> None:
        """A chunk of the parted loop and what it needs; without one, what is behind all loops."""
        assert self.chunks is not None
        for statement in body:
            if statement is self.parted:
                self.block((statement,))
                return
            if isinstance(statement, Loop):
                self.open.append(statement)
                carried = self.carried(statement)
                folds = [fold for _, fold in carried if isinstance(fold, Fold)]
                self.known(statement, carried, self.chunks.folded(self.frame, statement, folds))
                self.open.pop()
            elif isinstance(statement, Compute) or self.parted is None:
                self.block((statement,))

    def block(self, body: Sequence[Statement]) -> None:
        frame = self.frame
        for statement in body:
            match statement:
                case Compute(nodes=nodes):
                    for node in nodes:
                        if node not in frame.values:
                            self.compute(node)
                case Keep(node=node):
                    self.keep(node)
                case Take(node=node):
                    self.take(node)
                case Write(store=store):
                    memory.store(frame, store)
                case Loop():
                    self.loop(statement)

    def keep(self, node: Node) -> None:
        frame, pointer = self.frame, self.kept(node)
        value = frame.wide(node, frame.width)
        value = memory.to_memory(frame, value, node.dtype, frame.width)
        kind = vector(in_memory(node.dtype), frame.width)
        frame.w.do(f"store {kind} {value}, ptr {pointer}, align {node.dtype.itemsize}")

    def take(self, node: Node) -> None:
        frame = self.frame
        if node not in frame.values:
            raw = memory.row(frame, self.kept(node), node.dtype, None)
            frame.define(node, memory.of_memory(frame, raw, node.dtype, frame.width), frame.width)

    def kept(self, node: Node) -> str:
        """A pointer to where a value is kept for the lanes' positions."""
        frame, loop, element = self.frame, self.frame.loop, in_memory(node.dtype)
        assert loop is not None
        if node not in frame.rows:
            count = frame.rounded(loop.extent, frame.width, up=True)
            frame.rows[node] = frame.room_for(count, element)
        at = frame.positions[loop.axis][0]
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
        if frame.axis is None and isinstance(loop.kind, Lanes):
            self.in_lanes(loop)
        else:
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
        along = not outside and isinstance(loop.kind, Lanes)
        lanes = frame.width if outside else loop.lanes
        for node in scans(loop):
            if not any(isinstance(s, Compute) and node in s.nodes for s in loop.body):
                raise IllegalNode(f"a running {node.op} that another loop stands inside of")
            found.append((node, Running(frame, node.dtype, node.op, lanes, along)))
        return found

    def lanes_of_folds(self, loop: Loop) -> int:
        """How many lanes the folds have that a loop carries."""
        frame = self.frame
        if frame.axis is not None:
            return frame.width
        found = [x for x in (loop, *loops(loop.body)) if isinstance(x.kind, Lanes)]
        carrying = [each for each in found if set(each.folds) & set(loop.folds)]
        return carrying[0].lanes if carrying else 1

    def one_by_one(self, loop: Loop) -> None:
        low, high = "0", self.frame.number(loop.extent)
        if loop is self.parted:
            low, high = "%low", "%high"
        carried = self.carried(loop)
        tiles = None if carried else tiles_of(self, loop)
        if tiles is None:
            state = self.repeated(loop, carried, low, high, 1)
        else:
            tiles.print(low, high)
            state = []
        self.known(loop, carried, state)

    def in_lanes(self, loop: Loop) -> None:
        frame = self.frame
        carried = self.carried(loop)
        frame.loop, frame.axis, frame.width = loop, loop.axis, loop.lanes
        low, high, full, is_rest = self.bounds(loop)
        state = [each.start() for _, each in carried]
        needed = None if carried else bytes_of_columns(loop)
        if needed is not None and needed <= frame.room:
            frame.room -= needed
            Columns(self, loop, (low, high, full, is_rest)).print()
        else:
            if full != "0":
                state = self.repeated(loop, carried, low, high, loop.lanes)
            if is_rest:
                before = state
                state = self.rest(
                    loop, full, lambda: self.body(loop, carried, before), carried, before
                )
        frame.loop, frame.axis, frame.width = None, None, 1
        self.known(loop, carried, state)

    def bounds(self, loop: Loop) -> tuple[str, str, str, bool]:
        """Where the full vectors of lanes begin and end, how many positions they have, and whether
        there may be more."""
        frame, w = self.frame, self.w
        extent, lanes = loop.extent, loop.lanes
        is_rest = not self.is_long(loop) and not same(extent % lanes, 0)
        full = frame.rounded(extent, lanes, up=not is_rest)
        if loop is not self.parted:
            return "0", full, full, is_rest
        low = w.op(f"mul i64 %low, {lanes}")
        high = w.op(f"mul i64 %high, {lanes}")
        if is_rest:
            less = w.op(f"icmp slt i64 {high}, {full}")
            high = w.op(f"select i1 {less}, i64 {high}, i64 {full}")
        return low, high, full, is_rest

    def is_long(self, loop: Loop) -> bool:
        """Whether the body is printed once only, with a mask."""
        count = sum(len(s.nodes) for s in statements(loop.body) if isinstance(s, Compute))
        return count > LONG

    def rest(
        self,
        loop: Loop,
        start: str,
        run: Callable[[], list[list[str]]],
        carried: Sequence[Carried] = (),
        before: Sequence[list[str]] = (),
    ) -> list[list[str]]:
        """The last lanes, fewer than the others.

        Args:
            before: the states of what is carried; those behind it are returned.
        """
        frame, w = self.frame, self.w
        key, extent = w.fresh(), loop.extent
        may_be_none = loop is self.parted or varies(extent)
        if may_be_none:
            if loop is self.parted:
                some = w.op(f"icmp sgt i64 %high, {frame.divided(start, frame.width)}")
            else:
                some = w.op(f"icmp slt i64 {start}, {frame.number(extent)}")
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
        found = run()
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
        step: int,
        begin: list[list[str]] | None = None,
    ) -> list[list[str]]:
        """The iterations from `low` to below `high`; returns the states of the folds.

        `begin`: the states at first, where these are not all iterations.
        """
        frame, w = self.frame, self.w
        extent = loop.extent
        masked = self.is_long(loop) and not same(extent % step, 0)
        surely = (loop is not self.parted or step == 1) and at_least(extent, 1 if masked else step)
        frame.enter()
        kinds = [kind for _, fold in carried for kind in fold.types]

        def run(at: str, flat: list[str]) -> list[str]:
            frame.positions[loop.axis] = (at, frame.depth)
            if masked:
                frame.mask = frame.first_lanes(w.op(f"sub i64 {frame.number(extent)}, {at}"))
            after = self.body(loop, carried, _grouped(carried, flat))
            if masked:
                frame.mask = None
            return [text for state in after for text in state]

        states = [fold.start() for _, fold in carried] if begin is None else begin
        start = [text for state in states for text in state]
        sums = [fold.is_inexact_sum for _, fold in carried]
        iterations = example(extent) // step
        turned = turned_loads(frame, loop) if step == 1 else []
        few = begin is not None or (iterations <= 2 * ADDED_UP and not varies(extent))
        if not turned and (few or not any(sums)):
            flat = frame.counted(
                low, high, step, list(zip(kinds, start, strict=True)), run, surely=surely
            )
        else:
            many = ADDED_UP
            while many * many < iterations:
                many *= 2
            if turned:
                many = turned[0].high

            def some(at: str, totals: list[str]) -> list[str]:
                for each in turned:
                    fill(frame, each, at)
                end = w.op(f"add i64 {at}, {many * step}")
                less = w.op(f"icmp slt i64 {end}, {high}")
                end = w.op(f"select i1 {less}, i64 {end}, i64 {high}")
                first = [
                    text
                    for (_, fold), total in zip(carried, _grouped(carried, totals), strict=True)
                    for text in (fold.start() if fold.is_inexact_sum else total)
                ]
                inner = frame.counted(
                    at, end, step, list(zip(kinds, first, strict=True)), run, surely=True
                )
                found = zip(
                    carried, _grouped(carried, totals), _grouped(carried, inner), strict=True
                )
                return [
                    text
                    for (_, fold), total, part in found
                    for text in (
                        fold.merge(total, part)
                        if isinstance(fold, Fold) and fold.is_inexact_sum
                        else part
                    )
                ]

            flat = frame.counted(
                low, high, many * step, list(zip(kinds, start, strict=True)), some, surely=surely
            )
        frame.leave()
        for each in turned:
            del frame.turned[each.load]
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
        """Behind the loop: results, or parts of what an outer loop carries on."""
        frame = self.frame
        if self.chunks is not None and loop is self.parted:
            folds = [fold for _, fold in carried if isinstance(fold, Fold)]
            self.chunks.keep(frame, loop, folds, states)
            return
        outside = {fold for each in self.open[:-1] for fold in each.folds}
        for (node, each), state in zip(carried, states, strict=True):
            if isinstance(node, Scan):
                continue
            assert isinstance(each, Fold)
            if node in outside:
                self.partial[node] = (each, state)
            elif frame.axis is None:
                frame.define(node, each.result(state), 1)
            else:
                frame.define(node, state[-1], each.a.lanes)


def _grouped(carried: list[Carried], flat: Sequence[str]) -> list[list[str]]:
    texts = iter(flat)
    return [[next(texts) for _ in fold.types] for _, fold in carried]
