"""docs/one-call.md: one call, file by file. The prose is in one_call.in.md."""

from __future__ import annotations

import dis
import inspect
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any
from unittest import mock

import torch

import jitpkg
from jitpkg import events, native
from jitpkg.code.dialect import translate
from jitpkg.guards.sources import described
from jitpkg.messages import break_message, counted, place
from jitpkg.rewriter.follow import dispatcher_of
from jitpkg.tracer import machine
from jitpkg.tracer.values import Constant, Known, Lazy, Marker, Method, Tensor, Value
from jitpkg.tracer.vm import VM
from pages import clipped as program
from pages.text import filled, scrubbed

TEMPLATE = Path(__file__).parent / "one_call.in.md"


def page() -> str:
    # As where no kernel has started native code yet.
    with mock.patch.object(native, "evaluator", return_value=None):
        found = _artefacts()
    return filled(TEMPLATE.read_text(encoding="utf-8"), found)


def _artefacts() -> dict[str, str]:
    """Everything that the page shows, by name."""
    function = FunctionType(program.clipped.__code__, vars(program), "clipped")
    original = function.__code__
    found = {
        "source": inspect.getsource(program.clipped).rstrip(),
        "original": _disassembled(original),
        "dialect": _dialect(original),
    }
    jitpkg.jit(function, backend="eager")
    found["hooked"] = _hook(function.__code__)

    with _steps() as steps, _heard() as first:
        function(torch.ones(3))
    found["steps"] = "\n".join(steps[: steps.index("")])
    found["first_events"] = _event_names(first)
    compiled = [e for e in first if isinstance(e, events.GraphCompiled)]
    entries = [e for e in first if isinstance(e, events.EntryAdded)]
    broke = next(e for e in first if isinstance(e, events.Broke))
    found["break"] = scrubbed(break_message(broke.graph_break))
    for k in (0, 1):
        found[f"graph_{k}"] = compiled[k].graph.code.strip()  # type: ignore[attr-defined]
        found[f"entry_{k}"] = _entry(entries[k].source)
    found["guards_0"] = "\n".join(entries[0].guards)
    found["straight"] = _straight_line(function)
    found["resume"] = _resume(function)

    for call in ("second", "third"):
        with _heard() as heard:
            function(torch.ones(3))
        found[f"{call}_events"] = _event_names(heard)
    found["hooked_again"] = _midst(function.__code__)
    found["exits"] = _exits(function.__code__)

    with _heard() as other:
        function(torch.zeros(3))
    found["other_events"] = _event_names(other)
    found["other_graph"] = next(
        e.graph.code.strip()  # type: ignore[attr-defined]
        for e in other
        if isinstance(e, events.GraphCompiled)
    )

    with _heard() as larger:
        function(torch.ones(4))
    again = next(e for e in larger if isinstance(e, events.Recompiled))
    found["recompiled"] = "\n".join(again.reasons)
    found["regions"] = _regions(function)
    return found


# Events


@contextmanager
def _heard() -> Iterator[list[events.Event]]:
    found: list[events.Event] = []
    with events.STREAM.listening(found.append):
        yield found


def _event_names(heard: list[events.Event]) -> str:
    lines = []
    for event in heard:
        match event:
            case events.Traced(entry=entry):
                lines.append(f"Traced         {entry}")
            case events.Broke(graph_break=graph_break):
                assert graph_break.where is not None
                lines.append(f"Broke          {graph_break.reason.code} at {_place(graph_break)}")
            case events.GraphCompiled(entry=entry, op_count=count):
                lines.append(f"GraphCompiled  {entry}: {counted(count, 'op')}")
            case events.EntryAdded(entry=entry, guards=guards):
                lines.append(f"EntryAdded     {entry}: {len(guards)} guards")
            case events.CodeEmitted(emitted=emitted):
                lines.append(f"CodeEmitted    {len(emitted.co_code)} bytes")
            case events.Recompiled(reasons=reasons):
                lines.append(f"Recompiled     because {reasons[-1]}")
    return "\n".join(lines) or "(nothing)"


def _place(graph_break: Any) -> str:
    return place(graph_break.where).rpartition("/")[2]


# Bytecode


def _disassembled(code: CodeType) -> str:
    text = io.StringIO()
    dis.dis(code, file=text, depth=0)
    return scrubbed(text.getvalue()).strip("\n")


def _listing(code: CodeType) -> list[str]:
    return [line for line in _disassembled(code).splitlines() if line.strip()]


def _end_of_original(lines: list[str]) -> int:
    """The line after the last original instruction: what is emitted begins with the first hook."""
    first_hook = next(k for k, line in enumerate(lines) if "'Region'" in line)
    return first_hook - 1


def _hook(code: CodeType) -> str:
    """The code with its first hook: the jump to it, and what it does."""
    lines = _listing(code)
    emitted = lines[_end_of_original(lines) :]
    end = next(k for k, line in enumerate(emitted) if "STORE_FAST" in line and ".t2" in line)
    return "\n".join([*lines[:3], "            …", *emitted[:end], "            …"])


def _midst(code: CodeType) -> str:
    """The original instructions, with a jump in place of each hook."""
    lines = _listing(code)
    return "\n".join(lines[: _end_of_original(lines)])


def _exits(code: CodeType) -> str:
    """How the first hook goes on at each exit."""
    lines = _listing(code)
    emitted = lines[_end_of_original(lines) :]
    begin = next(k for k, line in enumerate(emitted) if "UNPACK_SEQUENCE" in line)
    end = next(k for k, line in enumerate(emitted) if "POP_TOP" in line)
    *_, newest = (line for line in emitted[begin:end] if "IF_TRUE" in line)
    offset = newest.rpartition("(to ")[2].rstrip(")")
    at = next(k for k, line in enumerate(emitted) if f">>  {offset} " in line)
    return "\n".join([*emitted[begin:end], "            …", *emitted[at : at + 6]])


def _resume(function: FunctionType) -> str:
    """The beginning of the code that the first call went on in."""
    dispatcher = dispatcher_of(function)
    assert dispatcher is not None
    (code,) = (code for (_, base), code in dispatcher._resumes.items() if base == 0)
    lines = _listing(code)
    begin = next(k for k, line in enumerate(lines) if "JUMP_FORWARD" in line)
    at = next(k for k, line in enumerate(lines) if "POP_JUMP_FORWARD_IF_FALSE" in line)
    arguments = ", ".join(code.co_varnames[: code.co_argcount])
    shown = [*lines[: begin + 1], "            …", *lines[at : at + 2], "            …"]
    return f"def clipped({arguments}):\n" + "\n".join(shown)


# The dialect, and what its operations do


def _dialect(code: CodeType) -> str:
    made = translate(code)
    lines = []
    for k, op in enumerate(made.ops):
        arg = "" if op.arg is None else repr(op.arg)
        if op.name.endswith("_LOCAL") and isinstance(op.arg, int):
            arg = made.slots[op.arg]
        target = "" if op.target is None else f" to {op.target}"
        lines.append(f"{k:4}  {op.name:24} {arg}{target}".rstrip())
    return "\n".join(lines)


@contextmanager
def _steps() -> Iterator[list[str]]:
    """Each operation that is traced, with the stack after it; an empty line after each trace."""
    lines: list[str] = []

    class Recording(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            handler = super().__getitem__(name)

            def recorded(vm: VM, frame: Any, op: Any) -> Any:
                finished = None
                ended = True
                try:
                    finished = handler(vm, frame, op)
                    ended = finished is not None
                finally:
                    if frame is vm.frames[0]:
                        stack = " | ".join(_shown(vm, value) for value in frame.stack)
                        lines.append(f"{op.name:24} {'(the trace ends)' if ended else stack}")
                        if ended:
                            lines.append("")
                return finished

            return recorded

    with mock.patch.object(machine, "TABLE", Recording(machine.TABLE)):
        yield lines


def _shown(vm: VM, value: Value) -> str:
    match value:
        case Tensor():
            return f"{vm.node(value).name}: {vm.facts(value)}"
        case Lazy(source):
            return f"{described(source)}?"
        case Constant(constant):
            return repr(constant)
        case Method(function, receiver):
            return f"{_shown(vm, function)} of {_shown(vm, receiver)}"
        case Marker():
            return value.name
        case Known(obj):
            return getattr(obj, "__qualname__", repr(obj))
        case _:
            return re.sub(r"\(.*", "", repr(value)).strip("<>")


# Generated code


def _entry(source: str) -> str:
    """An entry, without the long list of the objects that it holds."""
    signature, _, rest = source.partition("):\n")
    shown = signature.partition(", otherwise=")[0]
    return scrubbed(f"{shown}, otherwise=None, …):\n{rest}").rstrip()


def _straight_line(function: FunctionType) -> str:
    """What the backend `eager` made of the first graph."""
    dispatcher = dispatcher_of(function)
    assert dispatcher is not None
    (entry,) = dispatcher.regions[min(dispatcher.regions)].entries
    names = entry.run.__code__.co_varnames[: entry.run.__code__.co_argcount]
    defaults = dict(zip(reversed(names), reversed(entry.run.__defaults__ or ()), strict=False))
    return inspect.getsource(defaults["graph"]).rstrip()


def _regions(function: FunctionType) -> str:
    dispatcher = dispatcher_of(function)
    assert dispatcher is not None
    lines = []
    for h, region in sorted(dispatcher.regions.items()):
        line = dispatcher.points.instructions[h].line
        names = ", ".join(entry.name for entry in region.entries)
        lines.append(f"before instruction {h:2} (line {line}): {names or 'no entry yet'}")
    return "\n".join(lines)
