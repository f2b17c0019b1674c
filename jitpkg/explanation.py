"""What compiling a function made of it: graphs, breaks, guards, times, generated code."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from html import escape
from typing import Any, ParamSpec

from jitpkg import api, events
from jitpkg.dataclass import dataclass
from jitpkg.errors import Break
from jitpkg.guards import state
from jitpkg.internals import Missing
from jitpkg.messages import WIDTH, counted, guess_message, place, places, quoted, size, wrapped
from jitpkg.tracer import reasons
from jitpkg.webreport import Recording, page

P = ParamSpec("P")

_SHOWN = 12
"""So many assumptions are listed."""


@dataclass(repr=False)
class Explanation:
    """What one call of a function compiled; print it, or take it apart."""

    result: Any = None
    """What the call returned."""
    graphs: list[Any] = field(default_factory=list)
    """Each graph, a `torch.fx.GraphModule`."""
    graph_names: list[str] = field(default_factory=list)
    """The name of each graph's entry, as in `model.forward#0`."""
    kernels: list[events.Kernel] = field(default_factory=list)
    """Each kernel that graphs call: its name, the ops that it fuses, the bytes that it moves."""
    kernel_sources: dict[str, str] = field(default_factory=dict)
    """What was compiled for each new kernel, by name."""
    schedules: dict[str, str] = field(default_factory=dict)
    """The loops of each new kernel for a CPU as they are printed, by name."""
    resources: dict[str, str] = field(default_factory=dict)
    """What kernels for a GPU take of it: registers, memory, and whether registers spill."""
    failed_kernels: dict[str, str] = field(default_factory=dict)
    """Why kernels cannot be used, and ATen computes what they were to compute."""
    scripts: dict[str, str] = field(default_factory=dict)
    """For each kernel for a GPU a Python program that runs it alone, on random numbers."""
    calls: list[str] = field(default_factory=list)
    """The ops that such graphs leave to ATen."""
    declined: list[str] = field(default_factory=list)
    """Why graphs run op by op, where a backend leaves them so."""
    not_recorded: list[str] = field(default_factory=list)
    """Why graphs are no CUDA graphs, where a mode asks for those."""
    break_reasons: list[Break] = field(default_factory=list)
    guesses: list[events.Guessed] = field(default_factory=list)
    """Branches on data that graphs go past along one way; entries look at them afterwards."""
    ops_per_graph: list[list[Any]] = field(default_factory=list)
    """For each graph the targets of its ops."""
    out_guards: list[str] = field(default_factory=list)
    """What each guard tests, as text."""
    assumptions: list[str] = field(default_factory=list)
    """What the guards say of tensors and plain values, in words."""
    compile_times: dict[str, float] = field(default_factory=dict)
    """Seconds, by phase."""
    backend_times: dict[str, float] = field(default_factory=dict)
    """Seconds of the phase `backend`, by pass, where the backend tells."""
    sources: dict[str, str] = field(default_factory=dict)
    """The generated Python source of each entry, by name."""
    obstacle: str | None = None
    """Why nothing could be compiled in the state that the thread was in."""
    recompiles: list[str] = field(default_factory=list)
    """For each entry that did not fit, the function, and the sentence of the guard that failed."""
    recording: Recording = field(default_factory=Recording)
    """What `html` shows."""

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def op_count(self) -> int:
        return sum(map(len, self.ops_per_graph))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._summary()}>"

    def __str__(self) -> str:
        return "\n\n".join(
            [self._summary(), *(f"{title}\n{text}" for title, text in self._parts())]
        )

    def _parts(self) -> Iterator[tuple[str, str]]:
        """The parts of the text, each with its title."""
        for title, lines in (
            ("Graphs", self._graph_lines()),
            ("Kernels", self._kernel_lines()),
            ("Graph breaks", self._break_lines()),
            ("Guesses", self._guess_lines()),
            ("Compiled again", self._recompile_lines()),
            ("Guards", self._guard_lines()),
            ("Times", self._time_lines()),
        ):
            text = "\n".join(f"  {line}".rstrip() for line in lines)
            if text:
                yield title, text

    def html(self, title: str = "") -> str:
        """A web page about it, of one file: when what was compiled, functions with their source and
        graph breaks, guards, graphs, kernels.

        Args:
            title: the page's; if empty, the name of the function.
        """
        return page(self.recording, title or next(iter(self.recording.functions), "No function"))

    def _repr_html_(self) -> str:
        """In a notebook: each part unfolds."""
        parts = [f"<p>{escape(self._summary())}</p>"]
        for title, text in self._parts():
            parts.append(
                f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"
            )
        return "\n".join(parts)

    def _summary(self) -> str:
        breaks = counted(self.graph_break_count, "graph break")
        if not self.graphs:
            why = f": nothing is compiled while {self.obstacle}" if self.obstacle else ""
            return f"No new graph, {breaks}{why}"
        ops = counted(self.op_count, "op")
        guards = counted(len(self.out_guards), "guard")
        return f"{counted(self.graph_count, 'graph')} with {ops}, {breaks}, {guards}"

    def _graph_lines(self) -> Iterator[str]:
        counts = [counted(len(ops), "op") for ops in self.ops_per_graph]
        names = max(map(len, self.graph_names), default=0)
        numbers = max(map(len, counts), default=0)
        for name, count, ops in zip(self.graph_names, counts, self.ops_per_graph, strict=True):
            begin = f"{name:{names}}  {count:>{numbers}}  "
            text = begin + ", ".join(map(_name, ops))
            yield from textwrap.wrap(text, WIDTH - 2, subsequent_indent=" " * len(begin))

    def _kernel_lines(self) -> Iterator[str]:
        alike = Counter(self.kernels)
        for kernel, times in alike.items():
            begin = f"{kernel.name}{f' x {times}' if times > 1 else ''}  "
            text = f"{begin}{', '.join(kernel.ops)}; moves {size(kernel.bytes)}"
            if kernel.name in self.resources:
                text += f"; {self.resources[kernel.name]}"
            yield from textwrap.wrap(text, WIDTH - 2, subsequent_indent=" " * 4)
        if self.calls:
            each = Counter(self.calls).items()
            names = ", ".join(f"{name} x {n}" if n > 1 else name for name, n in each)
            text = f"and {counted(len(self.calls), 'call')} of ATen: {names}"
            yield from textwrap.wrap(text, WIDTH - 2, subsequent_indent=" " * 4)
        for name, why in self.failed_kernels.items():
            alone = f' scripts["{name}"] runs it alone.' if name in self.scripts else ""
            text = f"{name} cannot be used: {why.rstrip('.')}.{alone}"
            yield from textwrap.wrap(text, WIDTH - 2, subsequent_indent=" " * 4)
        for why in dict.fromkeys(self.declined):
            yield from textwrap.wrap(f"None: {why}", WIDTH - 2, subsequent_indent="  ")
        for why in dict.fromkeys(self.not_recorded):
            yield from textwrap.wrap(f"No CUDA graph: {why}", WIDTH - 2, subsequent_indent="  ")

    def _break_lines(self) -> Iterator[str]:
        for k, graph_break in enumerate(self.break_reasons):
            if k:
                yield ""
            yield graph_break.title()
            yield from (f"  {place(location)}" for location in places(graph_break))
            if graph_break.where is not None:
                yield from (f"  {line}" for line in quoted(graph_break.where))
            yield from (f"  {line}" for line in wrapped("Why: ", graph_break.reason.why))
            yield from (f"  {line}" for line in wrapped("What to do: ", graph_break.reason.fix))

    def _guess_lines(self) -> Iterator[str]:
        for guess in self.guesses:
            yield from guess_message(guess.way, guess.stack).split("\n")

    def _recompile_lines(self) -> Iterator[str]:
        """Each reason once: several entries may have failed for the same one."""
        for text in dict.fromkeys(self.recompiles):
            yield from textwrap.wrap(text, WIDTH - 2, subsequent_indent="  ")

    def _guard_lines(self) -> Iterator[str]:
        yield from self.assumptions[:_SHOWN]
        if left := self.assumptions[_SHOWN:]:
            yield f"… {len(left)} more of tensors and values"
        others = len(self.out_guards) - len(self.assumptions)
        if others > 0:
            more = "more" if self.assumptions else "guards"
            yield f"and {others} {more} of functions, classes, containers and global state"

    def _time_lines(self) -> Iterator[str]:
        if self.compile_times:
            yield _times(self.compile_times)
        if self.backend_times:
            yield f"of the backend: {_times(self.backend_times)}"

    def note(self, event: events.Event) -> None:
        """Take an event into account."""
        self.recording(event)
        match event:
            case events.GraphCompiled(entry=entry, graph=graph, seconds=seconds):
                self.graphs.append(graph)
                self.graph_names.append(entry)
                nodes = graph.graph.nodes  # type: ignore[attr-defined]
                self.ops_per_graph.append([n.target for n in nodes if n.op.startswith("call")])
                self._spend("backend", seconds)
            case events.Fused(kernels=kernels, calls=calls):
                self.kernels.extend(kernels)
                self.calls.extend(calls)
            case events.KernelCompiled(name, text, resources=resources, script=script):
                self.kernel_sources[name] = text
                if resources:
                    self.resources[name] = resources
                if script:
                    self.scripts[name] = script
            case events.Scheduled(kernel, _, write):
                self.schedules[kernel] = write()
            case events.KernelFailed(name, text, why, script):
                self.kernel_sources[name] = text
                self.failed_kernels[name] = why
                if script:
                    self.scripts[name] = script
            case events.Declined(why=why):
                self.declined.append(why)
            case events.CudaGraph(why=str(why)):
                self.not_recorded.append(why)
            case events.PassRan(name=name, seconds=seconds):
                self.backend_times[name] = self.backend_times.get(name, 0.0) + seconds
            case events.Traced(seconds=seconds):
                self._spend("tracing", seconds)
            case events.EntryAdded():
                self.out_guards.extend(event.guards)
                new = [text for text in event.assumptions if text not in self.assumptions]
                self.assumptions.extend(new)
                self.sources[event.entry] = event.source
                self._spend("generating code", event.seconds)
            case events.Guessed():
                self.guesses.append(event)
            case events.Broke(graph_break=graph_break):
                known = [_key(b) for b in self.break_reasons]
                if graph_break.reason not in reasons.NO_BREAKS and _key(graph_break) not in known:
                    self.break_reasons.append(graph_break)
            case events.Recompiled(function=function, reasons=why):
                self.recompiles.extend(f"{function}, because {sentence}" for sentence in why)

    def _spend(self, phase: str, seconds: float) -> None:
        self.compile_times[phase] = self.compile_times.get(phase, 0.0) + seconds


class Explained:
    """What was compiled of one function, as `jitpkg.explain` tells it of one call."""

    def __init__(self, function: str) -> None:
        """
        Args:
            function: its qualified name, or the end of it.
        """
        self._function = function
        self._explanation = Explanation()
        self._heard = False
        self._seen: set[str] = set()
        self._compiles = False
        """Whether what is heard now is about the function."""

    def __call__(self, event: events.Event) -> None:
        name = getattr(event, "function", None)
        if name is not None:
            self._seen.add(name)
            self._compiles = self._is_it(name)
        if self._compiles:
            self._explanation.note(event)
            self._heard = True
        if isinstance(event, events.EntryAdded):
            self._compiles = False

    def text(
        self,
        waiting: Iterable[tuple[str, str]] = (),
        suggestion: str | None = None,
        is_own: Callable[[str], bool] = lambda _: False,
    ) -> str:
        """What was made of the function; or why there is nothing to tell: see `report.Tells`."""
        if self._heard:
            return f"{self._function}: {self._explanation}"
        said = f"{self._nothing(dict(waiting))} {suggestion or ''}".rstrip()
        return "\n".join(wrapped("", said))

    def _is_it(self, name: str) -> bool:
        return name == self._function or name.endswith(f".{self._function}")

    def _nothing(self, waiting: Mapping[str, str]) -> str:
        for name, why in waiting.items():
            if self._is_it(name):
                return f"{self._function} is not compiled: {why}."
        others = ", ".join(sorted(self._seen)) or "nothing"
        return f"No call of {self._function} is compiled; compiled is: {others}."


def _key(graph_break: Break) -> object:
    return graph_break.reason.code, graph_break.detail, graph_break.where


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def _times(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {1000 * spent:.1f} ms" for name, spent in seconds.items())


def explain(fn: Callable[P, Any], **settings: Any) -> Callable[P, Explanation]:
    """A function that calls a fresh compiled version of `fn` and returns an `Explanation`.

    `jitpkg.explain(fn)(*args)` runs `fn` once for real. What was compiled of `fn` before is neither
    used nor changed. Each further call of the function that `explain` returned tells what that
    call has compiled anew, and why.

    Args:
        fn: a function, method or module.
        settings: as the keyword arguments of `compile`.
    """
    begun = [Explanation()]
    with events.STREAM.listening(begun[0].note):
        compiled = api.compile(fn, **settings)

    def explained(*args: P.args, **kwargs: P.kwargs) -> Explanation:
        explanation = begun.pop() if begun else Explanation()
        with suppress(Missing):  # which has been told
            explanation.obstacle = state.obstacle()
        with events.STREAM.listening(explanation.note):
            explanation.result = compiled(*args, **kwargs)
        return explanation

    return explained
