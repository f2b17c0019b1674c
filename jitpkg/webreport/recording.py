"""What happened while functions were compiled: events, by function and entry, with their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from types import CodeType
from typing import Any

from jitpkg import events
from jitpkg.dataclass import dataclass
from jitpkg.errors import Break
from jitpkg.ranges import Times
from jitpkg.tracer.reasons import NO_BREAKS


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the time."""

    name: str
    begin: float
    """Seconds since the recording began."""
    end: float


@dataclass(eq=False, slots=True)
class EntryMade:
    """An entry, and how it came to be."""

    name: str
    span: Span | None = None
    phases: list[Span] = field(default_factory=list)
    graph: Any = None
    """The `torch.fx.GraphModule`, where there is one."""
    kernels: tuple[events.Kernel, ...] = ()
    calls: tuple[str, ...] = ()
    """The ops that are left to ATen."""
    declined: list[str] = field(default_factory=list)
    """Why the graph runs op by op."""
    assumptions: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    source: str = ""
    graph_break: Break | None = None
    guesses: list[events.Guessed] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class FunctionMade:
    """A function, or a part of one after a graph break."""

    name: str
    code: CodeType | None = None
    """As its author wrote it."""
    entries: dict[str, EntryMade] = field(default_factory=dict)
    recompiles: list[tuple[str, ...]] = field(default_factory=list)
    """For each time the sentences of the guards that failed, one for each entry that was tried."""
    left: list[str] = field(default_factory=list)
    """Why calls run the original code."""

    def entry(self, name: str) -> EntryMade:
        return self.entries.setdefault(name, EntryMade(name))


@dataclass(eq=False, slots=True)
class KernelMade:
    """A kernel."""

    name: str
    text: str
    seconds: float
    schedule: str = ""
    resources: str = ""
    why_failed: str = ""


class Recording:
    """A listener of the stream of events, which `page` shows."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self._current: EntryMade | None = None
        """Of the compilation that goes on; events of backends do not say to which they belong."""
        self._schedules: dict[str, Callable[[], str]] = {}
        """What writes a kernel's loops, as the last pass has left them."""
        self.times: Mapping[tuple[str, str], Times] = {}
        """What the calls of kernels took, by graph and kernel, where that is known."""
        self.fused: dict[str, tuple[events.Kernel, ...]] = {}
        """The kernels of each graph, in the order of their calls."""
        self.functions: dict[str, FunctionMade] = {}
        self.kernels: dict[str, KernelMade] = {}

    @property
    def seconds(self) -> float:
        """Since it began."""
        return self._clock() - self._began

    @property
    def entries(self) -> list[EntryMade]:
        return [entry for each in self.functions.values() for entry in each.entries.values()]

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.CompileStarted(function=function, entry=entry):
                self._current = self._function(function).entry(entry)
            case events.CompileEnded(function=function, entry=entry, seconds=seconds):
                self._ended(self._function(function), entry, seconds)
            case events.Traced(function=function, entry=entry, seconds=seconds):
                self._phase(self._function(function).entry(entry), "tracing", seconds)
            case events.GraphCompiled(function=function, entry=entry, seconds=seconds):
                made = self._function(function).entry(entry)
                made.graph = event.graph
                self._phase(made, "backend", seconds)
            case events.EntryAdded(function=function, entry=entry, seconds=seconds):
                made = self._function(function).entry(entry)
                made.guards, made.assumptions = event.guards, event.assumptions
                made.source = event.source
                self._phase(made, "generating code", seconds)
            case events.Broke(function=function, graph_break=found, entry=entry):
                if found.reason not in NO_BREAKS:
                    self._function(function).entry(entry).graph_break = found
            case events.Guessed(function=function, entry=entry):
                self._function(function).entry(entry).guesses.append(event)
            case events.Recompiled(function=function, reasons=reasons):
                self._function(function).recompiles.append(reasons)
            case events.CodeEmitted(function=function, original=original):
                self._function(function).code = original
            case events.LimitReached(function=function, limit=limit):
                why = f"calls that fit no entry run the original code: there are {limit} already"
                self._function(function).left.append(why)
            case events.GivenBack(function=function, why=why):
                self._function(function).left.append(why)
            case _:
                self._of_backend(event)

    def _of_backend(self, event: events.Event) -> None:
        match event:
            case events.Scheduled(kernel, _, write):
                self._schedules[kernel] = write
            case events.KernelCompiled(name, text, seconds, resources=resources):
                schedule = self._schedules.pop(name, str)()
                self.kernels[name] = KernelMade(name, text, seconds, schedule, resources)
            case events.KernelFailed(name, text, why):
                self.kernels[name] = KernelMade(name, text, 0.0, why_failed=why)
            case events.Fused(graph=graph, kernels=kernels, calls=calls):
                self.fused[graph] = kernels
                if self._current is not None:
                    self._current.kernels += kernels
                    self._current.calls += calls
            case events.Declined(why=why) if self._current is not None:
                self._current.declined.append(why)

    def _function(self, name: str) -> FunctionMade:
        return self.functions.setdefault(name, FunctionMade(name))

    def _phase(self, made: EntryMade, name: str, seconds: float) -> None:
        now = self.seconds
        made.phases.append(Span(name, max(now - seconds, 0.0), now))

    def _ended(self, function: FunctionMade, entry: str, seconds: float) -> None:
        now = self.seconds
        made = function.entry(entry)
        made.span = Span(entry, max(now - seconds, 0.0), now)
        if not made.phases and made.graph_break is None:
            del function.entries[entry]  # nothing came of it
        self._current = None
