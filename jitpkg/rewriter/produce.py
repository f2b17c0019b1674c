"""From the values of one call to a new entry: trace, compile the graph, generate the code."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from jitpkg import events
from jitpkg.code.versions import NULL_BELOW_CALLABLE
from jitpkg.config import Options
from jitpkg.errors import BackendError, GraphBreak
from jitpkg.facts.answers import Facts
from jitpkg.guards.explain import shown
from jitpkg.guards.kinds import Guard
from jitpkg.messages import break_message
from jitpkg.rewriter.compiler import Compiler
from jitpkg.rewriter.entry import (
    Entry,
    Interface,
    Outputs,
    Run,
    complete_guards,
    exit_values,
    operands_of,
    write_entry,
    write_idle_entry,
)
from jitpkg.rewriter.handover import Handover
from jitpkg.rewriter.originals import ORIGINALS
from jitpkg.rewriter.rebuild import can_rebuild, needed, reachable
from jitpkg.tracer import reasons
from jitpkg.tracer.trace import Left, Returned, Trace, trace
from jitpkg.tracer.values import NULL


@dataclass(frozen=True, eq=False, slots=True)
class Produced:
    """A new entry, and the points at which the code must be hooked now."""

    entry: Entry
    hooks: tuple[int, ...]
    looks_at_frames: bool
    """Whether this call would notice the frame of a resume function."""


@dataclass
class _Tracing:
    """What all traces of the process share, and the lock that one holds."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    facts: Facts = field(default_factory=Facts)


_TRACING = _Tracing()


def produce(
    name: str,
    handover: Handover,
    arguments: tuple[object, ...],
    interface: Interface,
    compiler: Compiler,
    options: Options,
    otherwise: Run,
) -> Produced | None:
    """Make an entry; None where another thread is tracing.

    Raises:
        GraphBreak: the whole function was to be one graph.
        BackendError: the backend failed.
    """
    if not _TRACING.lock.acquire(blocking=False):
        return None
    try:
        traced = _traced(name, handover, arguments, compiler, options)
        guards = complete_guards(traced, interface)
        outputs = _outputs(traced, handover)
        if _is_idle(traced, outputs, options):
            idle = write_idle_entry(name, guards, traced, interface, otherwise)
            return _produced(idle, traced, handover)
        return _compiled(name, traced, guards, outputs, handover, interface, compiler, otherwise)
    finally:
        _TRACING.lock.release()


def _traced(
    name: str,
    handover: Handover,
    arguments: tuple[object, ...],
    compiler: Compiler,
    options: Options,
) -> Trace:
    points, h = handover.points, handover.h
    began = time.perf_counter()
    traced = trace(
        handover.start(arguments),
        options,
        _TRACING.facts,
        original_code=ORIGINALS.of,
        can_leave=lambda p: points.exit_refusal(h, p) is None,
        reachable=reachable,
        can_rebuild=can_rebuild,
    )
    function = name.rpartition("#")[0]
    events.STREAM.emit(events.Traced(function, name, time.perf_counter() - began))
    if isinstance(traced.exit, Left):
        graph_break = traced.exit.graph_break
        events.STREAM.emit(events.Broke(function, graph_break))
        if compiler.fullgraph and graph_break.reason not in _NO_BREAKS:
            raise GraphBreak(break_message(graph_break), graph_break)
    return traced


_NO_BREAKS = (reasons.RAISES, reasons.GENERATOR, reasons.FORCED)
"""Reasons that `fullgraph=True` does not mind: the program leaves, or is suspended."""


def _is_idle(traced: Trace, outputs: Outputs, options: Options) -> bool:
    """Without a graph, the original code is as good, unless what it calls may have one."""
    forced = options.break_anywhere or options.break_before is not None
    return not traced.op_count and not forced and outputs.called is None


def _hooks(traced: Trace, handover: Handover) -> tuple[int, ...]:
    """Where the code must be hooked so that it goes on compiled behind the break."""
    if isinstance(traced.exit, Returned):
        return ()
    point = traced.exit.point
    if traced.exit.graph_break.reason is reasons.FORCED:
        return (point,)
    points = handover.points
    return tuple(
        h for h in points.behind(point) if not _leaves_at_once(points.instructions[h].opname)
    )


def _leaves_at_once(opname: str) -> bool:
    return opname in ("RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS")


def _compiled(
    name: str,
    traced: Trace,
    guards: list[Guard],
    outputs: Outputs,
    handover: Handover,
    interface: Interface,
    compiler: Compiler,
    otherwise: Run,
) -> Produced:
    module = _module(name, traced, outputs)
    graph = _compile_graph(name, traced, module, compiler)
    entry = write_entry(
        name, traced, guards, outputs, interface, graph, module, compiler.twin, otherwise
    )
    function = name.rpartition("#")[0]
    texts = tuple(shown(guard) for guard in guards)
    events.STREAM.emit(events.EntryAdded(function, name, texts, entry.source))
    return _produced(entry, traced, handover)


def _produced(entry: Entry, traced: Trace, handover: Handover) -> Produced:
    looks = isinstance(traced.exit, Left) and reasons.looks_at_frames(traced.exit.graph_break)
    return Produced(entry, _hooks(traced, handover), looks)


def _outputs(traced: Trace, handover: Handover) -> Outputs:
    if isinstance(traced.exit, Returned):
        return exit_values(traced, (), (), None)
    locals_, depths = handover.output_places(traced.exit.point)
    called = _called(traced.exit, handover)
    return exit_values(traced, locals_, depths, called if called in depths else None)


def _called(exit_: Left, handover: Handover) -> int | None:
    """The stack depth of a callable in which the trace broke, and which Python calls now."""
    if len(exit_.graph_break.stack) < 2:
        return None
    instructions = handover.points.instructions
    call = next((i for i in instructions[exit_.point :][:3] if i.opname not in _BEFORE_CALL), None)
    match call.opname if call else "":
        case "CALL":
            bottom = len(exit_.stack) - call.arg - 2 if call else 0
        case "CALL_KW":
            bottom = len(exit_.stack) - call.arg - 3 if call else 0
        case "CALL_FUNCTION_EX":
            bottom = len(exit_.stack) - 3 - (call.arg & 1) if call else 0
        case _:
            return None
    if NULL_BELOW_CALLABLE and exit_.stack[bottom] is NULL:
        return bottom + 1
    return bottom


_BEFORE_CALL = ("KW_NAMES", "PRECALL")


def _module(name: str, traced: Trace, outputs: Outputs) -> fx.GraphModule:
    """The graph with its output: every tensor that Python needs behind it."""
    _, tensors = needed(traced.heap, [*outputs.values, *operands_of(traced)])
    traced.graph.output(tuple(traced.nodes(tensor) for tensor in tensors))
    return fx.GraphModule(torch.nn.Module(), traced.graph, class_name=_class_name(name))


def _class_name(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def _compile_graph(
    name: str, traced: Trace, module: fx.GraphModule, compiler: Compiler
) -> Callable[..., Any]:
    if not traced.op_count:
        return module.forward
    began = time.perf_counter()
    examples = [i.example for i in traced.inputs]
    try:
        graph = compiler.backend(module, examples)
    except Exception as error:
        raise BackendError(f"the backend failed to compile the graph {name}: {error}") from error
    if not callable(graph):
        raise BackendError(f"the backend returned {graph!r}, which is not callable")
    events.STREAM.emit(
        events.GraphCompiled(
            name.rpartition("#")[0], name, module, traced.op_count, time.perf_counter() - began
        )
    )
    return graph
