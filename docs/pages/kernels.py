"""docs/kernels.md: six sines from Python to machine code. The prose is in kernels.in.md.

Nothing is asked of the processor: kernels are scheduled and printed for a `Host` of 512 bits, and
LLVM's target is fixed.
"""

from __future__ import annotations

import inspect
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from importlib.metadata import version
from math import prod
from pathlib import Path

import torch

from jitpkg.codegen.cpu import printer
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.lanes import MANY, MOST, SOME
from jitpkg.codegen.cpu.maker import LONG
from jitpkg.codegen.cpu.stages import stages
from jitpkg.codegen.fusion.interpreter import run_schedule
from jitpkg.codegen.fusion.kernel import Loop, Schedule
from jitpkg.codegen.fusion.statements import loops
from jitpkg.codegen.fusion.text import text_of_schedule
from jitpkg.native import Output, Signature
from jitpkg.native.entry import entry_text
from jitpkg.native.llvm import CODEGEN_LEVEL, llvm
from pages import sines
from pages.followed import Followed, followed
from pages.text import filled

TEMPLATE = Path(__file__).parent / "kernels.in.md"

HOST = Host(512)
TRIPLE, CPU = "x86_64-unknown-linux-gnu", "skylake-avx512"

SIZES = ((64, 64), (128, 128), (512, 512), (2048, 2048))
SIDE_BY_SIDE = (1, 2, 4, 8)
PASSES = (
    *("live_only", "vectorise", "rows_together", "share_chunks", "hoist_rows", "keep_rows"),
    *("share_parts", "interchange", "turn_rows", "block_sums", "live_only", "ask_ahead"),
)


def page() -> str:
    return filled(TEMPLATE.read_text(encoding="utf-8"), _artefacts())


def _artefacts() -> dict[str, str]:
    """Everything that the page shows, by name."""
    found = _waves(512, 512)
    small = _waves(64, 64)
    names, made = zip(*stages(found.loops, HOST), strict=True)
    assert names == PASSES, "the page tells of other passes"
    llvm_ir = printer.llvm_of(found.loops, HOST)
    return {
        "program": inspect.getsource(sines.waves).rstrip(),
        "graph": found.graph,
        "aten": found.aten,
        "kernel": found.kernel,
        "loops": text_of_schedule(found.loops),
        **_changes(found.loops, made),
        "tiles": text_of_schedule(_last(followed(_plus_transposed, *[torch.ones(512, 512)] * 2))),
        "some": f"{SOME:,}",
        "many": f"{MANY:,}",
        "most": f"{MOST:,}",
        "lanes": _lanes(),
        "sine": "\n".join(_sine(llvm_ir, _outermost(made[-1]).lanes)),
        "threads": _line(llvm_ir, "call i32 @torch_parallel_for"),
        "cpu": CPU,
        "version": version("llvmlite"),
        "machine_code": "\n".join(_to_branch(_assembly(printer.llvm_of(small.loops, HOST)))),
        "counts": _counts(found),
        "entry": "\n".join(_entry(found)),
        "agreeing": _agreeing(),
    }


def _plus_transposed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.t() + y


def _waves(*size: int) -> Followed:
    return followed(sines.waves, torch.ones(size))


# Schedules


def _last(of: Followed, host: Host = HOST) -> Schedule:
    *_, (_, made) = stages(of.loops, host)
    return made


def _outermost(schedule: Schedule) -> Loop:
    """Of those that run in lanes or one by one."""
    return next(each for each in loops(schedule.body) if not each.is_split)


def _changes(first: Schedule, made: Iterable[Schedule]) -> dict[str, str]:
    """What each pass does to a tree, by its number."""
    found = {}
    before = text_of_schedule(first).splitlines()
    for k, each in enumerate(made):
        after = text_of_schedule(each).splitlines()
        was = {line.strip() for line in before}
        changed = [f"`{line.strip()}`" for line in after if line.strip() not in was]
        what = "A line of this tree becomes" if len(after) == len(before) else "It adds"
        found[f"pass{k}"] = (
            f"{what} {', '.join(changed)}." if changed else "It leaves this tree as it is."
        )
        before = after
    return found


def _lanes() -> str:
    """The first line of the tree for tensors of several sizes, and the lanes of other hosts."""
    lines = ["| tensor | elements | 512 bits | 256 bits | 128 bits |", "|---|---|---|---|---|"]
    for size in SIZES:
        of = _waves(*size)
        _, head, *_ = (line.strip() for line in text_of_schedule(_last(of)).splitlines())
        others = [str(_outermost(_last(of, Host(bits))).lanes) for bits in (256, 128)]
        shown = " x ".join(map(str, size))
        lines.append(f"| {shown} | {prod(size):,} | `{head}` | {' | '.join(others)} |")
    return "\n".join(lines)


def _agreeing() -> str:
    """How many of the trees, interpreted, do what eager code does."""
    of = _waves(8, 8)
    x = torch.linspace(-3, 3, 64)
    ((given,), (result,)) = of.normal.kernel.inputs, of.normal.kernel.outputs
    trees = [of.loops, *(made for _, made in stages(of.loops, HOST))]
    count = 0
    for tree in trees:
        y = torch.zeros(64)
        run_schedule(tree, {given: x, result: y})
        count += torch.allclose(y, sines.waves(x), rtol=0, atol=1e-6)
    return f"{count} of {len(trees)} trees"


# LLVM IR


def _sine(text: str, lanes: int) -> Iterator[str]:
    """The first of the sines in a kernel's loop, with short types, numbers, and lists of lanes:
    without the polynomials, and with the first of the calls."""
    lines = text.splitlines()
    begin = next(k for k, line in enumerate(lines) if line.startswith("loop."))
    end = next(k for k, line in enumerate(lines) if line.startswith("usual.")) + 1
    square = next(k for k, line in enumerate(lines) if "fmul" in line)
    first_bits = next(k for k, line in enumerate(lines) if "bitcast" in line)
    first_call = next(k for k, line in enumerate(lines) if "call" in line and "@Sleef" in line)
    chosen = next(k for k, line in enumerate(lines) if k > first_call and "select" in line)
    for part in ((begin, square), (first_bits, first_call), (chosen, end)):
        if part[0] != begin:
            yield "  …"
        for line in lines[part[0] : part[1] + 1]:
            for kind, letter in (("float", "F"), ("i32", "I"), ("i1", "B")):
                line = line.replace(f"<{lanes} x {kind}>", letter)
            line = line.replace(f".v{lanes}f32", "")
            line = re.sub(r"splat \(\w+ ([^\s)]+)\)", lambda found: _number(found[1]), line)
            yield re.sub(r"<i32 (\d+), .* i32 (\d+)>", r"<\1 … \2>", line)


def _number(literal: str) -> str:
    """A literal of LLVM's in decimal."""
    if not literal.startswith("0x"):
        return literal
    (value,) = struct.unpack(">d", bytes.fromhex(literal[2:]))
    return f"{value:.9g}"


def _line(text: str, begin: str) -> str:
    (line,) = (line.strip() for line in text.splitlines() if line.strip().startswith(begin))
    return line


# Machine code


def _assembly(text: str) -> list[str]:
    """What LLVM's code generator makes of a module, as `native.llvm` asks it to."""
    binding = llvm().binding
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(TRIPLE).create_target_machine(
        cpu=CPU, opt=CODEGEN_LEVEL, codemodel="jitdefault", jit=True
    )
    with (
        closing(binding.create_context()) as context,
        closing(binding.parse_assembly(text, context)) as module,
    ):
        module.triple, module.data_layout = TRIPLE, str(machine.target_data)
        return str(machine.emit_assembly(module)).splitlines()


def _loop(lines: list[str]) -> list[str]:
    """The loop of a kernel that has one, from its label to the jump back; what is rare lies behind
    it."""
    begin, label = next((k, line) for k, line in enumerate(lines) if line.startswith(".LBB0_"))
    back = label.removesuffix(":")
    end = next(k for k, line in enumerate(lines) if k > begin and line.split()[1:] == [back])
    return lines[begin : end + 1]


def _to_branch(lines: list[str]) -> Iterator[str]:
    """The loop, up to the first jump."""
    for line in _loop(lines):
        name, *operands = line.split(maxsplit=1)
        yield f"    {name:12} {' '.join(operands)}" if operands else name
        if name.startswith("j"):
            return


def _counts(of: Followed) -> str:
    """How many instructions the loop has, for several numbers of lanes."""
    lines = [
        "| lanes | registers | instructions | per 16 elements | on the stack, per 16 elements |",
        "|---|---|---|---|---|",
    ]
    for many in SIDE_BY_SIDE:
        host = Host(512, side_by_side=many)
        lanes = _outermost(_last(of, host)).lanes
        code = _loop(_assembly(printer.llvm_of(of.loops, host)))
        instructions = [line for line in code if line.startswith("\t") and line[1] != "."]
        stack = sum("(%rsp)" in line for line in instructions)
        per = (f"{count * 16 / lanes:.0f}" for count in (len(instructions), stack))
        lines.append(f"| {lanes} | {many} | {len(instructions)} | {' | '.join(per)} |")
    return "\n".join(lines)


# The function that CPython calls


def _entry(of: Followed) -> Iterator[str]:
    """Of the entry point: its head, and what it calls."""
    kernel, outputs = of.normal.kernel, of.normal.outputs
    signature = Signature(
        inputs=len(kernel.inputs),
        outputs=tuple(Output(out.dtype, out.sizes, out.strides) for out in outputs),
        releases_gil=sum(x.sizes[0] for x in (*kernel.inputs, *kernel.outputs)) >= LONG,
    )
    lines = entry_text("entry", signature, "kernel", "tensors").splitlines()
    begin = next(k for k, line in enumerate(lines) if line.startswith("define"))
    for line in lines[begin:]:
        if re.match(r"define|\s+(%\S+ = )?(call|ret ptr %)|}", line):
            yield line
