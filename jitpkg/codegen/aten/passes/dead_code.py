"""Nodes that nothing uses, and that do nothing besides."""

from __future__ import annotations

from torch import fx

from jitpkg.codegen.aten.purity import may_be_dropped


def drop_dead_code(graph: fx.Graph) -> int:
    """Drop them; returns how many there were."""
    dropped = 0
    for node in reversed(graph.nodes):
        if not node.users and may_be_dropped(node):
            graph.erase_node(node)
            dropped += 1
    return dropped
