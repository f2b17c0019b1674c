"""One walk over a schedule's statements, which prints them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import field

import torch

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
from jitpkg.codegen.fusion.online import Distances, Pair, Powers
from jitpkg.codegen.fusion.passes.one_pass import carriers, is_at_once
from jitpkg.codegen.fusion.statements import accesses, needed
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.ir.nodes import (
    Apply,
    Checked,
    Const,
    Load,
    Node,
    Reduce,
    Scan,
    Store,
    operands,
)
from jitpkg.codegen.triton import folds, memory, scalar_ops
from jitpkg.codegen.triton.dims import Dim, together
from jitpkg.codegen.triton.frame import Frame, NotPrinted, Value
from jitpkg.codegen.triton.scalar_ops import cast, literal
from jitpkg.dataclass import dataclass

INLINE = 60
"""Characters of what may stand inside of another expression."""


@dataclass(eq=False, slots=True)
class _Carried:
    """A fold that is under way."""

    names: list[str]
    dims: frozenset[str]
    dim: Dim | None
    """That is folded at last."""
    begun: bool
    """Whether the names have values."""
    pair: Pair | None = None
    """With a second fold that goes on with it."""
    state: list[str] = field(default_factory=list)
    """Names of what that needs besides."""


class Walk:
    def __init__(self, frame: Frame, schedule: Schedule) -> None:
        self.frame = frame
        self.folds: dict[Reduce, _Carried] = {}
        self.states: dict[Reduce, _Carried] = {}
        """Those of pairs that are not finished."""
        self.carries: dict[Scan, str] = {}
        self.around = frame.programs
        """The axes that what is printed is inside of."""
        self.users: dict[Node, list[Node]] = {}
        self.needed = needed(schedule.kernel.stores)
        for node in self.needed:
            for used in operands(node):
                self.users.setdefault(used, []).append(node)
        self.again = Counter(each for each in accesses(schedule.body) if isinstance(each, Load))
        """How many more times a load stands in the schedule."""

    # Statements

    def block(self, body: Sequence[Statement]) -> None:
        for statement in body:
            match statement:
                case Compute(nodes=nodes):
                    here = frozenset(nodes)
                    for node in nodes:
                        self.compute(node, here)
                case Write(store=store):
                    self.write(store)
                case Finish(pair=pair):
                    self.second(pair)
                case Keep() | Take():  # names hold until the program's end
                    pass
                case Loop():
                    self.loop(statement)

    def write(self, store: Store) -> None:
        axes = store.value.axes.union(*(at.axes for at in store.index))
        if store.combine is not None and not axes >= self.around:
            raise NotPrinted("a scatter inside of loops that it does not depend on")
        memory.store(self.frame, store, self.frame.dims_of(axes))

    def compute(self, node: Node, here: frozenset[Node]) -> None:
        frame = self.frame
        match node:
            case Load():
                value = memory.load(frame, node, self.policy(node))
                self.name(node, value, node.buffer.name)
            case Apply():
                value = self.applied(node)
                users = self.users.get(node, [])
                alone = len(users) == 1 and isinstance(users[0], Apply) and users[0] in here
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
                self.scan(node)
            case _:
                raise AssertionError(node)

    def policy(self, load: Load) -> str:
        """What the cache should do: rows that are read in blocks may be read again, and what all
        programs read is read by the next one."""
        dim, programs = self.frame.active.get("r"), self.frame.programs
        if dim is None or not dim.looped or "r" not in self.frame.dims_of(load.axes):
            return ""
        if programs and programs.isdisjoint(load.axes):
            return "evict_last"
        times = self.again[load]
        self.again[load] = times - 1
        return "evict_last" if times > 1 else "evict_first"

    def name(self, node: Node, value: Value, base: str) -> None:
        self.frame.define(node, Value(self.frame.named(base, value.text), value.dims))

    def applied(self, node: Apply) -> Value:
        frame = self.frame
        args = node.args
        dims = frozenset[str]().union(*(frame.of(arg).dims for arg in args))
        if node.op == ops.CAST:
            (arg,) = args
            if frame.is_index(node):
                return Value(f"{frame.of(arg).operand}.to({frame.index})", dims)
            source = arg.dtype
            if frame.is_index(arg) and frame.index == "tl.int32":
                source = torch.int32
            return Value(cast(frame.of(arg).operand, source, node.dtype), dims)
        kind = args[1].dtype if node.op == "where" else args[0].dtype
        rows = scalar_ops.rows(kind)
        narrow = all(frame.is_index(a) for a in args if a.dtype is torch.int64)
        if node.dtype is torch.int64 and not frame.is_index(node):
            narrow = False
        alone = node.op == "where" and all(isinstance(arg, Const) for arg in args[1:])
        texts = []
        for arg in args:
            if isinstance(arg, Const) and (
                (narrow and arg.dtype is torch.int64)
                or scalar_ops.takes_literal(node.op, arg, alone=alone)
            ):
                texts.append(_signed(literal(arg.value, arg.dtype)))
            else:
                texts.append(frame.of(arg).operand if narrow else self.full(arg))
        op = node.op
        if op == "div" and isinstance(args[1], Const) and (inverse := _inverse(args[1])):
            return Value(f"{texts[0]} * {literal(inverse, kind)}", dims)
        if narrow and op in ("floordiv", "mod") and frame.is_positive(args[0]):
            return Value(f"{texts[0]} {'//' if op == 'floordiv' else '%'} {texts[1]}", dims)
        return Value(rows[op](*texts), dims)

    def full(self, node: Node) -> str:
        """A value in its own dtype: an index may be held in fewer bits."""
        text = self.frame.of(node).operand
        if self.frame.is_index(node) and not isinstance(node, Const):
            return f"tl.cast({text}, tl.int64)" if self.frame.index == "tl.int32" else text
        return text

    # Loops

    def loop(self, loop: Loop) -> None:
        begins = [fold for fold in loop.folds if fold.over[0] is loop.axis]
        for fold in begins:
            self.begin(fold, loop)
        if not same(loop.extent, 0):
            match loop.kind:
                case Tile(dim=name) if self.frame.active.get("r") is not self.frame.inside[name]:
                    self.in_tile(loop, self.frame.inside[name])
                case Tile():
                    self.body(loop)  # is one dim with the loop around it
                case _:
                    self.one_by_one(loop)
        for fold in begins:
            self.finish(fold)

    def body(self, loop: Loop) -> None:
        self.block(loop.body)
        for fold in loop.folds:
            if fold.over[-1] is loop.axis:
                self.step(fold)

    def one_by_one(self, loop: Loop) -> None:
        frame = self.frame
        self.carry(loop, in_registers=False)
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
        self.carry(loop, in_registers=not dim.looped)
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

    # Folds

    def begin(self, fold: Reduce, loop: Loop) -> None:
        """The fold's first loop begins."""
        frame = self.frame
        kinds = [each.kind for each in carriers(loop, fold)]
        dim = next((frame.inside[kind.dim] for kind in kinds if isinstance(kind, Tile)), None)
        dims = frame.dims_of(fold.axes)
        if dim is not None:
            dims |= {dim.letter}
        at_once = is_at_once(loop, fold)
        carried = _Carried([frame.fresh(f"{fold.op}_so_far")], dims, dim, not at_once)
        if ops.REDUCTIONS[fold.op].combine is None:
            carried.names.append(frame.fresh("place"))
        self.folds[fold] = carried
        if at_once:
            return
        active = frame.active if dim is None else {**frame.active, dim.letter: dim}
        shape = frame.shape(dims, active) if dims else "[]"
        first = folds.start(fold.op, fold.value.dtype)
        kind = folds.typed(fold.op, fold.value.dtype)
        frame.line(f"{carried.names[0]} = tl.full({shape}, {first}, {kind})")
        for name in carried.names[1:]:
            frame.line(f"{name} = tl.full({shape}, {folds.LAST[frame.index]}, {frame.index})")
        carried.pair = next((pair for pair in loop.pairs if pair.first is fold), None)
        match carried.pair:
            case Powers():
                carried.state = [frame.fresh("powers")]
            case Distances():
                carried.state = [frame.fresh(name) for name in ("mean", "squares", "count")]
        for name in carried.state[:2]:
            frame.line(f"{name} = tl.full({shape}, 0.0, {kind})")
        for name in carried.state[2:]:
            masked = dim is not None and not frame.is_whole(dim)
            shape = frame.shape({dim.letter}, active) if dim is not None and masked else "[]"
            frame.line(f"{name} = tl.full({shape}, 0.0, {kind})")

    def step(self, fold: Reduce) -> None:
        frame, carried = self.frame, self.folds[fold]
        op, dtype = fold.op, fold.value.dtype
        value = self.held(fold.value, op, carried.dims)
        if carried.dim in frame.masked:
            value = f"tl.where({frame.masked[carried.dim]}, {value}, {folds.start(op, dtype)})"
        name = carried.names[0]
        if len(carried.names) > 1:
            place = frame.spread(frame.of(fold.over[0]), carried.dims)
            if carried.begun:
                both = ", ".join(carried.names)
                better = "more" if op == "argmax" else "less"
                frame.line(f"{both} = jl.{better}({both}, {value}, {place})")
            else:
                frame.line(f"{name} = {value}")
                frame.line(f"{carried.names[1]} = {place}")
        elif isinstance(carried.pair, Powers):
            both = ", ".join([name, *carried.state])
            frame.line(f"{both} = jl.{folds.sized('powers', dtype)}({both}, {value})")
        elif carried.begun:
            value = self.with_distances(carried, fold, value)
            frame.line(f"{name} = {folds.step(op, dtype, name, value)}")
        else:
            frame.line(f"{name} = {value}")
        carried.begun = True

    def with_distances(self, carried: _Carried, fold: Reduce, value: str) -> str:
        """The value, where a sum of squared distances has gone on with it."""
        if not isinstance(carried.pair, Distances):
            return value
        frame = self.frame
        value = frame.named("t", value)
        state = ", ".join(carried.state)
        if carried.dim in frame.masked:
            inside = frame.masked[carried.dim]
            frame.line(f"{state} = jl.distances({state}, {value}, {inside})")
        else:
            frame.line(f"{state} = jl.distances_of_all({state}, {value})")
        return value

    def second(self, pair: Pair) -> None:
        """A fold that has gone on with another one: its result."""
        frame, carried = self.frame, self.states[pair.first]
        match pair:
            case Powers():
                given = [*carried.names, *carried.state, frame.of(pair.shift).text]
                text = f"jl.sum_of_powers({', '.join(given)})"
            case Distances():
                given = [*carried.state, frame.of(pair.mean).text]
                text = f"jl.sum_of_distances({', '.join(given)})"
        name = frame.named("parts", text)
        frame.define(pair.second, self.whole(pair.second, [name], carried))

    def held(self, node: Node, op: str, dims: frozenset[str]) -> str:
        """A value as folds hold it, as a tile of these dims."""
        text = cast(self.full(node), node.dtype, folds.held(op, node.dtype))
        return self.frame.spread(Value(text, self.frame.of(node).dims), dims)

    def finish(self, fold: Reduce) -> None:
        """Behind the fold's last iteration."""
        carried = self.folds.pop(fold)
        if carried.pair is not None:
            self.states[fold] = carried
        self.frame.define(fold, self.whole(fold, carried.names, carried))

    def whole(self, fold: Reduce, names: Sequence[str], carried: _Carried) -> Value:
        """What all of the tile is together."""
        dim, dims, op, dtype = carried.dim, carried.dims, fold.op, fold.value.dtype
        name = names[-1]
        if dim is not None:
            text = folds.together(self.frame, op, dtype, names, dims, dim)
            name, dims = self.frame.named(f"the_{op}", text), dims - {dim.letter}
        if fold.dtype is torch.bool and folds.held(op, torch.bool) is not torch.bool:
            name = f"({name} != 0)"
        return Value(name, dims)

    # Running folds

    def carry(self, loop: Loop, *, in_registers: bool) -> None:
        """Before a loop: what its running folds start with."""
        frame = self.frame
        for scan in loop.scans:
            if scan not in self.needed:
                continue
            if not any(isinstance(s, Compute) and scan in s.nodes for s in loop.body):
                raise NotPrinted(f"a running {scan.op} that another loop stands inside of")
            if in_registers:
                continue
            dims = frame.dims_of(scan.axes - {loop.axis})
            shape = frame.shape(dims) if dims else "[]"
            first = folds.start(scan.op, scan.dtype)
            kind = folds.typed(scan.op, scan.dtype)
            self.carries[scan] = frame.named("carry", f"tl.full({shape}, {first}, {kind})")

    def scan(self, scan: Scan) -> None:
        frame, op, dtype = self.frame, scan.op, scan.dtype
        carry = self.carries.get(scan)
        dims = frame.dims_of(scan.axes)
        dim = frame.active.get("r") if "r" in frame.of(scan.along).dims else None
        value = self.held(scan.value, op, dims)
        if dim is None:
            assert carry is not None
            name = frame.named(op, folds.step(op, dtype, carry, value))
            frame.line(f"{carry} = {name}")
        else:
            value = frame.named("t", value)
            name = frame.named(op, folds.running(op, dtype, value, frame.dims.index("r")))
            if carry is not None:
                frame.line(f"{name} = {folds.step(op, dtype, carry, name)}")
                if dim in frame.masked:
                    value = f"tl.where({frame.masked[dim]}, {value}, {folds.start(op, dtype)})"
                last = folds.together(frame, op, dtype, [value], dims, dim)
                frame.line(f"{carry} = {folds.step(op, dtype, carry, last)}")
        if dtype is torch.bool:
            name = f"({name} != 0)"
        frame.define(scan, Value(name, dims))


def _inverse(divisor: Const) -> float | None:
    """What to multiply by instead: exact for powers of two."""
    share, exponent = math.frexp(abs(float(divisor.value)))
    return 1.0 / float(divisor.value) if share == 0.5 and abs(exponent) < 100 else None


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text
