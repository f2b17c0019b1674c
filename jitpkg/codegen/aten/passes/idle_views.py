"""Views that show just what they are made of, as the transpose of a transpose.

For graphs that others have made functional: what their results share memory with stays the same.
"""

from __future__ import annotations

from torch import fx

from jitpkg.codegen.aten.passes.no_ops import alike
from jitpkg.codegen.aten.passes.view_chains import merge_view_chains
from jitpkg.codegen.aten.purity import is_view, name_of
from jitpkg.facts.tensor import TensorFacts

_IDLE = frozenset(
    "view _unsafe_view _reshape_alias expand squeeze permute transpose t detach alias".split()
)
"""Views that start where their source does."""


def drop_idle_views(graph: fx.Graph) -> int:
    """Use their sources instead, and drop views that nothing uses; returns how many."""
    facts = (node.meta.get("facts") for node in graph.nodes)
    if any(isinstance(each, TensorFacts) and each.is_symbolic for each in facts):
        return 0
    merge_view_chains(graph)
    (output,) = graph.find_nodes(op="output")
    returned = set(output.all_input_nodes)
    for node in graph.nodes:
        if node.op != "call_function" or name_of(node) not in _IDLE:
            continue
        source = node.args[0]
        if not isinstance(source, fx.Node) or not alike(source, node):
            continue
        for user in list(node.users):
            if user is output:
                if source.op != "call_function" or source in returned:
                    continue  # one tensor must not be two results, nor an input and a result
                returned.add(source)
            user.replace_input_with(node, source)
    dropped = 0
    for node in reversed(graph.nodes):
        if node.op == "call_function" and is_view(node) and not node.users:
            graph.erase_node(node)
            dropped += 1
    return dropped
