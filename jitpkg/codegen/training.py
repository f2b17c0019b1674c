"""Graphs that AOTAutograd differentiates: forward and backward by our kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_module_simplified
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils import _pytree as pytree

from jitpkg import events
from jitpkg.codegen.aten.passes.common import share_common
from jitpkg.codegen.aten.passes.idle_views import drop_idle_views
from jitpkg.codegen.compiler import Maker, compile_graph
from jitpkg.codegen.functional import Compiled, boxed, through_aot
from jitpkg.codegen.lowering.table import NotLowered
from jitpkg.codegen.options import Options
from jitpkg.codegen.partial_backward import Run
from jitpkg.codegen.torch_symbols import TorchSymbols, relied_on, varies
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
            def kernels(part: fx.GraphModule) -> Run:
                before = relied_on(example_inputs)
                function = _compiled(part, maker, options)
                if part is not gm and relied_on(example_inputs) != before:
                    raise NotLowered("a part of a backward graph holds for fewer sizes")
                return boxed(function)

            return compiled.halves.runs(gm, kernels)

        function: Callable[..., Any] = aot_module_simplified(
            gm,
            fakes,
            fw_compiler=forward,
            bw_compiler=backward,
            partition_fn=_partitioned,
            keep_inference_input_mutations=False,
        )
        return function

    return through_aot("jitpkg", gm, inputs, compile_)


def _partitioned(joint: fx.GraphModule, *given: Any, **named: Any) -> Any:
    """Torch's own partition, with our search for common subexpressions before it.

    Torch's imports all of Inductor: 0.3 s.
    """
    values = [node.meta.get("val") for node in joint.graph.find_nodes(op="placeholder")]
    if varies(joint.graph) or not all(isinstance(value, torch.Tensor) for value in values):
        return min_cut_rematerialization_partition(joint, *given, **named)
    before, functorch_config.cse = functorch_config.cse, False
    try:
        joint.graph.eliminate_dead_code()
        share_common(_with_facts(joint), but=_of_outputs(joint.graph))
        return min_cut_rematerialization_partition(joint, *given, **named)
    finally:
        functorch_config.cse = before


def _of_outputs(graph: fx.Graph) -> set[fx.Node]:
    """What lies in the memory of a result: two results may not become one."""
    memory = {
        node: node.meta["val"].untyped_storage()._cdata
        for node in graph.nodes
        if isinstance(node.meta.get("val"), torch.Tensor)
    }
    (output,) = graph.find_nodes(op="output")
    returned = {memory.get(node) for node in output.all_input_nodes}
    return {node for node, place in memory.items() if place in returned}


def _compiled(aten: fx.GraphModule, maker: Maker, options: Options) -> Callable[..., Any]:
    if varies(aten.graph):
        return _with_symbols(aten, maker, options)
    try:
        graph = _copied(_with_facts(aten))
        drop_idle_views(graph)
        return compile_graph(type(aten).__name__, graph, maker, options).function
    except NotLowered as error:
        events.STREAM.emit(events.Declined(type(aten).__name__, "jitpkg", str(error)))
        forward: Callable[..., Any] = aten.forward
        return forward


def _with_symbols(aten: fx.GraphModule, maker: Maker, options: Options) -> Callable[..., Any]:
    """Where it cannot be done with symbols, it raises: then each size is compiled for."""
    graph = _copied(aten.graph)
    symbols = TorchSymbols(graph)
    graph = _with_facts(fx.GraphModule(aten, graph), symbols)
    symbols.replace_nodes(graph)
    compiled = compile_graph(type(aten).__name__, graph, maker, options)
    return symbols.called(compiled.function)


def _with_facts(aten: fx.GraphModule, symbols: TorchSymbols | None = None) -> fx.Graph:
    """The graph, with facts of its fake tensors."""
    for node in aten.graph.nodes:
        if node.op == "get_attr":
            value = attrgetter(node.target)(aten)
            node.meta["value"] = value
            node.meta["facts"] = _facts(value, symbols)
        elif "val" in node.meta:
            value = node.meta["val"]
            several = isinstance(value, tuple | list)
            every = [_facts(each, symbols) for each in (value if several else [value])]
            node.meta["facts"] = tuple(every) if several else every[0]
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            node.meta["random"] = True
    return aten.graph


def _copied(graph: fx.Graph) -> fx.Graph:
    copy = fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy


def _facts(value: object, symbols: TorchSymbols | None = None) -> TensorFacts | None:
    if not isinstance(value, torch.Tensor):
        return None
    facts = facts_of(value)
    if symbols is not None:
        size, stride = (tuple(map(symbols.length, each)) for each in (facts.size, facts.stride))
        return replace(facts, size=size, stride=stride)
    lengths = pytree.tree_leaves((facts.size, facts.stride))
    if any(not isinstance(length, int) for length in lengths):
        raise NotLowered("sizes that vary")
    return facts
