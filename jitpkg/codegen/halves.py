"""The forward or the backward half of a graph that was differentiated, compiled to kernels.

Nothing of AOTAutograd is imported for it: a half may have been kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from jitpkg import events
from jitpkg.codegen.compiler import Maker, Report, compile_graph
from jitpkg.codegen.differentiated import Backward
from jitpkg.codegen.lowering.table import NotLowered
from jitpkg.codegen.options import Options
from jitpkg.codegen.partial_backward import without
from jitpkg.facts.tensor import TensorFacts, facts_of

Function = Callable[..., Any]


def compiled_half(
    name: str, aten: fx.GraphModule, maker: Maker, options: Options
) -> tuple[Function, Report | None]:
    """A function of the graph's inputs; without a report, it is the graph itself."""
    try:
        made = compile_graph(name, with_facts(aten), maker, options)
    except NotLowered as error:
        events.STREAM.emit(events.Declined(name, "jitpkg", str(error)))
        return aten.forward, None
    return made.function, made.report


def in_parts(
    known: dict[frozenset[int], Function], make: Callable[[frozenset[int]], Function]
) -> Backward:
    """A backward function of which each part is made when it is asked for."""

    def run(undefined: frozenset[int], arguments: Sequence[Any]) -> Sequence[Any]:
        part = known.get(undefined)
        if part is None:
            part = known[undefined] = make(undefined)
        gradients: Sequence[Any] = part(*_drained(arguments))
        return gradients

    return run


def part_of(
    whole: fx.GraphModule,
    undefined: frozenset[int],
    compile_: Callable[[fx.GraphModule], Function],
) -> Function:
    """A part of a backward graph, compiled in the middle of a backward pass: what fails there must
    not be noticed."""
    part = without(whole, undefined)
    forward = without(whole, undefined).forward
    try:
        return compile_(part)
    except Exception:
        function: Function = forward
        return function


def _drained(arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments, which nobody else holds then, so that each can be freed after its last use."""
    given = tuple(arguments)
    if isinstance(arguments, list):
        arguments.clear()
    return given


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


def _facts(value: object) -> TensorFacts | None:
    if not isinstance(value, torch.Tensor):
        return None
    facts = facts_of(value)
    lengths = pytree.tree_leaves((facts.size, facts.stride))
    if any(not isinstance(length, int) for length in lengths):
        raise NotLowered("sizes that vary")
    return facts
