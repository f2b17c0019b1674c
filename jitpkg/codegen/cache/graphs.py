"""Graphs of ATen ops as JSON, and back."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from jitpkg.codegen.cache.plain import NotPlain, Plain, read, written
from jitpkg.facts.tensor import TensorFacts


def graph_text(graph: fx.Graph) -> Plain:
    """A graph, with the facts of its values.

    Raises:
        NotPlain: it holds what cannot be written down.
    """
    return [_node(node) for node in graph.nodes]


def _node(node: fx.Node) -> Plain:
    if node.op == "get_attr":
        raise NotPlain("a tensor that belongs to a graph")
    facts: Any = node.meta.get("facts")
    several = isinstance(facts, tuple | list)
    known: Any = [_facts(each) for each in facts] if several else _facts(facts)
    parts = written(node.target), written(node.args), written(node.kwargs)
    return [node.op, node.name, *parts, several, known]


def _facts(facts: TensorFacts | None) -> Plain:
    if facts is None:
        return None
    if facts.is_symbolic:
        raise NotPlain("sizes that vary")
    return [written(facts.dtype), written(facts.device), list(facts.size), list(facts.stride)]


def graph_of(plain: Plain) -> fx.GraphModule:
    """The graph of what `graph_text` made."""
    graph = fx.Graph()
    made: dict[str, fx.Node] = {}
    others = {"node": made.__getitem__}
    for op, name, target, args, kwargs, several, known in plain:
        function, given, named = (read(each, others) for each in (target, args, kwargs))
        node = made[name] = graph.create_node(op, function, given, named, name)
        if several:
            node.meta["facts"] = tuple(map(_facts_of, known))
        elif known is not None:
            node.meta["facts"] = _facts_of(known)
    return fx.GraphModule(torch.nn.Module(), graph)


def _facts_of(plain: Plain) -> TensorFacts | None:
    if plain is None:
        return None
    dtype, device, size, stride = plain
    return TensorFacts(
        cls=torch.Tensor,
        dtype=read(dtype, {}),
        device=read(device, {}),
        size=tuple(size),
        stride=tuple(stride),
        requires_grad=False,
        is_leaf=True,
    )
