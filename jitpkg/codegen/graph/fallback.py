"""Graphs that a backend leaves as they are."""

from __future__ import annotations

from types import FunctionType

from torch import fx

from jitpkg import events
from jitpkg.codegen.graph.python import straight_line


def as_it_is(backend: str, gm: fx.GraphModule, why: str) -> FunctionType:
    """The graph op by op, as the backend `eager` runs it; an event says why."""
    name = type(gm).__name__
    events.STREAM.emit(events.Declined(name, backend, why))
    return straight_line(name, as_traced(gm).graph)


AS_TRACED = "jitpkg_as_traced"
"""The key in a graph module's `meta` of the one that it was made of, which saves less."""


def as_traced(gm: fx.GraphModule) -> fx.GraphModule:
    """The graph as it was traced."""
    original: fx.GraphModule = gm.meta.get(AS_TRACED, gm)
    return original
