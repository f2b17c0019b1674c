"""Copies of graphs, for compilers change what they are given."""

from __future__ import annotations

from torch import fx


def copied(graph: fx.Graph) -> fx.Graph:
    """A graph of its own."""
    copy = fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy


def replaced(gm: fx.GraphModule, graph: fx.Graph) -> fx.GraphModule:
    """A module that is called as `gm` is and of which the same is noted, of another graph."""
    module = fx.GraphModule(gm, graph, class_name=type(gm).__name__)
    module.meta.update(gm.meta)
    return module
