"""Triton source for a schedule: a module with one kernel."""

from __future__ import annotations

from collections.abc import Iterable

from jitpkg.codegen.fusion.kernel import Schedule
from jitpkg.codegen.ir import legality
from jitpkg.codegen.ir.nodes import Axis, Extent, written
from jitpkg.codegen.ir.text import all_axes, axis_names, text_of_store
from jitpkg.codegen.triton.frame import Frame, Value
from jitpkg.codegen.triton.source import Source
from jitpkg.codegen.triton.target import Target
from jitpkg.codegen.triton.tiles import Plan, Tile, plan
from jitpkg.codegen.triton.walk import Walk, positions

NOTHING: frozenset[str] = frozenset()


def printed(
    schedule: Schedule, target: Target, name: str = "kernel", given: Iterable[Extent] = ()
) -> Source:
    """The source of a kernel with this name.

    What a caller must know:
    - Its pointers are those of the kernel's inputs, and then of its outputs; `given` are the first
      of its numbers. No number is specialised: one that is 1 is passed like any other.
    - Where an expression of the grid is 0, there is nothing to do, and no launch.
    - Where `"jl.checked("` stands in the text, indices come from the data. It is to be compiled
      with `debug=True` (and `sanitize_overflow=False`, since offsets of positions that are masked
      may wrap around); an index out of range is then an assertion on the device, and never read.
      Under the interpreter it is an IndexError.
    - Stores into what a kernel combines with (`Store.combine`) are atomic: in no order.
    - Numbers and indices have 32 bits or, where `wide`, 64.

    Raises:
        IllegalNode: the kernel breaks a rule of the IR.
        NotPrinted: Triton cannot say it; ATen's own kernels should compute it, without a warning.
    """
    kernel = schedule.kernel
    for store in kernel.stores:
        legality.check_store(store, kernel.axes)
    names = axis_names(all_axes(kernel.axes, written(kernel.stores)))
    made = plan(schedule, target)
    return _Printer(schedule, made, names, name, given).source()


class _Printer:
    def __init__(
        self,
        schedule: Schedule,
        made: Plan,
        names: dict[Axis, str],
        name: str,
        given: Iterable[Extent],
    ) -> None:
        self.schedule = schedule
        self.plan = made
        self.name = name
        self.frame = Frame(made, names)
        for number in given:
            self.frame.number(number)
        kernel = schedule.kernel
        self.buffers = [*kernel.inputs, *kernel.outputs]
        for buffer in self.buffers:
            self.frame.pointers[buffer] = self.frame.fresh(f"{buffer.name}_ptr")

    def source(self) -> Source:
        frame = self.frame
        grid = self._grid()
        walk = Walk(frame, self.schedule)
        for tile in dict.fromkeys(self.plan.tiles.values()):
            if not tile.looped:
                positions(frame, tile, f"tl.arange(0, {tile.block})")
        walk.block(self.plan.outer)
        walk.block(self.plan.body)
        body = frame.lines or ["    pass"]
        if self.plan.wide:
            numbers = [f"n{k}" for k in range(len(frame.numbers))]
            body = [f"    {n} = tl.cast({n}, tl.int64)" for n in numbers] + body
        blocks = [block for block, _ in self.plan.configs[0].blocks]
        parameters = [
            *(frame.pointers[buffer] for buffer in self.buffers),
            *(f"n{k}" for k in range(len(frame.numbers))),
            *(f"{block}: tl.constexpr" for block in blocks),
        ]
        text = [
            *self._comments(),
            "import triton",
            "import triton.language as tl",
            "",
            "from jitpkg.codegen.triton import library as jl",
            "",
            "",
            "@triton.jit",
            f"def {self.name}({', '.join(parameters)}):",
            *body,
            "",
        ]
        return Source(
            self.name,
            "\n".join(text),
            tuple(buffer.dtype for buffer in self.buffers),
            tuple(frame.numbers),
            self.plan.wide,
            (grid,),
            self.plan.configs,
        )

    def _comments(self) -> list[str]:
        kernel, names = self.schedule.kernel, self.frame.names
        lines = [f"# {kernel.name}: " + ", ".join(f"{names[a]} < {a.extent}" for a in kernel.axes)]
        if kernel.ops:
            lines.append(f"# Computes {', '.join(kernel.ops)}:")
        for store in kernel.stores:
            lines.extend(f"#   {line}" for line in text_of_store(store, names))
        return [line.rstrip() for line in lines]

    def _grid(self) -> str:
        """Prints where the program stands; returns how many programs there are."""
        frame, plan = self.frame, self.plan
        units: list[Axis | Tile] = [*plan.rows, *plan.grid]
        counts = []
        for unit in units:
            extent = frame.number(unit.extent)
            counts.append(extent if isinstance(unit, Axis) else f"cdiv({extent}, {unit.block})")
        if not units:
            return "1"
        pid = "tl.program_id(0)"
        if plan.wide:
            pid += ".to(tl.int64)"
        rest = frame.named("pid", pid) if len(units) > 1 else pid
        for k in reversed(range(len(units))):
            unit = units[k]
            count = counts[k] if isinstance(unit, Axis) else f"tl.{counts[k]}"
            at = f"({rest} % {count})" if k else rest
            if isinstance(unit, Axis):
                name = frame.fixed(unit)
                frame.line(f"{name} = {at}")
                frame.define(unit, Value(name, NOTHING))
            else:
                start = f"{at} * {unit.block} + tl.arange(0, {unit.block})"
                positions(frame, unit, start)
                frame.active[unit.dim] = unit
            if k:
                rest = (
                    f"({rest} // {count})" if k == 1 else frame.named("rest", f"{rest} // {count}")
                )
        return " * ".join(counts)
