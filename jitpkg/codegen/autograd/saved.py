"""What may be saved for a backward pass of what a program can write to before that.

A partition saves what is least: of `(x - y) ** 2` the difference, or `x` and `y`, to subtract once
more. But a graph's inputs and results are the program's. It may write to them before it goes
backward: eager code, which has saved the difference, allows that, and code that has saved them
would raise that one of them was modified. So of these only those are saved that eager code saves.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from jitpkg.codegen.aten.reach import needed_for
from jitpkg.internals import aot, trees
from jitpkg.internals.tensors import memory as memory_of


def memories(node: fx.Node) -> set[int]:
    """Where the tensors lie that an op returns: one, or several."""
    value = node.meta.get("val")
    every = value if isinstance(value, tuple | list) else [value]
    return {memory_of(x) for x in every if isinstance(x, torch.Tensor)}


def not_saved(joint: fx.Graph, results: int) -> set[int]:
    """The memory of a graph's inputs and results that its gradients are not computed from, nor what
    a checkpoint computes again.

    Args:
        joint: forward and backward, as they were traced.
        results: how many the forward has.
    """
    (output,) = joint.find_nodes(op="output")
    returned = [x for x in trees.leaves_of(output.args)[:results] if isinstance(x, fx.Node)]
    forward = needed_for(returned)
    found = {
        place
        for node in (*joint.find_nodes(op="placeholder"), *returned)
        for place in memories(node)
    }
    for node in joint.nodes:
        is_again = node.meta.get("recompute") is CheckpointPolicy.PREFER_RECOMPUTE
        if (node not in forward or is_again) and memories(node):
            found.difference_update(*map(memories, node.all_input_nodes))
    return found


def read_once(joint: fx.Graph, places: set[int]) -> None:
    """See to it that nothing is computed again from what lies there."""
    for node in joint.nodes:
        made, read = memories(node), set[int]().union(*map(memories, node.all_input_nodes))
        if made and made.isdisjoint(places) and not read.isdisjoint(places):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def saves_restrided(forward: fx.Graph, metadata: aot.Metadata) -> bool:
    """Whether an input is saved of which the sizes or strides are set when the forward has run.

    That counts as a write. Eager code, which saves it afterwards, allows it.
    """
    inputs = zip(forward.find_nodes(op="placeholder"), metadata.inputs, strict=False)
    restrided = [node for node, info in inputs if info.mutates_metadata]
    places = {place for node in restrided for place in memories(node)}
    (output,) = forward.find_nodes(op="output")
    saved: Any = output.args[0]
    nodes = [x for x in saved[aot.forward_returns(metadata.raw) :] if isinstance(x, fx.Node)]
    return any(not memories(node).isdisjoint(places) for node in nodes)
