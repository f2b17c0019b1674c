"""What was compiled in a test, or in a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any

from jitpkg import events
from jitpkg.dataclass import dataclass
from jitpkg.errors import Break
from jitpkg.messages import counted
from jitpkg.tracer.reasons import NO_BREAKS

_SHOWN = 10
"""So many places of breaks are shown at the end."""


@dataclass(eq=False)
class Seen:
    """What was compiled while this listened."""

    graphs: int = 0
    breaks: list[Break] = field(default_factory=list)
    recompiles: list[str] = field(default_factory=list)
    """Why functions were compiled once more, in sentences."""

    def listening(self) -> AbstractContextManager[None]:
        """Hears what happens in a `with` statement."""
        return events.STREAM.listening(self.note)

    def note(self, event: events.Event) -> None:
        match event:
            case events.GraphCompiled():
                self.graphs += 1
            case events.Broke(graph_break=found) if found.reason not in NO_BREAKS:
                self.breaks.append(found)
            case events.Recompiled(function=function, reasons=reasons):
                self.recompiles.append(f"{function}: {'; '.join(reasons)}")

    def excess(self, limits: Mapping[str, int]) -> Iterator[str]:
        """What there is more of than there may be."""
        lists = {
            "breaks": ("graph break", [_placed(each) for each in self.breaks]),
            "recompiles": ("recompilation", self.recompiles),
        }
        for name, most in limits.items():
            title, found = lists[name]
            if len(found) > most:
                head = f"{counted(len(found), title)}, and at most {most} allowed:"
                yield "\n  ".join([head, *found])


def _placed(found: Break) -> str:
    where = found.where
    return found.title() if where is None else f"{found.title()} ({where.file}:{where.line})"


@dataclass(eq=False)
class Totals:
    """What `--jitpkg` tells at the end; with pytest-xdist, of all workers together."""

    counts: Counter[str] = field(default_factory=Counter)
    functions: set[str] = field(default_factory=set)
    places: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        events.STREAM.add(self.note)

    def stop(self) -> None:
        events.STREAM.remove(self.note)

    def note(self, event: events.Event) -> None:
        match event:
            case events.GraphCompiled(function=function):
                self.functions.add(function)
                self.counts["graph"] += 1
            case events.Broke(graph_break=found) if found.reason not in NO_BREAKS:
                self.places[_placed(found)] += 1
            case events.Recompiled():
                self.counts["recompilation"] += 1

    def told(self) -> dict[str, Any]:
        """As a worker sends it."""
        return {
            "counts": dict(self.counts),
            "functions": sorted(self.functions),
            "places": dict(self.places),
        }

    def add(self, told: Mapping[str, Any]) -> None:
        self.counts.update(told["counts"])
        self.functions.update(told["functions"])
        self.places.update(told["places"])

    def lines(self) -> Iterator[str]:
        breaks = sum(self.places.values())
        yield (
            f"{counted(len(self.functions), 'function')} compiled,"
            f" {counted(self.counts['graph'], 'graph')},"
            f" {counted(breaks, 'graph break')},"
            f" {counted(self.counts['recompilation'], 'recompilation')}"
        )
        for place, count in self.places.most_common(_SHOWN):
            yield f"{count:5}  {place}"
        if len(self.places) > _SHOWN:
            yield f"       and at {counted(len(self.places) - _SHOWN, 'other place')}"
