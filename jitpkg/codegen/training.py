"""Graphs that AOTAutograd differentiates: forward and backward by our kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import fx
from torch._functorch.aot_autograd import aot_module_simplified
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils import _pytree as pytree

from jitpkg import events
from jitpkg.codegen.compiler import Maker, compile_graph
from jitpkg.codegen.functional import Compiled, boxed, through_aot
from jitpkg.codegen.lowering.table import NotLowered
from jitpkg.codegen.options import Options
from jitpkg.codegen.partial_backward import Run
from jitpkg.facts.tensor import TensorFacts, facts_of


def through_kernels(
    gm: fx.GraphModule, inputs: list[Any], maker: Maker, options: Options
) -> Callable[..., Any]:
    """Differentiate a graph ahead of time, and compile both halves."""

    def compile_(
        gm: fx.GraphModule, fakes: list[torch.Tensor], compiled: Compiled
    ) -> Callable[..., Any]:
        def forward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Run:
            compiled.note(gm)
            function = _compiled(gm, maker, options)
            compiled.halves.runs_forward(gm, function)
            return boxed(function)

        def backward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Run:
            return compiled.halves.runs(gm, lambda part: boxed(_compiled(part, maker, options)))

        function: Callable[..., Any] = aot_module_simplified(
            gm,
            fakes,
            fw_compiler=forward,
            bw_compiler=backward,
            partition_fn=min_cut_rematerialization_partition,
            keep_inference_input_mutations=False,
        )
        return function

    return through_aot("jitpkg", gm, inputs, compile_)


def _compiled(aten: fx.GraphModule, maker: Maker, options: Options) -> Callable[..., Any]:
    try:
        return compile_graph(type(aten).__name__, _with_facts(aten), maker, options).function
    except NotLowered as error:
        events.STREAM.emit(events.Declined(type(aten).__name__, "jitpkg", str(error)))
        forward: Callable[..., Any] = aten.forward
        return forward


def _with_facts(aten: fx.GraphModule) -> fx.Graph:
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
