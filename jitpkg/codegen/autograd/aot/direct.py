"""Graphs that need nothing of AOTAutograd's runtime: their ATen graphs are called directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.autograd.function import Layout, Plan, differentiated, plain_test, quiet_test
from jitpkg.codegen.autograd.partial import Halves
from jitpkg.codegen.autograd.twice import Again
from jitpkg.codegen.graph.grad_modes import is_switch
from jitpkg.internals.aot import Metadata

Function = Callable[..., Any]


def direct(plan: Plan, halves: Halves, long_way: Function, again: Again | str) -> Function:
    """A function of the graph's inputs; calls that are unlike others still take the long way."""
    assert halves.forward is not None
    return differentiated(plan, halves.forward, halves.part, long_way, again)


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
    tangents = halves.gradients()
    if len(gradients) != len(inputs) or not tangents:
        return None
    differentiable = [k for k, info in enumerate(metadata.outputs) if info.requires_grad]
    if len(differentiable) != len(tangents):
        return None
    results, saved = _returned(forward, len(metadata.outputs))
    ints = _ints_behind_tensors(saved)
    taken = [node.meta["val"] for node in backward.find_nodes(op="placeholder")]
    if ints is None or not _are_taken(taken[: -len(tangents)], saved, ints):
        return None
    layouts = tuple(map(Layout.of, tangents))
    as_results = any(type(n) is not int for each in layouts for n in (*each.size, *each.stride))
    if as_results and not all(map(_lie_alike, (results[k] for k in differentiable), tangents)):
        return None
    kinds = [info.kind for info in metadata.outputs]
    return Plan(
        results=len(metadata.outputs),
        differentiable=tuple(differentiable),
        layouts=None if as_results else layouts,
        ints=ints,
        views=tuple(k for k, kind in enumerate(kinds) if kind == "unsafe_view_alias"),
        unused=tuple(k for k in _tensors(inputs) if gradients[k] is None),
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
    if torch.is_grad_enabled() and any(inputs[k].requires_grad for k in _tensors(inputs)):
        return None  # its ops would be recorded
    return halves.forward


def _is_simple(gm: fx.GraphModule, inputs: Sequence[Any], metadata: Metadata) -> bool:
    return (
        metadata.is_plain
        and all(type(x) in (torch.Tensor, torch.nn.Parameter, int) for x in inputs)
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
    known = all(isinstance(node, fx.Node) and "val" in node.meta for node in values)
    return len(given) == len(inputs) and made and known and len(set(returned)) == len(returned)


def _tensors(inputs: Sequence[Any]) -> list[int]:
    return [k for k, value in enumerate(inputs) if isinstance(value, torch.Tensor)]


# What varies


def _returned(forward: fx.Graph, results: int) -> tuple[list[Any], list[Any]]:
    """What the forward graph returns, as fake tensors and symbolic integers: its results, and what
    is saved."""
    (end,) = forward.find_nodes(op="output")
    nodes: Any = end.args[0]
    values = [node.meta["val"] for node in nodes]
    return values[:results], values[results:]


def _ints_behind_tensors(saved: Sequence[Any]) -> int | None:
    """How many integers are saved, which come behind all tensors; None where it is not so."""
    tensors = [isinstance(value, torch.Tensor) for value in saved]
    if tensors != sorted(tensors, reverse=True):
        return None
    return tensors.count(False)


def _are_taken(taken: Sequence[Any], saved: Sequence[Any], ints: int) -> bool:
    """Whether the backward graph takes what is saved: integers, then tensors."""
    order = [*saved[len(saved) - ints :], *saved[: len(saved) - ints]]
    return len(taken) == len(order) and all(
        isinstance(a, torch.Tensor) == isinstance(b, torch.Tensor)
        for a, b in zip(taken, order, strict=True)
    )


def _lie_alike(result: torch.Tensor, tangent: torch.Tensor) -> bool:
    """Whether sizes and strides are the same expressions."""
    lengths = zip(
        (*result.shape, *result.stride()), (*tangent.shape, *tangent.stride()), strict=False
    )
    return result.dim() == tangent.dim() and all(str(a) == str(b) for a, b in lengths)
