"""Checkpoints for AOTAutograd: parts of a graph, marked as its partitioners want them.

Torch's own compiler marks nodes so, too: what is in a part is computed again, and what lies between
two of different numbers is saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from operator import getitem
from typing import Any

from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from jitpkg.codegen.graph.copies import replaced
from jitpkg.codegen.graph.fallback import AS_TRACED
from jitpkg.marks import RANDOM, RECOMPUTED

_AGAIN = CheckpointPolicy.PREFER_RECOMPUTE


def inlined(gm: fx.GraphModule) -> fx.GraphModule:
    """The graph with the ops of its parts in place of calls of these."""
    if not any(RECOMPUTED in node.meta for node in gm.graph.nodes):
        return gm
    graph, numbers = fx.Graph(), count(1)
    made: dict[fx.Node, Any] = {}
    for node in gm.graph.nodes:
        if node.op == "output":
            graph.output(fx.map_arg(node.args[0], made.__getitem__))
        else:
            _copy(graph, node, made, None, numbers)
    module = replaced(gm, graph)
    module.meta[AS_TRACED] = gm
    return module


def _copy(
    graph: fx.Graph,
    node: fx.Node,
    made: dict[fx.Node, Any],
    part: int | None,
    numbers: Iterator[int],
) -> None:
    """Add a node, or those of the part that it calls.

    Args:
        made: what stands for each node: another one, or several results.
        part: the number of the part that it belongs to.
        numbers: for the next parts.
    """
    if RECOMPUTED in node.meta:
        made[node] = _inside(graph, node, made, part or next(numbers), numbers)
    elif node.target is getitem and isinstance(made.get(node.all_input_nodes[0]), tuple):
        made[node] = made[node.all_input_nodes[0]][node.args[1]]
    else:
        made[node] = graph.node_copy(node, made.__getitem__)
        if part is not None and RANDOM not in node.meta:
            made[node].meta.update(recompute=_AGAIN, ac_graph_id=part)


def _inside(
    graph: fx.Graph,
    node: fx.Node,
    made: Mapping[fx.Node, Any],
    part: int,
    numbers: Iterator[int],
) -> tuple[Any, ...]:
    inner: fx.Graph = node.meta[RECOMPUTED]
    given: Any = fx.map_arg(node.args, made.__getitem__)  # numbers stand where sizes varied
    own: dict[fx.Node, Any] = dict(zip(inner.find_nodes(op="placeholder"), given, strict=True))
    for each in inner.nodes:
        if each.op not in ("placeholder", "output"):
            _copy(graph, each, own, part, numbers)
    returned: Any = inner.output_node().args[0]
    return tuple(own[each] for each in returned)
