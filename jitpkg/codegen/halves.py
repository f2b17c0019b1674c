"""The forward or the backward half of a graph that was differentiated, compiled to kernels.

Nothing of AOTAutograd is imported for it: what a half is a part of may have been kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from jitpkg import events
from jitpkg.codegen.aten.passes.idle_views import drop_idle_views
from jitpkg.codegen.compiler import Maker, Report, compile_graph
from jitpkg.codegen.lowering.table import NotLowered
from jitpkg.codegen.options import Options
from jitpkg.facts.tensor import TensorFacts, facts_of

Function = Callable[..., Any]


def compiled_half(
    name: str, aten: fx.GraphModule, maker: Maker, options: Options
) -> tuple[Function, Report | None]:
    """A function of the graph's inputs; without a report, it is the graph itself."""
    try:
        graph = _copied(with_facts(aten))
        drop_idle_views(graph)
        made = compile_graph(name, graph, maker, options)
    except NotLowered as error:
        events.STREAM.emit(events.Declined(name, "jitpkg", str(error)))
        return aten.forward, None
    return made.function, made.report


def with_facts(aten: fx.GraphModule) -> fx.Graph:
    """The graph, with facts of its fake tensors."""
    for node in aten.graph.nodes:
        if node.op == "get_attr":
            value = attrgetter(node.target)(aten)
            node.meta["value"] = value
            node.meta["facts"] = _facts(value)
        elif "val" in node.meta:
            value = node.meta["val"]
            several = isinstance(value, tuple | list)
            node.meta["facts"] = tuple(map(_facts, value)) if several else _facts(value)
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            node.meta["random"] = True
    return aten.graph


def _copied(graph: fx.Graph) -> fx.Graph:
    copy = fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy


def _facts(value: object) -> TensorFacts | None:
    if not isinstance(value, torch.Tensor):
        return None
    facts = facts_of(value)
    lengths = pytree.tree_leaves((facts.size, facts.stride))
    if any(not isinstance(length, int) for length in lengths):
        raise NotLowered("sizes that vary")
    return facts
