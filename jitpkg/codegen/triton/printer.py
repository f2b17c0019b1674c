"""Triton source for a schedule: a module with one kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jitpkg.codegen.fusion.kernel import Kernel, Schedule
from jitpkg.codegen.ir import legality
from jitpkg.codegen.ir.nodes import Axis, Extent, written
from jitpkg.codegen.ir.text import all_axes, axis_names, text_of_store
from jitpkg.codegen.triton.configs import configs, is_wide
from jitpkg.codegen.triton.dims import Dim, Dims, dims
from jitpkg.codegen.triton.frame import Frame, Value
from jitpkg.codegen.triton.source import Source
from jitpkg.codegen.triton.stages import scheduled
from jitpkg.codegen.triton.target import Target
from jitpkg.codegen.triton.walk import Walk


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
    made = scheduled(schedule)
    found = dims(made)
    tried, wide = configs(schedule, found, target), is_wide(schedule, found)
    frame = Frame(found, names, tried, wide=wide)
    for number in given:
        frame.number(number)
    buffers = (*kernel.inputs, *kernel.outputs)
    for buffer in buffers:
        frame.pointers[buffer] = frame.fresh(f"{buffer.name}_ptr")
    grid = _grid(frame, found)
    _body(frame, made, found)
    parameters = [
        *frame.pointers.values(),
        *(f"n{k}" for k in range(len(frame.numbers))),
        *(f"{block}: tl.constexpr" for block, _ in tried[0].blocks),
    ]
    text = [
        *_comments(kernel, names),
        "import triton",
        "import triton.language as tl",
        "",
        "from jitpkg.codegen.triton import library as jl",
        "",
        "",
        "@triton.jit",
        f"def {name}({', '.join(parameters)}):",
        *(f"    n{k} = tl.cast(n{k}, tl.int64)" for k in range(len(frame.numbers)) if wide),
        *(frame.lines or ["    pass"]),
        "",
    ]
    pointers = tuple(buffer.dtype for buffer in buffers)
    return Source(name, "\n".join(text), pointers, tuple(frame.numbers), wide, (grid,), tried)


def _body(frame: Frame, made: Schedule, found: Dims) -> None:
    """Prints what a program does."""
    walk = Walk(frame, made)
    for dim in found.inside.values():
        if not dim.looped:
            frame.begin(dim, f"tl.arange(0, {dim.block})")
    walk.block(found.body)


def _comments(kernel: Kernel, names: Mapping[Axis, str]) -> list[str]:
    lines = [f"# {kernel.name}: " + ", ".join(f"{names[a]} < {a.extent}" for a in kernel.axes)]
    if kernel.ops:
        lines.append(f"# Computes {', '.join(kernel.ops)}:")
    for store in kernel.stores:
        lines.extend(f"#   {line}" for line in text_of_store(store, names))
    return [line.rstrip() for line in lines]


def _grid(frame: Frame, found: Dims) -> str:
    """Prints where the program stands; returns how many programs there are."""
    units: list[Axis | Dim] = [*found.rows, *found.grid]
    counts = []
    for unit in units:
        extent = frame.number(unit.extent)
        counts.append(extent if isinstance(unit, Axis) else f"cdiv({extent}, {unit.block})")
    if not units:
        return "1"
    pid = "tl.program_id(0).to(tl.int64)" if frame.wide else "tl.program_id(0)"
    rest = frame.named("pid", pid) if len(units) > 1 else pid
    for k in reversed(range(len(units))):
        unit = units[k]
        count = counts[k] if isinstance(unit, Axis) else f"tl.{counts[k]}"
        at = f"({rest} % {count})" if k else rest
        if isinstance(unit, Axis):
            name = frame.fixed(unit)
            frame.line(f"{name} = {at}")
            frame.define(unit, Value(name, frozenset()))
        else:
            frame.begin(unit, f"{at} * {unit.block} + tl.arange(0, {unit.block})")
            frame.active[unit.letter] = unit
        if k:
            rest = f"({rest} // {count})" if k == 1 else frame.named("rest", f"{rest} // {count}")
    return " * ".join(counts)
