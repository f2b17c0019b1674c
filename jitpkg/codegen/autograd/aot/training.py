"""Graphs that AOTAutograd differentiates: forward and backward by our kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.passes.common import share_common
from jitpkg.codegen.autograd import saved
from jitpkg.codegen.autograd.aot.functional import Compiled, through_aot
from jitpkg.codegen.autograd.function import Run, boxed
from jitpkg.codegen.autograd.halves import with_facts
from jitpkg.codegen.autograd.kept import Compilation
from jitpkg.codegen.kernels.maker import Maker
from jitpkg.codegen.options import Options
from jitpkg.internals import aot
from jitpkg.marks import VARIES


def through_kernels(
    gm: fx.GraphModule, inputs: list[Any], maker: Maker, options: Options, key: str | None = None
) -> Callable[..., Any]:
    """Differentiate a graph ahead of time, and compile both halves.

    Args:
        key: under which the result is kept on disk, where it can be.
    """

    def compile_(
        copy: fx.GraphModule, fakes: list[torch.Tensor], compiled: Compiled
    ) -> Callable[..., Any]:
        of = Compilation(gm, maker, options, None if gm.meta.get(VARIES) else key)
        compiled.keep = of.keep

        def forward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Run:
            compiled.note(gm)
            function = of.forward(gm, aot.forward_returns(aot.CONTEXT.get().get().fw_metadata))
            compiled.halves.runs_forward(gm, function)
            return boxed(function)

        def backward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Run:
            return compiled.halves.runs(gm, of.backward, of.part)

        function: Callable[..., Any] = aot.MODULE.get()(
            copy,
            fakes,
            fw_compiler=forward,
            bw_compiler=backward,
            decompositions=dict(_DECOMPOSITIONS),
            partition_fn=_partitioned,
            keep_inference_input_mutations=False,
        )
        return function

    made = through_aot("jitpkg", gm, inputs, compile_)
    maker.made.clear()
    return made


def _native_dropout(x: torch.Tensor, p: float, train: bool | None) -> Any:
    """On a CPU: the mask is drawn, and kernels do the rest, rounded as eager code's `dropout` is.

    ATen's own call multiplies bfloat16 by bool slowly, and nothing can be fused with it.
    """
    if x.device.type != "cpu" or not x.is_floating_point() or not (train is None or train):
        return NotImplemented
    if p in (0, 1):
        return NotImplemented
    mask = _drawn_as_it_lies(x, 1 - p)
    return x * (mask.to(x.dtype) / (1 - p)), mask


def _drawn_as_it_lies(x: torch.Tensor, p: float) -> torch.Tensor:
    """A mask whose elements are drawn in the order in which a tensor like `x` lies in memory."""
    strides = torch.empty_like(x).stride()
    order = sorted(range(x.dim()), key=lambda dim: -strides[dim])
    back = [order.index(dim) for dim in range(x.dim())]
    shape = [x.shape[dim] for dim in order]
    nothing = torch.zeros((), dtype=torch.bool, device=x.device).expand(shape)  # no memory
    return torch.bernoulli(nothing, p).permute(back)


_DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = MappingProxyType(
    {torch.ops.aten.native_dropout.default: _native_dropout}
)


def _partitioned(joint: fx.GraphModule, *given: Any, **named: Any) -> Any:
    """Torch's own partition, with our search for common subexpressions before it.

    Torch's imports all of Inductor: 0.3 s.
    """
    _drop_detached(joint.graph)
    with_facts(joint, lambda length: length)
    config = aot.CONFIG.get()
    before, config.cse = config.cse, False
    try:
        joint.graph.eliminate_dead_code()
        places = saved.not_saved(joint.graph, named["num_fwd_outputs"])
        share_common(joint.graph, but=_of_outputs(joint.graph))
        saved.read_once(joint.graph, places)
        return aot.SMALLEST_PARTITION.get()(joint, *given, **named)
    finally:
        config.cse = before


def _drop_detached(graph: fx.Graph) -> None:
    """Autograd saves results detached, and the partitioner takes that for something that cannot be
    fused: it would keep each of them (82 tensors of a chain of 200 ops, instead of 4)."""
    (output,) = graph.find_nodes(op="output")
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        if output not in node.users:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _of_outputs(graph: fx.Graph) -> set[fx.Node]:
    """What makes the memory of a result: two results may not become one."""
    memory = {node: saved.memories(node) for node in graph.nodes}
    (output,) = graph.find_nodes(op="output")
    returned = {place for node in output.all_input_nodes for place in memory[node]}
    return {node for node, places in memory.items() if not returned.isdisjoint(places)}
