"""LLVM IR text for a schedule: one walk over its statements."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitpkg.codegen.cpu import memory, scalar_ops
from jitpkg.codegen.cpu.arithmetic import memory as in_memory
from jitpkg.codegen.cpu.arithmetic import vector
from jitpkg.codegen.cpu.casts import cast
from jitpkg.codegen.cpu.folds import Fold, fold
from jitpkg.codegen.cpu.frame import Frame
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.plan import Plan, offset, plan, scans, statements
from jitpkg.codegen.cpu.scans import Running
from jitpkg.codegen.cpu.turned import fill, turned_loads
from jitpkg.codegen.fusion.kernel import Compute, Loop, Schedule, Statement, Write
from jitpkg.codegen.ir import legality, ops
from jitpkg.codegen.ir.builder import IllegalNode
from jitpkg.codegen.ir.nodes import Apply, Axis, Checked, Load, Node, Reduce, Scan, Store
from jitpkg.codegen.ir.text import axis_names, text_of_store

GRAIN = 32768
"""Elements that are worth a thread."""

ADDED_UP = 64
"""Iterations of one accumulator of a float sum, at least, before it goes into another one: errors
then grow like the square root of the number of elements at worst."""

LONG = 40
"""Ops from which on a loop is printed once with a mask, not twice."""


def llvm_of(schedule: Schedule, host: Host, name: str = "kernel") -> str:
    """The text of a module with `i32 @name(ptr of each input, ptr of each output)`.

    It returns 0, or 1 where an index out of the data is out of range.

    Raises:
        IllegalNode: the kernel breaks a rule of the IR.
    """
    kernel = schedule.kernel
    for store in kernel.stores:
        legality.check_store(store, kernel.axes)
    frame = Frame(host, plan(schedule, host))
    names = axis_names(kernel.axes)
    lines = [f"; {kernel.name}: " + ", ".join(f"{n} < {a.extent}" for a, n in names.items())]
    for store in kernel.stores:
        lines.extend(f";   {line}" for line in text_of_store(store, names))
    return "\n".join([*lines, *_Function(frame, schedule, name).lines(), ""])


_ATTRIBUTES = """
attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" }}
attributes #1 = {{ nounwind willreturn memory(none) }}"""


Carried = tuple[Reduce, Fold] | tuple[Scan, Running]


class _Function:
    def __init__(self, frame: Frame, schedule: Schedule, name: str) -> None:
        self.frame = frame
        self.w = frame.w
        self.schedule = schedule
        self.name = name
        self.parted = self._parted()
        self.partial: dict[Reduce, tuple[Fold, list[str]]] = {}
        """What inner loops have folded, for the outer loops that carry the same folds."""
        self.running: dict[Scan, tuple[Running, list[str]]] = {}
        """How far the scans are."""
        self.open: list[Loop] = []

    # The function

    def lines(self) -> list[str]:
        kernel = self.schedule.kernel
        buffers = [*kernel.inputs, *kernel.outputs]
        names = [f"%{_plain(buffer.name)}.{k}" for k, buffer in enumerate(buffers)]
        frame, w = self.frame, self.w
        w.do("%status = alloca i32, align 4")
        w.do("store i32 0, ptr %status")
        for k, (buffer, text) in enumerate(zip(buffers, names, strict=True)):
            frame.pointers[buffer] = text
            w.do(f"%at.{k} = getelementptr ptr, ptr %context, i64 {k}")
            w.do(f"{text} = load ptr, ptr %at.{k}, align 8")
        self.block(frame.plan.body)
        status = w.op("load i32, ptr %status")
        failed = w.op(f"icmp ne i32 {status}, 0")
        w.do(f"br i1 {failed}, label %fail, label %end")
        frame.label("fail")
        w.do(f"%failed = getelementptr ptr, ptr %context, i64 {len(buffers)}")
        w.do("store i32 1, ptr %failed")
        w.do("br label %end")
        frame.label("end")
        w.do("ret void")
        part = f"@{self.name}.part"
        return [
            *sorted(w.declared),
            *(
                ["declare i32 @torch_parallel_for(i64, i64, i64, ptr, ptr)"]
                if self._grain()
                else []
            ),
            f"{memory.NOWHERE} = internal constant [16 x i8] zeroinitializer, align 16",
            "",
            f"define internal void {part}(i64 %low, i64 %high, ptr %context) #0 {{",
            "entry:",
            *w.body(),
            "}",
            "",
            *self._entry(names, part),
            _ATTRIBUTES.format(bits=frame.host.bits),
        ]

    def _entry(self, names: Sequence[str], part: str) -> list[str]:
        parameters = ", ".join(f"ptr {text}" for text in names)
        lines = [
            f"define i32 @{self.name}({parameters}) #0 {{",
            "entry:",
            f"  %context = alloca [{len(names) + 1} x ptr], align 64",
        ]
        for k, text in enumerate(names):
            lines.append(f"  %to.{k} = getelementptr ptr, ptr %context, i64 {k}")
            lines.append(f"  store ptr {text}, ptr %to.{k}, align 8")
        lines.append(f"  %status = getelementptr ptr, ptr %context, i64 {len(names)}")
        lines.append("  store i32 0, ptr %status")
        count, grain = self._steps(), self._grain()
        if grain:
            arguments = f"i64 0, i64 {count}, i64 {grain}, ptr {part}, ptr %context"
            lines.append(f"  call i32 @torch_parallel_for({arguments})")
        else:
            lines.append(f"  call void {part}(i64 0, i64 {count}, ptr %context)")
        return [*lines, "  %found = load i32, ptr %status", "  ret i32 %found", "}"]

    def _parted(self) -> Loop | None:
        """The loop whose iterations go to the threads: the only outermost one."""
        frame, kernel = self.frame, self.schedule.kernel
        outer = [each for each in frame.plan.body if not isinstance(each, Compute)]
        if len(outer) != 1 or not isinstance(outer[0], Loop) or not frame.host.parallel:
            return None
        loop = outer[0]
        if loop.folds or scans(loop, frame.plan.needed):
            return None
        if any(store.combine is not None for store in kernel.stores):
            return None
        if not all(_is_apart(store, loop) for store in kernel.stores):
            return None
        return loop

    def _steps(self) -> int:
        """How many steps the parted loop has: iterations, or vectors."""
        loop = self.parted
        if loop is None:
            return 1
        extent = self.frame.plan.extent(loop)
        return -(-extent // self.frame.plan.lanes.get(loop, 1))

    def _grain(self) -> int:
        """Steps that are worth a thread; 0 where the whole is not worth two."""
        loop = self.parted
        if loop is None:
            return 0
        inner = _elements(loop, self.frame.plan) // max(self._steps(), 1)
        grain = max(1, GRAIN // max(inner, 1))
        return grain if self._steps() > grain else 0

    # Statements

    def block(self, body: Sequence[Statement]) -> None:
        frame = self.frame
        for statement in body:
            match statement:
                case Compute(nodes=nodes):
                    for node in nodes:
                        if node in frame.plan.needed and node not in frame.values:
                            self.compute_or_take(node)
                case Write(store=store):
                    memory.store(frame, store)
                case Loop():
                    self.loop(statement)

    def compute_or_take(self, node: Node) -> None:
        frame, w = self.frame, self.w
        plan, loop = frame.plan, frame.loop
        kept = loop is not None and node in plan.kept.get(loop, ())
        taken = loop is not None and node in plan.taken.get(loop, ())
        if not taken:
            self.compute(node)
        if loop is None or not (kept or taken):
            return
        element, size = in_memory(node.dtype), node.dtype.itemsize
        if node not in frame.rows:
            frame.rows[node] = f"%row.{w.fresh()}"
            count = -(-plan.extent(loop) // frame.width) * frame.width
            frame.levels[0].before.append(
                f"  {frame.rows[node]} = alloca [{count} x {element}], align 64"
            )
        at = frame.positions[loop.axis][0]
        pointer = w.op(f"getelementptr {element}, ptr {frame.rows[node]}, i64 {at}")
        if taken:
            frame.define(node, memory.row(frame, pointer, node.dtype, None), frame.width)
        else:
            kind = vector(element, frame.width)
            w.do(f"store {kind} {frame.wide(node, frame.width)}, ptr {pointer}, align {size}")

    def compute(self, node: Node) -> None:
        frame = self.frame
        match node:
            case Load():
                memory.load(frame, node)
            case Apply(op=op, args=args):
                lanes = max(frame.of(arg).lanes for arg in args)
                texts = [frame.wide(arg, lanes) for arg in args]
                if op == ops.CAST:
                    found = cast(frame.arithmetic(args[0].dtype, lanes), texts[0], node.dtype)
                else:
                    kind = args[1].dtype if op == "where" else args[0].dtype
                    found = scalar_ops.rows(kind)[op](frame.arithmetic(kind, lanes), *texts)
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
        size = a.const(node.extent)
        below = a.compare("slt", value.text, a.const(0))
        index = a.select(below, a.op("add", value.text, size), value.text)
        wrong = a.compare("uge", index, size)
        counted = wrong
        if frame.mask is not None and value.lanes > 1:
            counted = a.mask("and", wrong, frame.mask)
        bit = w.op(f"zext i1 {frame.any_lane(counted, value.lanes)} to i32")
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
        if frame.plan.extent(loop) == 0:
            return
        outer = frame.still
        frame.still = outer | frame.plan.still.get(loop, frozenset())
        self.open.append(loop)
        if frame.axis is None and loop in frame.plan.lanes:
            self.in_lanes(loop)
        else:
            self.one_by_one(loop)
        self.open.pop()
        frame.still = outer

    def carried(self, loop: Loop) -> list[Carried]:
        frame = self.frame
        lanes = self.lanes_of_folds(loop)
        outside = frame.axis is not None
        found: list[Carried] = [
            (node, fold(frame.arithmetic(node.value.dtype, lanes), node.op, not outside))
            for node in loop.folds
        ]
        along = not outside and loop in frame.plan.lanes
        lanes = frame.width if outside else frame.plan.lanes.get(loop, 1)
        for node in scans(loop, frame.plan.needed):
            if not any(isinstance(s, Compute) and node in s.nodes for s in loop.body):
                raise IllegalNode(f"a running {node.op} that another loop stands inside of")
            found.append((node, Running(frame, node.dtype, node.op, lanes, along)))
        return found

    def lanes_of_folds(self, loop: Loop) -> int:
        """How many lanes the folds have that a loop carries."""
        frame = self.frame
        if frame.axis is not None:
            return frame.width
        inside = [loop, *(each for each in statements(loop.body) if isinstance(each, Loop))]
        found = [each for each in inside if each in frame.plan.lanes]
        carrying = [each for each in found if set(each.folds) & set(loop.folds)]
        return frame.plan.lanes[carrying[0]] if carrying else 1

    def one_by_one(self, loop: Loop) -> None:
        extent = self.frame.plan.extent(loop)
        low, high = ("%low", "%high") if loop is self.parted else ("0", str(extent))
        carried = self.carried(loop)
        state = self.repeated(loop, carried, low, high, 1)
        self.known(loop, carried, state)

    def in_lanes(self, loop: Loop) -> None:
        frame, w = self.frame, self.w
        extent, lanes = frame.plan.extent(loop), frame.plan.lanes[loop]
        carried = self.carried(loop)
        frame.loop, frame.axis, frame.width = loop, loop.axis, lanes
        full = extent // lanes * lanes
        if self.is_long(loop):
            full = -(-extent // lanes) * lanes
        low, high = "0", str(full)
        if loop is self.parted:
            low = w.op(f"mul i64 %low, {lanes}")
            high = w.op(f"mul i64 %high, {lanes}")
            if full < extent:
                less = w.op(f"icmp slt i64 {high}, {full}")
                high = w.op(f"select i1 {less}, i64 {high}, i64 {full}")
        state = None
        if full:
            state = self.repeated(loop, carried, low, high, lanes)
        if full < extent:
            state = self.rest(loop, carried, state, full, extent)
        assert state is not None
        frame.loop, frame.axis, frame.width = None, None, 1
        self.known(loop, carried, state)

    def is_long(self, loop: Loop) -> bool:
        """Whether the body is printed once only, with a mask."""
        count = sum(len(s.nodes) for s in statements(loop.body) if isinstance(s, Compute))
        return count > LONG

    def rest(
        self,
        loop: Loop,
        carried: list[Carried],
        state: list[list[str]] | None,
        start: int,
        extent: int,
    ) -> list[list[str]]:
        """The last lanes, fewer than the others."""
        frame, w = self.frame, self.w
        key = w.fresh()
        state = state or [fold.start() for _, fold in carried]
        if loop is self.parted:
            last = w.op(f"icmp sgt i64 %high, {start // frame.width}")
            w.do(f"br i1 {last}, label %rest.{key}, label %whole.{key}")
            frame.label(f"rest.{key}")
        frame.enter()
        frame.positions[loop.axis] = (str(start), frame.depth)
        frame.mask = frame.first_lanes(str(extent - start))
        state = self.body(loop, carried, state)
        frame.mask = None
        frame.leave()
        if loop is self.parted:
            w.do(f"br label %whole.{key}")
            frame.label(f"whole.{key}")
        return state

    def repeated(
        self, loop: Loop, carried: list[Carried], low: str, high: str, step: int
    ) -> list[list[str]]:
        """The iterations from `low` to below `high`; returns the states of the folds."""
        frame, w = self.frame, self.w
        extent = frame.plan.extent(loop)
        masked = extent % step != 0 and self.is_long(loop)
        surely = loop is not self.parted or step == 1
        frame.enter()
        kinds = [kind for _, fold in carried for kind in fold.types]

        def run(at: str, flat: list[str]) -> list[str]:
            frame.positions[loop.axis] = (at, frame.depth)
            if masked:
                frame.mask = frame.first_lanes(w.op(f"sub i64 {extent}, {at}"))
            after = self.body(loop, carried, _grouped(carried, flat))
            if masked:
                frame.mask = None
            return [text for state in after for text in state]

        start = [text for _, fold in carried for text in fold.start()]
        sums = [fold.is_inexact_sum for _, fold in carried]
        iterations = extent // step
        turned = turned_loads(frame, loop) if step == 1 else []
        if not turned and (not any(sums) or iterations <= 2 * ADDED_UP):
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


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in f"b{name}")


def _is_apart(store: Store, loop: Loop) -> bool:
    """Whether different iterations write different elements."""
    whole = offset(store.buffer, store.index)
    affine = all(isinstance(atom, Axis) for atom, _ in whole.terms)
    return affine and whole.factor(loop.axis) != 0


def _elements(loop: Loop, plan: Plan) -> int:
    """How often the innermost statements run."""
    inner = [each for each in loop.body if isinstance(each, Loop)]
    return plan.extent(loop) * max(1, sum(_elements(each, plan) for each in inner))
