"""LLVM IR text for a schedule: a function that runs a part of it, and one that runs the parts."""

from __future__ import annotations

from collections.abc import Iterable

from jitpkg.codegen.cpu import memory
from jitpkg.codegen.cpu.chunks import ChunkStates
from jitpkg.codegen.cpu.frame import Frame, Numbers
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.stages import scheduled
from jitpkg.codegen.cpu.walk import Walk
from jitpkg.codegen.fusion.kernel import Chunks, Loop, Parts, Schedule
from jitpkg.codegen.fusion.statements import span
from jitpkg.codegen.ir import legality
from jitpkg.codegen.ir.extents import example, varies
from jitpkg.codegen.ir.nodes import Buffer, written
from jitpkg.codegen.ir.text import all_axes, axis_names, text_of_store


def llvm_of(schedule: Schedule, host: Host, name: str = "kernel") -> str:
    """The text of `printed`, for kernels that are given nothing but tensors."""
    text, _ = printed(schedule, host, name)
    return text


def printed(
    schedule: Schedule, host: Host, name: str = "kernel", given: Iterable[int] = ()
) -> tuple[str, tuple[int, ...]]:
    """The text of a module with `i32 @name(ptr of each input, ptr of each output, i64 ...)`, and
    which numbers that vary it is to be given behind the tensors: `given` are the first of them.

    It returns 0, or 1 where an index out of the data is out of range.

    Raises:
        IllegalNode: the kernel breaks a rule of the IR.
    """
    kernel = schedule.kernel
    for store in kernel.stores:
        legality.check_store(store, kernel.axes)
    names = axis_names(all_axes(kernel.axes, written(kernel.stores)))
    lines = [f"; {kernel.name}: " + ", ".join(f"{names[a]} < {a.extent}" for a in kernel.axes)]
    for store in kernel.stores:
        lines.extend(f";   {line}" for line in text_of_store(store, names))
    function = _Function(host, schedule, name)
    for number in given:
        function.given.place(number)
    text = "\n".join([*lines, *function.lines(), ""])
    return text, tuple(function.given)


_PARALLEL_FOR = "declare i32 @torch_parallel_for(i64, i64, i64, ptr, ptr)"

_ATTRIBUTES = """
attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" }}
attributes #1 = {{ nounwind willreturn memory(none) }}
!0 = !{{i32 1}}
!1 = !{{!"branch_weights", i32 1, i32 4096}}"""


class _Function:
    def __init__(self, host: Host, schedule: Schedule, name: str) -> None:
        self.host = host
        self.schedule = schedule = scheduled(schedule, host)
        self.name = name
        outer = [each for each in schedule.body if isinstance(each, Loop)]
        self.parts, self.work = None, 0
        for each in outer:
            if isinstance(each.kind, Parts):
                self.parts, self.work = each, each.kind.work
        self.chunks = [each for each in outer if isinstance(each.kind, Chunks)]
        kernel = schedule.kernel
        self.buffers = [*kernel.inputs, *kernel.outputs]
        self.given = Numbers()
        self.names = [f"%{_plain(buffer.name)}.{k}" for k, buffer in enumerate(self.buffers)]

    def lines(self) -> list[str]:
        """The module."""
        if self.chunks:
            return self._in_chunks()
        streamed = self._streamed()
        declared: set[str] = set()
        parts = self._part("part", frozenset(), declared)
        if streamed:
            parts += self._part("streamed", streamed, declared)
        if self._depends() or self._grain():
            declared.add(_PARALLEL_FOR)
        return self._module(declared, parts, self._entry(streamed, self._run()))

    def _module(self, declared: set[str], parts: list[str], entry: list[str]) -> list[str]:
        return [
            *sorted(declared),
            f"{memory.NOWHERE} = internal constant [16 x i8] zeroinitializer, align 16",
            "",
            *parts,
            *entry,
            _ATTRIBUTES.format(bits=self.host.bits),
        ]

    def _part(self, name: str, streamed: frozenset[Buffer], declared: set[str]) -> list[str]:
        """The function that runs the steps from `%low` to `%high`."""
        arguments = "i64 %low, i64 %high, ptr %context"
        return self._function(name, arguments, Walk(self._frame(streamed), self.parts), declared)

    def _frame(self, streamed: frozenset[Buffer] = frozenset()) -> Frame:
        frame = Frame(self.host)
        frame.streamed = streamed
        frame.given, frame.slot = self.given, len(self.buffers) + 2
        return frame

    def _function(self, name: str, arguments: str, walk: Walk, declared: set[str]) -> list[str]:
        frame = walk.frame
        w = frame.w
        # Registers that are put aside lie on the stack, which LLVM aligns to them only where
        # something else asks for that: half of a loop's time, where it calls Sleef.
        w.do("%status = alloca i32, align 64")
        w.do("store i32 0, ptr %status")
        for k, (buffer, text) in enumerate(zip(self.buffers, self.names, strict=True)):
            frame.pointers[buffer] = text
            w.do(f"%at.{k} = getelementptr ptr, ptr %context, i64 {k}")
            w.do(f"{text} = load ptr, ptr %at.{k}, align 8")
        if walk.chunks is None:
            walk.block(self.schedule.body)
        else:
            w.do(f"%states.at = getelementptr ptr, ptr %context, i64 {len(self.buffers) + 1}")
            w.do("%states = load ptr, ptr %states.at, align 8")
            walk.phase(self.schedule.body)
        if frame.streamed:
            w.do("fence seq_cst")  # such stores are in no order with others
        status = w.op("load i32, ptr %status")
        failed = w.op(f"icmp ne i32 {status}, 0")
        w.do(f"br i1 {failed}, label %fail, label %end")
        frame.w.label("fail")
        w.do(f"%failed = getelementptr ptr, ptr %context, i64 {len(self.buffers)}")
        w.do("store i32 1, ptr %failed")
        w.do("br label %end")
        frame.w.label("end")
        w.do("ret void")
        declared |= w.declared
        return [
            f"define internal void @{self.name}.{name}({arguments}) #0 {{",
            "entry:",
            *w.body(),
            "}",
            "",
        ]

    def _in_chunks(self) -> list[str]:
        """The module, where outermost loops are cut: a function for each, and one for the rest."""
        declared = {_PARALLEL_FOR}
        parts, calls, chunks = [], [], ChunkStates()
        for k, loop in enumerate(self.chunks):
            arguments = "i64 %low, i64 %high, ptr %context, i64 %chunk"
            walk = Walk(self._frame(), loop, chunks)
            parts += self._function(f"chunk{k}", arguments, walk, declared)
            parts += _driver(f"{self.name}.chunks{k}", f"{self.name}.chunk{k}", loop)
            of = f"i64 0, i64 {loop.iterations}, i64 1, ptr @{self.name}.chunks{k}, ptr %context"
            calls.append(f"  call i32 @torch_parallel_for({of})")
        walk = Walk(self._frame(), None, chunks)
        parts += self._function("last", "ptr %context", walk, declared)
        calls.append(f"  call void @{self.name}.last(ptr %context)")
        return self._module(declared, parts, self._entry(frozenset(), calls, chunks.room))

    def _entry(self, streamed: frozenset[Buffer], called: list[str], room: int = 0) -> list[str]:
        """The kernel itself.

        Args:
            called: what it calls, as `@part`.
            room: bytes of memory for states of chunks.
        """
        parameters = ", ".join(
            [
                *(f"ptr {text}" for text in self.names),
                *(f"i64 {self.given.text(n)}" for n in self.given),
            ]
        )
        lines = [
            f"define i32 @{self.name}({parameters}) #0 {{",
            "entry:",
            f"  %context = alloca [{len(self.names) + 2 + len(self.given)} x ptr], align 64",
        ]
        if room:
            lines.append(f"  %states = alloca [{room} x i8], align 64")
            lines.append(
                f"  %states.at = getelementptr ptr, ptr %context, i64 {len(self.names) + 1}"
            )
            lines.append("  store ptr %states, ptr %states.at, align 8")
        for k, number in enumerate(self.given):
            lines.append(
                f"  %slot.{k} = getelementptr ptr, ptr %context, i64 {len(self.names) + 2 + k}"
            )
            lines.append(f"  store i64 {self.given.text(number)}, ptr %slot.{k}, align 8")
        for k, text in enumerate(self.names):
            lines.append(f"  %to.{k} = getelementptr ptr, ptr %context, i64 {k}")
            lines.append(f"  store ptr {text}, ptr %to.{k}, align 8")
        lines.append(f"  %status = getelementptr ptr, ptr %context, i64 {len(self.names)}")
        lines.append("  store i32 0, ptr %status")
        part = f"@{self.name}.part"
        if streamed:
            lines.append("  %bits.0 = or i64 0, 0")
            written = [
                text
                for buffer, text in zip(self.buffers, self.names, strict=True)
                if buffer in streamed
            ]
            for k, text in enumerate(written):
                lines.append(f"  %address.{k} = ptrtoint ptr {text} to i64")
                lines.append(f"  %bits.{k + 1} = or i64 %bits.{k}, %address.{k}")
            lines.append(f"  %odd = and i64 %bits.{len(written)}, {memory.LINE - 1}")
            lines.append("  %even = icmp eq i64 %odd, 0")
            lines.append(f"  %run = select i1 %even, ptr @{self.name}.streamed, ptr {part}")
            part = "%run"
        lines.extend(line.replace("@part", part) for line in called)
        return [*lines, "  %found = load i32, ptr %status", "  ret i32 %found", "}"]

    def _run(self) -> list[str]:
        """The call of `@part`, by several threads where that is worth it."""
        if self._depends():
            return self._run_as_it_comes()
        steps, grain = self._steps(), self._grain()
        if grain:
            arguments = f"i64 0, i64 {steps}, i64 {grain}, ptr @part, ptr %context"
            return [f"  call i32 @torch_parallel_for({arguments})"]
        return [f"  call void @part(i64 0, i64 {steps}, ptr %context)"]

    def _run_as_it_comes(self) -> list[str]:
        """The same where the number of steps is known in the call only."""
        loop = self.parts
        assert loop is not None
        inner = self.given.text(self.work)
        several = "i64 0, i64 %steps, i64 %grain, ptr @part, ptr %context"
        return [
            f"  %up = add i64 {self.given.text(loop.extent)}, {loop.step - 1}",
            f"  %steps = udiv i64 %up, {loop.step}",
            f"  %is_little = icmp slt i64 {inner}, 1",
            f"  %each = select i1 %is_little, i64 1, i64 {inner}",
            f"  %worth = udiv i64 {self.host.grain}, %each",
            "  %is_much = icmp slt i64 %worth, 1",
            "  %grain = select i1 %is_much, i64 1, i64 %worth",
            "  %is_short = icmp sle i64 %steps, %grain",
            "  br i1 %is_short, label %alone, label %together",
            "alone:",
            "  call void @part(i64 0, i64 %steps, ptr %context)",
            "  br label %done",
            "together:",
            f"  call i32 @torch_parallel_for({several})",
            "  br label %done",
            "done:",
        ]

    def _depends(self) -> bool:
        """Whether it is known only in the call how often the shared loop and those in it run."""
        return self.parts is not None and (varies(self.parts.extent) or varies(self.work))

    def _streamed(self) -> frozenset[Buffer]:
        """Outputs of half the last cache and more: they are written past it.

        What has been read lies in it, too, and a normal store reads the line it writes to. An RMS
        norm of 2048 x 2048 float32 takes 1.1 ms so, and 1.5 to 2.1 otherwise; with a sum of its
        result after it 2.0, and 3.1.
        """
        stores = self.schedule.kernel.stores
        size = sum(example(span(store.buffer)) * store.buffer.dtype.itemsize for store in stores)
        if 2 * size < self.host.cache:
            return frozenset()
        return frozenset(store.buffer for store in stores if store.combine is None)

    def _steps(self) -> int:
        """How many steps the shared loop has."""
        return 1 if self.parts is None else self.parts.iterations

    def _grain(self) -> int:
        """Steps that are worth a thread; 0 where the whole is not worth two."""
        if self.parts is None:
            return 0
        grain = max(1, self.host.grain // max(self.work, 1))
        return grain if self._steps() > grain else 0


def _driver(name: str, part: str, loop: Loop) -> list[str]:
    """The function that runs the chunks from `%from` to `%to`."""
    return f"""define internal void @{name}(i64 %from, i64 %to, ptr %context) #0 {{
entry:
  %some = icmp slt i64 %from, %to
  br i1 %some, label %chunk, label %end
chunk:
  %k = phi i64 [ %from, %entry ], [ %next, %chunk ]
  %low = mul i64 %k, {loop.step}
  %far = add i64 %low, {loop.step}
  %less = icmp slt i64 %far, {loop.extent}
  %high = select i1 %less, i64 %far, i64 {loop.extent}
  call void @{part}(i64 %low, i64 %high, ptr %context, i64 %k)
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %to
  br i1 %more, label %chunk, label %end
end:
  ret void
}}
""".splitlines()


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in f"b{name}")
