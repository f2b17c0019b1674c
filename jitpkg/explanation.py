"""What compiling a function made of it: graphs, breaks, guards, times, generated code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from jitpkg import api, events
from jitpkg.errors import Break
from jitpkg.messages import break_message
from jitpkg.tracer import reasons

P = ParamSpec("P")

_NO_BREAKS = (reasons.RAISES, reasons.GENERATOR, reasons.FORCED)


@dataclass
class Explanation:
    """What one call of a function compiled; print it, or take it apart."""

    result: Any = field(default=None, repr=False)
    """What the call returned."""
    graphs: list[Any] = field(default_factory=list)
    """Each graph, a `torch.fx.GraphModule`."""
    break_reasons: list[Break] = field(default_factory=list)
    ops_per_graph: list[list[Any]] = field(default_factory=list)
    """For each graph the targets of its ops."""
    out_guards: list[str] = field(default_factory=list)
    """Each guard's test, as text."""
    compile_times: dict[str, float] = field(default_factory=dict)
    """Seconds, by phase."""
    sources: dict[str, str] = field(default_factory=dict)
    """The generated Python source of each entry, by name."""
    recompiles: list[str] = field(default_factory=list)

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def op_count(self) -> int:
        return sum(map(len, self.ops_per_graph))

    def __str__(self) -> str:
        lines = [
            f"Graphs: {self.graph_count}, with {self.op_count} ops",
            f"Graph breaks: {self.graph_break_count}",
            f"Guards: {len(self.out_guards)}",
            "Times: " + ", ".join(f"{k} {1000 * v:.1f} ms" for k, v in self.compile_times.items()),
        ]
        for k, ops in enumerate(self.ops_per_graph):
            names = ", ".join(map(_name, ops))
            lines.append(f"\nGraph {k}: {len(ops)} ops\n  {names}")
        for k, graph_break in enumerate(self.break_reasons):
            text = break_message(graph_break).replace("\n", "\n  ")
            lines.append(f"\nBreak {k}: {text}")
        if self.recompiles:
            lines.append("\nCompiled again because\n  " + "\n  ".join(self.recompiles))
        return "\n".join(lines)

    def note(self, event: events.Event) -> None:
        """Take an event into account."""
        match event:
            case events.GraphCompiled(graph=graph, seconds=seconds):
                self.graphs.append(graph)
                nodes = graph.graph.nodes  # type: ignore[attr-defined]
                self.ops_per_graph.append([n.target for n in nodes if n.op.startswith("call")])
                self._spend("backend", seconds)
            case events.Traced(seconds=seconds):
                self._spend("tracing", seconds)
            case events.EntryAdded(entry=entry, guards=guards, source=source):
                self.out_guards.extend(guards)
                self.sources[entry] = source
            case events.Broke(graph_break=graph_break):
                known = [_key(b) for b in self.break_reasons]
                if graph_break.reason not in _NO_BREAKS and _key(graph_break) not in known:
                    self.break_reasons.append(graph_break)
            case events.Recompiled(reasons=why):
                self.recompiles.extend(why)

    def _spend(self, phase: str, seconds: float) -> None:
        self.compile_times[phase] = self.compile_times.get(phase, 0.0) + seconds


def _key(graph_break: Break) -> object:
    return graph_break.reason.code, graph_break.detail, graph_break.where


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def explain(fn: Callable[P, Any], **settings: Any) -> Callable[P, Explanation]:
    """A function that calls a fresh compiled version of `fn` and returns an `Explanation`.

    `jitpkg.explain(fn)(*args)` runs `fn` once for real. What was compiled of `fn` before is neither
    used nor changed.

    Args:
        fn: a function, method or module.
        settings: as the keyword arguments of `compile`.
    """
    compiled = api.compile(fn, **settings)

    def explained(*args: P.args, **kwargs: P.kwargs) -> Explanation:
        explanation = Explanation()
        with events.STREAM.listening(explanation.note):
            explanation.result = compiled(*args, **kwargs)
        return explanation

    return explained
