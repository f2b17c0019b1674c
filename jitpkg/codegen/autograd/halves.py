"""The forward or the backward half of a graph that was differentiated, compiled to kernels.

Nothing of AOTAutograd is imported for it: what a half is a part of may have been kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch
from torch import fx

from jitpkg import events
from jitpkg.codegen.aten.passes.idle_views import drop_idle_views
from jitpkg.codegen.graph.copies import copied
from jitpkg.codegen.ir.extents import Symbolic
from jitpkg.codegen.kernels.compile import Report, compile_graph
from jitpkg.codegen.kernels.maker import Maker
from jitpkg.codegen.lowering.table import NotLowered
from jitpkg.codegen.options import Options
from jitpkg.facts.outcome import draws
from jitpkg.facts.tensor import TensorFacts, facts_of
from jitpkg.internals import trees

Function = Callable[..., Any]


def compiled_half(
    name: str, aten: fx.GraphModule, maker: Maker, options: Options
) -> tuple[Function, Report | None]:
    """A function of the graph's inputs; without a report, it is the graph itself.

    Raises:
        Exception: sizes vary, and it cannot be done with symbols.
    """
    if _symints(aten):
        return _with_symbols(name, aten, maker, options)
    try:
        graph = copied(with_facts(aten))
        drop_idle_views(graph)
        made = compile_graph(name, graph, maker, options)
    except NotLowered as error:
        events.STREAM.emit(events.Declined(name, "jitpkg", str(error)))
        return aten.forward, None
    return made.function, made.report


def _with_symbols(
    name: str, aten: fx.GraphModule, maker: Maker, options: Options
) -> tuple[Function, Report | None]:
    from jitpkg.codegen.autograd.torch_symbols import TorchSymbols  # it imports sympy

    graph = copied(aten.graph)
    symbols = TorchSymbols(graph)
    graph = with_facts(fx.GraphModule(aten, graph), symbols.length)
    symbols.replace_nodes(graph)
    made = compile_graph(name, graph, maker, options)
    return symbols.called(made.function), made.report


def _symints(aten: fx.GraphModule) -> list[torch.SymInt]:
    """The symbolic integers among a graph's inputs, and their sizes and strides."""
    found: list[Any] = []
    for node in aten.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        found.extend(
            (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else [value]
        )
    return [value for value in found if isinstance(value, torch.SymInt)]


def relied_on(aten: fx.GraphModule) -> int:
    """How many things are relied on about the sizes in a graph, so far."""
    for node in aten.graph.find_nodes(op="placeholder"):
        for length in trees.leaves_of(_lengths(node.meta.get("facts"))):
            if isinstance(length, Symbolic):
                return len(length.decisions.relations)
    found = _symints(aten)
    return len(found[0].node.shape_env.guards) if found else 0


def _lengths(facts: object) -> Any:
    return (facts.size, facts.stride) if isinstance(facts, TensorFacts) else ()


def with_facts(aten: fx.GraphModule, length: Callable[[Any], int] | None = None) -> fx.Graph:
    """The graph, with facts of its fake tensors.

    Args:
        length: what to take for a size, where they vary.
    """
    for node in aten.graph.nodes:
        if node.op == "get_attr":
            value = attrgetter(node.target)(aten)
            node.meta["value"] = value
            node.meta["facts"] = _facts(value, length)
        elif "val" in node.meta:
            value = node.meta["val"]
            several = isinstance(value, tuple | list)
            every = [_facts(each, length) for each in (value if several else [value])]
            node.meta["facts"] = tuple(every) if several else every[0]
        elif node.op == "call_function" and "facts" not in node.meta:
            node.meta["facts"] = None  # it returns nothing: a check of data
        if "val" in node.meta and draws(node):
            node.meta["random"] = True
    return aten.graph


def _facts(value: object, length: Callable[[Any], int] | None = None) -> TensorFacts | None:
    if not isinstance(value, torch.Tensor):
        return None
    facts = facts_of(value)
    if length is not None:
        size, stride = (tuple(map(length, each)) for each in (facts.size, facts.stride))
        return replace(facts, size=size, stride=stride)
    lengths = trees.leaves_of((facts.size, facts.stride))
    if any(not isinstance(length, int) for length in lengths):
        raise NotLowered("sizes that vary")
    return facts
