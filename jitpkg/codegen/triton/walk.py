"""One walk over a schedule's statements, which prints them."""

from __future__ import annotations

from collections.abc import Sequence

from jitpkg.codegen.fusion.kernel import (
    Compute,
    Finish,
    Keep,
    Loop,
    Schedule,
    Statement,
    Take,
    Tile,
    Write,
)
from jitpkg.codegen.fusion.statements import needed, scans
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.ir.nodes import Apply, Checked, Load, Node, Scan, Store, operands
from jitpkg.codegen.triton import memory
from jitpkg.codegen.triton.accumulators import Accumulators
from jitpkg.codegen.triton.dims import Dim, together
from jitpkg.codegen.triton.frame import Frame, NotPrinted, Value
from jitpkg.codegen.triton.values import applied

INLINE = 60
"""Characters of what may stand inside of another expression."""


class Walk:
    def __init__(self, frame: Frame, schedule: Schedule) -> None:
        self.frame = frame
        self.folds = Accumulators(frame)
        self.around = frame.programs
        """The axes that what is printed is inside of."""
        self.users: dict[Node, list[Node]] = {}
        for node in needed(schedule.kernel.stores):
            for used in operands(node):
                self.users.setdefault(used, []).append(node)

    # Statements

    def block(self, body: Sequence[Statement]) -> None:
        for statement in body:
            match statement:
                case Compute(nodes=nodes):
                    for node in nodes:
                        self.compute(node, statement)
                case Write(store=store):
                    self.write(store)
                case Finish(pair=pair):
                    self.folds.second(pair)
                case Take(node=node):
                    assert node in self.frame.values, f"{node} was not kept"
                case Keep():  # its name holds
                    pass
                case Loop():
                    self.loop(statement)

    def write(self, store: Store) -> None:
        axes = store.value.axes.union(*(at.axes for at in store.index))
        if store.combine is not None and not axes >= self.around:
            raise NotPrinted("a scatter inside of loops that it does not depend on")
        memory.store(self.frame, store, self.frame.dims_of(axes))

    def compute(self, node: Node, among: Compute) -> None:
        frame = self.frame
        match node:
            case Load():
                value = memory.load(frame, node, self.policy(node, among))
                self.name(node, value, node.buffer.name)
            case Apply():
                value = applied(frame, node)
                users = self.users.get(node, [])
                alone = len(users) == 1 and isinstance(users[0], Apply) and users[0] in among.nodes
                if alone and len(value.text) < INLINE:
                    frame.define(node, value)
                else:
                    self.name(node, value, "t")
            case Checked(index=index, extent=extent):
                at = frame.of(index)
                mask = " & ".join(frame.masks(at.dims)) or "True"
                text = f"jl.checked({at.text}, {frame.number(extent)}, {mask})"
                if frame.is_index(node) and not frame.is_index(index):
                    text = f"{text}.to({frame.index})"
                self.name(node, Value(text, at.dims), "at")
            case Scan():
                self.folds.scan(node)
            case _:
                raise AssertionError(node)

    def policy(self, load: Load, among: Compute) -> str:
        """What the cache should do, where it goes by in blocks."""
        dim = self.frame.active.get("r")
        if dim is None or not dim.looped or "r" not in self.frame.dims_of(load.axes):
            return ""
        return "evict_last" if load in among.again else "evict_first"

    def name(self, node: Node, value: Value, base: str) -> None:
        self.frame.define(node, Value(self.frame.named(base, value.text), value.dims))

    # Loops

    def loop(self, loop: Loop) -> None:
        begins = [fold for fold in loop.folds if fold.over[0] is loop.axis]
        for fold in begins:
            self.folds.begin(fold, loop)
        if not same(loop.extent, 0):
            match loop.kind:
                case Tile(dim=name) if self.frame.active.get("r") is not self.frame.inside[name]:
                    self.in_tile(loop, self.frame.inside[name])
                case Tile():
                    self.body(loop)  # is one dim with the loop around it
                case _:
                    self.one_by_one(loop)
        for fold in begins:
            self.folds.finish(fold)

    def body(self, loop: Loop) -> None:
        self.block(loop.body)
        for fold in loop.folds:
            if fold.over[-1] is loop.axis:
                self.folds.step(fold)

    def one_by_one(self, loop: Loop) -> None:
        frame = self.frame
        self.carry(loop)
        at = frame.loop_name(loop.axis)
        count = frame.counter(at)
        around, self.around = self.around, self.around | {loop.axis}
        with frame.loop(f"for {count} in range({frame.number(loop.extent)}):"):
            frame.line(f"{at} = tl.cast({count}, {frame.index})")
            frame.define(loop.axis, Value(at, frozenset()))
            self.body(loop)
        self.around = around

    def in_tile(self, loop: Loop, dim: Dim) -> None:
        frame, axes = self.frame, together(loop)
        self.carry(loop)
        frame.active[dim.letter] = dim
        around, self.around = self.around, self.around.union(axes)
        if dim.looped:
            at = frame.loop_name(axes[-1] if len(axes) == 1 else None)
            start = frame.counter(at)
            head = f"for {start} in range(0, {frame.number(dim.extent)}, {dim.block}):"
            with frame.loop(head):
                line = f"tl.cast({start}, {frame.index}) + tl.arange(0, {dim.block})"
                frame.line(f"{at} = {frame.across(dim, line)}")
                frame.define_dim(dim, at)
                frame.define_axes(dim, axes)
                self.body(loop)
        else:
            frame.define_axes(dim, axes)
            self.body(loop)
        self.around = around
        del frame.active[dim.letter]

    def carry(self, loop: Loop) -> None:
        """Before a loop: its running folds begin."""
        whole = isinstance(loop.kind, Tile) and loop.kind.whole
        for scan in scans(loop):
            if not any(isinstance(s, Compute) and scan in s.nodes for s in loop.body):
                raise NotPrinted(f"a running {scan.op} that another loop stands inside of")
            if not whole:
                self.folds.carry(scan)
