"""Graphs that need nothing of AOTAutograd's runtime: their ATen graphs are called directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.grad_modes import is_switch
from jitpkg.codegen.differentiated import Layout, Plan, differentiated, plain_test, quiet_test
from jitpkg.codegen.partial_backward import Halves
from jitpkg.internals.aot import Metadata

Function = Callable[..., Any]


def direct(plan: Plan, halves: Halves, long_way: Function) -> Function:
    """A function of the graph's inputs; calls that are unlike others still take the long way."""
    assert halves.forward is not None
    return differentiated(plan, halves.forward, halves.part, long_way)


def plan_of(
    gm: fx.GraphModule, inputs: Sequence[Any], halves: Halves, metadata: Metadata
) -> Plan | None:
    """How the halves belong together; None where it is not so simple."""
    forward, backward = halves.forward_graph, halves.backward_graph
    if halves.forward is None or forward is None or backward is None:
        return None
    if not plain_test()() or not _is_simple(gm, inputs, metadata):
        return None
    if not _has_plain_ends(forward, inputs, metadata):
        return None
    (end,) = backward.find_nodes(op="output")
    gradients: Any = end.args[0]
    tangents = backward.find_nodes(op="placeholder")[-halves.tangents :]
    if len(gradients) != len(inputs) or halves.tangents == 0:
        return None
    differentiable = [k for k, info in enumerate(metadata.outputs) if info.requires_grad]
    if len(differentiable) != halves.tangents:
        return None
    layouts = tuple(Layout.of(node.meta["val"]) for node in tangents)
    if any(type(n) is not int for layout in layouts for n in (*layout.size, *layout.stride)):
        return None
    kinds = [info.kind for info in metadata.outputs]
    return Plan(
        results=len(metadata.outputs),
        differentiable=tuple(differentiable),
        layouts=layouts,
        views=tuple(k for k, kind in enumerate(kinds) if kind == "unsafe_view_alias"),
        unused=tuple(k for k, gradient in enumerate(gradients) if gradient is None),
        deterministic=torch.are_deterministic_algorithms_enabled(),
    )


def inference_of(
    gm: fx.GraphModule, inputs: Sequence[Any], halves: Halves, metadata: Metadata
) -> Function | None:
    """The function of a graph that is not differentiated; None where it is not so simple.

    What else it depends on, an entry's guards test.
    """
    forward = halves.forward_graph
    if forward is None or halves.backward_graph is not None or not quiet_test()():
        return None
    if not _is_simple(gm, inputs, metadata) or not _has_plain_ends(forward, inputs, metadata):
        return None
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return None  # its ops would be recorded
    return halves.forward


def _is_simple(gm: fx.GraphModule, inputs: Sequence[Any], metadata: Metadata) -> bool:
    return (
        metadata.is_plain
        and all(type(x) in (torch.Tensor, torch.nn.Parameter) for x in inputs)
        and not any(info.is_written for info in metadata.inputs)
        and not any(map(is_switch, gm.graph.nodes))
        and all(
            info.kind in ("non_alias", "unsafe_view_alias")
            and issubclass(info.raw_type, torch.Tensor)
            for info in metadata.outputs
        )
    )


def _has_plain_ends(forward: fx.Graph, inputs: Sequence[Any], metadata: Metadata) -> bool:
    """Whether the forward graph takes each input, and returns tensors that it makes itself."""
    given = forward.find_nodes(op="placeholder")
    (end,) = forward.find_nodes(op="output")
    values: Any = end.args[0]
    returned = values[: len(metadata.outputs)]
    made = all(isinstance(node, fx.Node) and node.op == "call_function" for node in returned)
    saved = all(isinstance(node.meta.get("val"), torch.Tensor) for node in values)
    return len(given) == len(inputs) and made and saved and len(set(returned)) == len(returned)
