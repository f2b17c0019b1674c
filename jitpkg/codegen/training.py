"""Graphs that AOTAutograd differentiates: forward and backward by our kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_module_simplified
from torch._functorch.partitioners import min_cut_rematerialization_partition

from jitpkg.codegen.aten.passes.common import share_common
from jitpkg.codegen.compiler import Maker, Report
from jitpkg.codegen.differentiated import Plan, differentiated
from jitpkg.codegen.functional import Compiled, boxed, changes_state, through_aot
from jitpkg.codegen.halves import Function, compiled_half, in_parts, with_facts
from jitpkg.codegen.kept.training import Parts, keep_training
from jitpkg.codegen.launch import CpuKernels
from jitpkg.codegen.lowering.table import NotLowered
from jitpkg.codegen.options import Options
from jitpkg.codegen.partial_backward import Run
from jitpkg.facts.tensor import why_not_plain
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
        halves = _Halves(gm, inputs, maker, options, key)
        if not gm.meta.get(VARIES):
            compiled.finish = halves.joined

        def forward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Run:
            compiled.note(gm)
            return boxed(halves.add("forward", gm))

        def backward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Run:
            compile_part = partial(halves.add, "backward")
            return compiled.backward.runs(gm, lambda part: boxed(compile_part(part)))

        function: Callable[..., Any] = aot_module_simplified(
            copy,
            fakes,
            fw_compiler=forward,
            bw_compiler=backward,
            partition_fn=_partitioned,
            keep_inference_input_mutations=False,
        )
        return function

    return through_aot("jitpkg", gm, inputs, compile_)


class _Halves:
    """What is made of one graph, and how it becomes a function without AOTAutograd's wrappers."""

    def __init__(
        self,
        gm: fx.GraphModule,
        inputs: Sequence[Any],
        maker: Maker,
        options: Options,
        key: str | None,
    ) -> None:
        self._gm = gm
        self._inputs = inputs
        self._maker = maker
        self._options = options
        self._key = key
        self._graphs: dict[str, fx.GraphModule] = {}
        self._made: dict[str, tuple[Function, Report | None]] = {}

    def add(self, half: str, aten: fx.GraphModule) -> Function:
        """Compile one half, or a part of it."""
        name = f"{type(self._gm).__name__}.{half}"
        made = compiled_half(name, aten, self._maker, self._options)
        if half not in self._made:
            self._graphs[half], self._made[half] = aten, made
        return made[0]

    def joined(self, metadata: Any, compiled: Compiled) -> Function | None:
        """A function of the graph's inputs; None where AOTAutograd's wrappers have to be there."""
        if set(self._made) != {"forward", "backward"} or not isinstance(self._maker, CpuKernels):
            return None
        whole = self._graphs["backward"]
        plan = plan_of(metadata, self._graphs["forward"], whole, self._inputs, compiled.random > 0)
        if plan is None or changes_state(self._gm):
            return None
        halves = self._made["forward"], self._made["backward"]
        if self._key is not None:
            keep_training(self._key, self._gm, plan, halves, whole, self._maker)
        parts = Parts(self._gm, whole, self._key, self._maker, self._options)
        backward = in_parts({frozenset(): halves[1][0]}, parts.make)
        return differentiated(plan, self._gm, halves[0][0], backward)


def plan_of(
    metadata: Any,
    forward: fx.GraphModule,
    backward: fx.GraphModule,
    inputs: Sequence[Any],
    random: bool,
) -> Plan | None:
    """How AOTAutograd's two graphs belong together; None where that is not simple."""
    infos, results = metadata.input_info, metadata.output_info
    kinds = [info.output_type.name for info in results]
    is_simple = (
        torch.is_grad_enabled()
        and not torch._C._is_any_autocast_enabled()
        and all(why_not_plain(x) is None for x in inputs)
        and len(set(map(id, inputs))) == len(inputs) == len(infos)
        and not any(info.mutates_data or info.mutates_metadata for info in infos)
        and all(kind in ("non_alias", "unsafe_view_alias") for kind in kinds)
        and not any(getattr(metadata, name, 0) for name in _NOT_SIMPLE)
    )
    if not is_simple:
        return None
    (returned,) = forward.graph.find_nodes(op="output")[0].args
    (gradients,) = backward.graph.find_nodes(op="output")[0].args
    taken = [node.name for node in backward.graph.find_nodes(op="placeholder")]
    differentiable = tuple(k for k, info in enumerate(results) if _has_gradient(info))
    saved = len(returned) - len(results)
    layouts = [_layout(meta) for meta in metadata.subclass_tangent_meta]
    is_known = (
        len(forward.graph.find_nodes(op="placeholder")) == len(inputs) == len(gradients)
        and len(taken) == saved + len(differentiable)
        and [name.startswith("tangents") for name in taken[saved:]] == [True] * len(differentiable)
        and len(layouts) == len(differentiable) > 0
        and all(isinstance(node, fx.Node) and _is_tensor(node) for node in returned[len(results) :])
    )
    if not is_known or None in layouts:
        return None
    tensors = {k for k, node in enumerate(returned[: len(results)]) if _is_tensor(node)}
    return Plan(
        results=len(results),
        differentiable=differentiable,
        constant=tuple(sorted(tensors - set(differentiable))),
        views=tuple(k for k, kind in enumerate(kinds) if kind == "unsafe_view_alias"),
        detached=tuple(
            k
            for k, (info, gradient) in enumerate(zip(infos, gradients, strict=True))
            if gradient is None and info.requires_grad and not info.is_leaf
        ),
        layouts=tuple(layout for layout in layouts if layout is not None),
        deterministic=bool(metadata.deterministic),
        random=random,
    )


_NOT_SIMPLE = (
    *("num_intermediate_bases", "tokens", "num_outputs_rng_offset", "is_rng_op_functionalized"),
    *("num_graphsafe_rng_states", "num_symints_saved_for_bw", "num_backward_tokens"),
    *("num_tensors_saved_with_no_vc_check", "num_opaque_objects_saved_for_bw"),
    "indices_of_inputs_that_requires_grad_with_mutations_in_bw",
)
"""What of AOTAutograd's metadata is to be nothing."""


def _has_gradient(info: Any) -> bool:
    is_tensor = issubclass(info.raw_type, torch.Tensor)
    return is_tensor and bool(getattr(info, "requires_grad_for_backward", info.requires_grad))


def _is_tensor(node: Any) -> bool:
    return isinstance(node, fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


def _layout(meta: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The sizes and strides that a gradient is laid out by; None where it is not by them."""
    wanted = meta.memory_format
    if wanted is None or wanted.size is None or wanted.stride is None:
        return None
    lengths = (*wanted.size, *wanted.stride)
    if not all(isinstance(length, int) for length in lengths):
        return None
    return tuple(wanted.size), tuple(wanted.stride)


def _partitioned(joint: fx.GraphModule, *given: Any, **named: Any) -> Any:
    """Torch's own partition, with our search for common subexpressions before it.

    Torch's imports all of Inductor: 0.3 s.
    """
    try:
        with_facts(joint)
    except NotLowered:  # sizes that vary
        return min_cut_rematerialization_partition(joint, *given, **named)
    before, functorch_config.cse = functorch_config.cse, False
    try:
        joint.graph.eliminate_dead_code()
        share_common(joint.graph, but=_of_outputs(joint.graph))
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
