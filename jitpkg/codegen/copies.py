"""Copies of graphs, for compilers change what they are given."""

from __future__ import annotations

from torch import fx


def copied(graph: fx.Graph) -> fx.Graph:
    """A graph of its own."""
    copy = fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy
