"""docs/hooks.md: hooks, stubs and resume functions. The prose is in hooks.in.md."""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tomllib
from contextlib import redirect_stdout
from dis import dis
from pathlib import Path
from types import CodeType

from jitpkg.code.analysis import slot_names
from jitpkg.rewriter.door import Door
from jitpkg.rewriter.emitter import Emitter, Hook
from jitpkg.rewriter.points import Points
from pages import counted as program
from pages.text import ROOT, filled, scrubbed

TEMPLATE = Path(__file__).parent / "hooks.in.md"


class Region:
    """What a hook calls; it is never asked here."""

    run = None


def page() -> str:
    text = TEMPLATE.read_text(encoding="utf-8")
    assert _refusals() == _listed(text), _refusals() ^ _listed(text)
    return filled(text, _artefacts())


def _refusals() -> set[str]:
    """The reasons why a point can be no hook."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(Points.refusal)))
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    return {node.value for node in returned if isinstance(node, ast.Constant) and node.value}


def _listed(text: str) -> set[str]:
    """The rows of the page's table of them."""
    table = text.partition("## Points that are no hooks")[2].partition("They are bookkeeping")[0]
    rows = re.findall(r"^\| ([^|]*) \|", table, flags=re.MULTILINE)
    return {row for row in rows if row != "why" and not row.startswith("**")}


def _artefacts() -> dict[str, str]:
    """Everything that the page shows, by name."""
    code = program.counted.__code__
    points = Points.of(code)
    h = next(i for i, ins in enumerate(points.instructions) if ins.opname == "BINARY_OP")
    region = Region()
    emitter = Emitter(points, {h: Hook(Door(region), (h,))})  # type: ignore[arg-type]
    hooked = _emitted(emitter.hooked())
    resume = emitter.resume(h, points.analysis.kept(h))
    labels = [k for k, line in enumerate(hooked) if ">>" in line]
    *_, restore, returns, leave, raised, stays = labels
    tests = tomllib.loads((ROOT / "tests/stdlib/modules.toml").read_text(encoding="utf-8"))
    modules = {module for modules in tests["library"].values() for module in modules}
    return {
        "source": inspect.getsource(program.counted).rstrip(),
        "points": _points(points),
        "h": str(h),
        "hook": "\n".join(hooked[:restore]),
        "restore": "\n".join(hooked[restore:returns]),
        "leave": "\n".join(hooked[leave:raised]),
        "stays": "\n".join(hooked[stays:]),
        "entered": _entered(resume),
        "modules": str(len(modules)),
        "language": str(len(tests["language"]["tests"])),
    }


def _points(points: Points) -> str:
    """What is known at each point."""
    analysis = points.analysis
    lines = [f"      {'instruction':32} stack    slots  kept"]
    for i in range(len(points.instructions)):
        stack = analysis.stack(i) if analysis.reachable(i) else ""
        slots = analysis.slots(i) if analysis.reachable(i) else ""
        why = points.refusal(i)
        shown = f"{i:4}  {_shown(points, i):32} {stack:8} {slots:6} {analysis.kept(i):4}"
        lines.append(f"{shown}   {why}" if why else shown)
    return "\n".join(line.rstrip() for line in lines)


def _shown(points: Points, i: int) -> str:
    ins = points.instructions[i]
    if ins.target is not None:
        return f"{ins.opname} to {ins.target}"
    if ins.opname.endswith("_FAST"):
        return f"{ins.opname} {slot_names(points.code)[ins.arg]}"
    return ins.opname


def _emitted(code: CodeType) -> list[str]:
    """The disassembly from the hook on."""
    lines = _listing(code)
    first = next(k for k, line in enumerate(lines) if "'Region'" in line)
    return lines[first:]


def _listing(code: CodeType) -> list[str]:
    text = io.StringIO()
    with redirect_stdout(text):
        dis(code, depth=0)
    lines = scrubbed(text.getvalue()).splitlines()
    end = next((k for k, line in enumerate(lines) if line.startswith("ExceptionTable")), None)
    return [line for line in lines[:end] if line.strip()]


def _entered(code: CodeType) -> str:
    """The beginning of a resume function."""
    arguments = ", ".join(code.co_varnames[: code.co_argcount])
    lines = _listing(code)
    end = next(k for k, line in enumerate(lines) if "JUMP_FORWARD" in line)
    return "\n".join([f"def counted({arguments}):", *lines[: end + 1], "            …"])
