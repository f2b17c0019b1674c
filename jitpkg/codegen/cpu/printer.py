"""LLVM IR text for a schedule: a function that runs a part of it, and one that runs the parts."""

from __future__ import annotations

from collections.abc import Sequence

from jitpkg.codegen.cpu import memory
from jitpkg.codegen.cpu.frame import Frame
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.plan import Plan, offset, plan, scans
from jitpkg.codegen.cpu.walk import Walk
from jitpkg.codegen.fusion.kernel import Compute, Loop, Schedule
from jitpkg.codegen.ir import legality
from jitpkg.codegen.ir.nodes import Axis, Store
from jitpkg.codegen.ir.text import axis_names, text_of_store

GRAIN = 32768
"""Elements that are worth a thread."""


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


class _Function:
    def __init__(self, frame: Frame, schedule: Schedule, name: str) -> None:
        self.frame = frame
        self.w = frame.w
        self.schedule = schedule
        self.name = name
        self.parted = self._parted()

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
        Walk(frame, self.parted).block(frame.plan.body)
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
