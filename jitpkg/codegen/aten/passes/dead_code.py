"""Nodes that nothing uses, and that do nothing besides."""

from __future__ import annotations

from torch import fx

from jitpkg.codegen.aten.purity import is_pure


def drop_dead_code(graph: fx.Graph) -> int:
    """Drop them; returns how many there were."""
    dropped = 0
    for node in reversed(graph.nodes):
        if not node.users and is_pure(node):
            graph.erase_node(node)
            dropped += 1
    return dropped
