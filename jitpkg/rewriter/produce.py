"""From the values of one call to a new entry: trace, compile the graph, generate the code."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import field, replace
from types import CodeType
from typing import Any, TypeVar

import torch
from torch import fx

from jitpkg import collector, events, forks, listing
from jitpkg.code.analysis import is_generator
from jitpkg.config import Options
from jitpkg.dataclass import dataclass
from jitpkg.errors import BackendError, SizeSpecialized
from jitpkg.facts.answers import Facts
from jitpkg.facts.tensor import TensorFacts, plain_classes
from jitpkg.facts.thread_state import without_default_device
from jitpkg.guards.explain import assumptions, shown
from jitpkg.guards.kinds import Guard
from jitpkg.guards.metadata import TensorIs, varying_dims
from jitpkg.internals import modes
from jitpkg.internals.tensors import BASE
from jitpkg.interrupts import from_outside
from jitpkg.marks import READING, VARIES, Dims
from jitpkg.messages import specialized_message
from jitpkg.rewriter.compiler import Compiler
from jitpkg.rewriter.correctness import verify_graph
from jitpkg.rewriter.entry import (
    Entry,
    Interface,
    Outputs,
    complete_guards,
    exit_values,
    handed,
    write_entry,
    write_idle_entry,
)
from jitpkg.rewriter.failure import can_replay
from jitpkg.rewriter.handover import Handover, called_depth
from jitpkg.rewriter.originals import ORIGINALS
from jitpkg.rewriter.points import Points
from jitpkg.rewriter.references import can_rebuild, needed
from jitpkg.rewriter.telling import not_whole
from jitpkg.tracer import reasons
from jitpkg.tracer.history import History
from jitpkg.tracer.region import Left, Limits
from jitpkg.tracer.trace import Returned, Trace, trace


@dataclass(frozen=True, eq=False, slots=True)
class Produced:
    """A new entry, and the points at which the code must be hooked now."""

    entry: Entry
    hooks: tuple[int, ...]
    looks_at_frames: bool
    """Whether this call would notice the frame of a resume function."""


def is_deep() -> bool:
    """Whether so much of the stack is in use that tracing may have had no room."""
    depth, frame = 0, sys._getframe()
    while (caller := frame.f_back) is not None:
        depth, frame = depth + 1, caller
    return depth + _ROOM > sys.getrecursionlimit()


_ROOM = 600
"""Frames that tracing may need."""


@dataclass
class _Tracing:
    """What all traces of the process share, and the lock that one holds."""

    lock: threading.RLock = field(default_factory=forks.lock)
    thread: int | None = None
    """Which traces. Not even that one takes it twice: what runs while we trace is not traced."""
    facts: Facts = field(default_factory=Facts)


_TRACING = _Tracing()


def produce(
    name: str,
    handover: Handover,
    arguments: tuple[object, ...],
    interface: Interface,
    compiler: Compiler,
    options: Options,
    history: History,
) -> Produced | None:
    """Make an entry; None where another thread is tracing, or this one in the midst of it.

    Raises:
        GraphBreak: the whole function was to be one graph.
        BackendError: the backend failed.
    """
    with events.compiling(name.rpartition("#")[0], name):
        began = time.perf_counter()
        made = _alone(
            lambda: _produce(name, handover, arguments, interface, compiler, options, history)
        )
        if made is None:
            return None
        known = made.entry.seconds
        seconds = {**known, "other": time.perf_counter() - began - sum(known.values())}
        return replace(made, entry=replace(made.entry, seconds=seconds))


def look(
    name: str,
    handover: Handover,
    arguments: tuple[object, ...],
    compiler: Compiler,
    options: Options,
    history: History,
) -> None:
    """Trace, so that the history knows the call's sizes and numbers; nothing is compiled.

    Raises:
        GraphBreak: the whole function was to be one graph.
    """
    _alone(lambda: _traced(name, handover, arguments, compiler, options, history))


T = TypeVar("T")


def _alone(work: Callable[[], T]) -> T | None:
    """What `work` returns; None where another thread is tracing, or this one in the midst of it."""
    thread = threading.get_ident()
    if _TRACING.thread == thread:
        return None
    try:  # an interrupt may come when the lock has been taken and nothing else done
        if not _TRACING.lock.acquire(blocking=False):
            return None
        _TRACING.thread = thread
        try:
            # Nothing is collected from end to end: it would run at once where it is let go.
            with collector.resting(), without_default_device():
                return work()
        finally:
            _TRACING.thread = None
    finally:
        try:  # noqa: SIM105 - a call of ours could be interrupted before it releases the lock
            _TRACING.lock.release()
        except RuntimeError:
            pass  # it is another thread's


def _produce(
    name: str,
    handover: Handover,
    arguments: tuple[object, ...],
    interface: Interface,
    compiler: Compiler,
    options: Options,
    history: History,
) -> Produced:
    began = time.perf_counter()
    traced = _traced(name, handover, arguments, compiler, options, history)
    seconds = {"tracing": time.perf_counter() - began}
    made = _made(name, traced, handover, interface, compiler, options, seconds)
    seconds["code"] = time.perf_counter() - began - sum(seconds.values())
    found = traced.exit.graph_break if isinstance(traced.exit, Left) else None
    return replace(made, entry=replace(made.entry, seconds=seconds, graph_break=found))


def _made(
    name: str,
    traced: Trace,
    handover: Handover,
    interface: Interface,
    compiler: Compiler,
    options: Options,
    seconds: dict[str, float],
) -> Produced:
    """
    Args:
        seconds: what the backend takes is added, by phase.
    """
    for guard, stack in traced.decided:
        raise SizeSpecialized(specialized_message(shown(guard), stack))
    guards = complete_guards(traced, interface)
    outputs = _outputs(traced, handover)
    if _is_idle(traced, outputs, options):
        idle = write_idle_entry(name, guards, traced, interface)
        return _produced(idle, traced, handover, compiler)
    module = _module(name, traced, outputs)
    began = time.perf_counter()
    graph = _compile_graph(name, traced, module, compiler)
    if traced.op_count:
        seconds["backend"] = time.perf_counter() - began
    if options.verify_correctness and traced.op_count:
        verify_graph(name, module, graph, [i.example for i in traced.inputs])
    entry = _written(name, traced, guards, outputs, interface, graph, module, compiler)
    return _produced(entry, traced, handover, compiler)


def _traced(
    name: str,
    handover: Handover,
    arguments: tuple[object, ...],
    compiler: Compiler,
    options: Options,
    history: History,
) -> Trace:
    points, h = handover.points, handover.h
    history.automatic = options.automatic_dynamic_shapes
    history.dynamic = compiler.dynamic
    history.named = compiler.varying
    if compiler.dynamic is None and not options.assume_static_by_default:
        history.dynamic = True
    began = time.perf_counter()
    traced = trace(
        handover.start(arguments),
        options,
        _TRACING.facts,
        originals=ORIGINALS,
        limits=Limits(
            leave=lambda p: points.exit_refusal(h, p) is None,
            enter=lambda code, p: _can_enter(compiler, code, p),
            rebuild=can_rebuild,
            replay=can_replay,
            passes=not is_generator(points.code),
            whole=compiler.fullgraph,
        ),
        history=history,
    )
    function = name.rpartition("#")[0]
    history.is_new = False
    events.STREAM.emit(events.Traced(function, name, time.perf_counter() - began))
    if isinstance(traced.exit, Returned) and not options.replay_side_effects:
        traced = replace(traced, effects=())
    for guess in traced.guesses:
        events.STREAM.emit(events.Guessed(function, name, guess.way, guess.stack))
    if isinstance(traced.exit, Left):
        graph_break = traced.exit.graph_break
        if compiler.fullgraph and graph_break.reason not in reasons.NO_BREAKS:
            not_whole(function, graph_break)
        events.STREAM.emit(events.Broke(function, graph_break, name))
    return traced


def _can_enter(compiler: Compiler, code: CodeType, p: int) -> bool:
    return compiler.middle(code, code.co_qualname).points.enter_refusal(p) is None


def _is_idle(traced: Trace, outputs: Outputs, options: Options) -> bool:
    """Without a graph, the original code is as good, unless what it calls may have one."""
    goes_on = isinstance(traced.exit, Left) and any(traced.exit.continuations())
    computes = traced.op_count and not all(map(_is_read, traced.graph.nodes))
    return not (computes or options.disturbance.breaks or goes_on or outputs.called is not None)


def _is_read(node: fx.Node) -> bool:
    """Whether a graph of such nodes does nothing that Python would not do as fast."""
    return not node.op.startswith("call") or READING in node.meta


def _hooks(traced: Trace, handover: Handover, compiler: Compiler) -> tuple[int, ...]:
    """Where the code must be hooked so that it goes on compiled behind the break.

    Inlined functions in the middle of which Python goes on are hooked here and now.
    """
    exit_ = traced.exit
    if isinstance(exit_, Returned):
        return ()
    inner = list(exit_.continuations())
    for k, continuation in enumerate(inner):
        forced = exit_.graph_break.reason is reasons.FORCED and k == len(inner) - 1
        middle = compiler.middle(continuation.code, continuation.code.co_qualname)
        middle.hook(_behind(middle.points, continuation.point, forced=forced))
    forced = exit_.graph_break.reason is reasons.FORCED and not inner
    return _behind(handover.points, exit_.point, forced=forced)


def _behind(points: Points, point: int, *, forced: bool) -> tuple[int, ...]:
    if forced:
        return (point,)
    return tuple(
        h for h in points.behind(point) if not _leaves_at_once(points.instructions[h].opname)
    )


def _leaves_at_once(opname: str) -> bool:
    return opname in ("RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS")


def _written(
    name: str,
    traced: Trace,
    guards: list[Guard],
    outputs: Outputs,
    interface: Interface,
    graph: Callable[..., Any],
    module: fx.GraphModule,
    compiler: Compiler,
) -> Entry:
    began = time.perf_counter()
    entry = write_entry(name, traced, guards, outputs, interface, graph, module, compiler)
    seconds = time.perf_counter() - began
    if events.STREAM.heard:
        tests, assumed = tuple(map(shown, guards)), assumptions(guards)
        function = name.rpartition("#")[0]
        added = events.EntryAdded(
            function, name, tests, assumed, entry.source, seconds, entry.call_count
        )
        events.STREAM.emit(added)
    return entry


def _produced(entry: Entry, traced: Trace, handover: Handover, compiler: Compiler) -> Produced:
    looks = isinstance(traced.exit, Left) and reasons.looks_at_frames(traced.exit.graph_break)
    return Produced(entry, _hooks(traced, handover, compiler), looks)


def _outputs(traced: Trace, handover: Handover) -> Outputs:
    if isinstance(traced.exit, Returned):
        return exit_values(traced, (), (), None)
    locals_, depths = handover.output_places(traced.exit.point)
    called = None
    if len(traced.exit.graph_break.stack) > 1 and not any(traced.exit.continuations()):
        called = called_depth(handover.points, traced.exit.point, traced.exit.stack)
    return exit_values(traced, locals_, depths, called if called in depths else None)


def _module(name: str, traced: Trace, outputs: Outputs) -> fx.GraphModule:
    """The graph with its output: every tensor that Python needs behind it."""
    _, tensors, _ = needed(traced.heap, handed(traced, outputs))
    traced.graph.output(tuple(traced.nodes(tensor) for tensor in tensors))
    module = fx.GraphModule(torch.nn.Module(), traced.graph, class_name=_class_name(name))
    module.meta[VARIES] = _varying(traced)
    listing.drop_with(module, type(module).forward.__code__.co_filename)
    return module


def _varying(traced: Trace) -> tuple[Dims | None, ...]:
    """See `VARIES`."""
    facts: dict[object, TensorFacts] = {
        g.at: g.facts for g in traced.guards if isinstance(g, TensorIs)
    }
    dims = tuple(
        varying_dims(facts[i.source]) if isinstance(i.example, torch.Tensor) else None
        for i in traced.inputs
    )
    return dims if any(each is None or each for each in dims) else ()


def _class_name(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def _compile_graph(
    name: str, traced: Trace, module: fx.GraphModule, compiler: Compiler
) -> Callable[..., Any]:
    if not traced.op_count:
        return module.forward
    began = time.perf_counter()
    examples = [i.example for i in traced.inputs]
    around = modes.WITHOUT_SUBCLASSES.get() if _among_views(examples) else nullcontext
    try:
        with around():
            graph = compiler.backend(module, examples)
    except Exception as error:
        if from_outside(error):
            raise
        why = f"{type(error).__name__}: {error}"
        raise BackendError(f"the backend failed on the graph {name} ({why})") from error
    if not callable(graph):
        raise BackendError(f"the backend returned {graph!r}, which is not callable")
    events.STREAM.emit(
        events.GraphCompiled(
            name.rpartition("#")[0], name, module, traced.op_count, time.perf_counter() - began
        )
    )
    return graph if around is nullcontext else _without_subclasses(graph)


def _among_views(examples: Iterable[Any]) -> bool:
    """Whether one of the inputs is a view of a tensor of a subclass, which a backend may find."""
    bases = (BASE.get()(x) for x in examples if isinstance(x, torch.Tensor))
    return any(base is not None and type(base) not in plain_classes() for base in bases)


def _without_subclasses(graph: Callable[..., Any]) -> Callable[..., Any]:
    """The graph, where no class is asked about what it does with such a tensor."""
    without = modes.WITHOUT_SUBCLASSES.get()

    def run(*inputs: Any) -> Any:
        with without():
            return graph(*inputs)

    return run
