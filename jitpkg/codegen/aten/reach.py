"""What leads to nodes of a graph, and what they show."""

from __future__ import annotations

from collections.abc import Iterable, Set

from torch import fx

from jitpkg.codegen.aten.purity import is_view


def needed_for(wanted: Iterable[fx.Node], given: Set[fx.Node] = frozenset()) -> set[fx.Node]:
    """These nodes and all that they are computed from; what leads to those `given` is not asked."""
    found: set[fx.Node] = set()
    open_ = list(wanted)
    while open_:
        node = open_.pop()
        if node not in found:
            found.add(node)
            if node not in given:
                open_.extend(node.all_input_nodes)
    return found


def root_of(node: fx.Node) -> fx.Node:
    """What a view shows, or the node itself."""
    while is_view(node):
        node = node.all_input_nodes[0]
    return node
