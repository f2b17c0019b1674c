"""Convolutions of images with the channels innermost, where oneDNN is faster at these.

A depthwise convolution takes 1.5 to 4 times as long of images that lie as they usually do, and one
of single pixels as long by either way. What kernels compute between them lies as the next one
wants it; what the graph returns, and what other calls of ATen get, lies as in eager code.
"""

from __future__ import annotations

from dataclasses import replace
from operator import getitem
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.lowering.calls import is_fused
from jitpkg.facts.tensor import TensorFacts, contiguous_stride, size_of

aten = torch.ops.aten

FEW = 4
"""Channels of what a dense convolution reads, at most: of more, its weights would be laid out anew
at each call."""


def put_innermost(graph: fx.Graph) -> int:
    """Let convolutions have the channels innermost, if some are depthwise; returns how many."""
    chosen = [node for node in graph.nodes if _is_chosen(node)]
    if not any(_is_depthwise(node) for node in chosen):
        return 0
    returned = set(graph.output_node().all_input_nodes)
    if any(_made(node.args[0]) and node.args[0] in returned for node in chosen):
        return 0  # saved for gradients, as eager code has them
    layouts = _Layouts(graph, frozenset(chosen))
    for node in list(graph.nodes):
        layouts.visit(node)
    return len(chosen)


def _made(node: Any) -> bool:
    return isinstance(node, fx.Node) and node.op == "call_function"


def _images(node: Any) -> TensorFacts | None:
    """Of a batch of several float32 pixels of several channels."""
    facts = node.meta.get("facts") if isinstance(node, fx.Node) else None
    if not isinstance(facts, TensorFacts) or facts.dtype is not torch.float32:
        return None
    if facts.device.type != "cpu" or len(facts.size) != 4:
        return None
    if not all(type(length) is int for length in (*facts.size, *facts.stride)):
        return None
    size = size_of(facts)
    return facts if size[1] > 1 and size[2] * size[3] > 1 and 0 not in size else None


def _is_chosen(node: fx.Node) -> bool:
    if node.target is not aten.convolution.default or node.kwargs:
        return False
    args: Any = node.args
    x, made = _images(args[0]), _images(node)
    if x is None or made is None or args[6]:
        return False
    pixels = args[1].meta["facts"].size[2:] == (1, 1) and args[8] == 1
    return _is_depthwise(node) or pixels or size_of(x)[1] <= FEW


def _is_depthwise(node: fx.Node) -> bool:
    args: Any = node.args
    groups, channels = args[8], args[0].meta["facts"].size[1]
    return bool(groups == channels > 1)


def _innermost(facts: TensorFacts) -> TensorFacts:
    _, channels, height, width = size_of(facts)
    return replace(facts, stride=(channels * height * width, 1, channels * width, channels))


class _Layouts:
    """Says node by node how a result lies, and copies it where a reader wants it otherwise."""

    def __init__(self, graph: fx.Graph, chosen: frozenset[fx.Node]) -> None:
        self.graph = graph
        self.chosen = chosen
        self.turned: set[fx.Node] = set()
        """What has the channels innermost, and has not in eager code."""

    def visit(self, node: fx.Node) -> None:
        if node in self.chosen:
            x: Any = node.args[0]
            wanted = _innermost(x.meta["facts"])
            if x.meta["facts"].stride != wanted.stride:
                with self.graph.inserting_before(node):
                    node.update_arg(0, self._copied(x, torch.channels_last, wanted))
            self._turn(node)
        elif self._follows(node):
            self._turn(node)

    def _follows(self, node: fx.Node) -> bool:
        """Whether a kernel computes it of such images."""
        facts = _images(node)
        if facts is None or facts.stride != contiguous_stride(facts.size):
            return False
        by: Any = node.args[0] if node.target is getitem else node
        if not _is_kernel(by):
            return False
        of = (each for each in by.all_input_nodes if each in self.turned)
        return any(each.meta["facts"].size == facts.size for each in of)

    def _turn(self, node: fx.Node) -> None:
        before = node.meta["facts"]
        node.meta["facts"] = _innermost(before)
        if before.stride == node.meta["facts"].stride:
            return
        self.turned.add(node)
        if node.target is getitem:
            _say_of_part(node)
        others = [user for user in node.users if not self._takes(user)]
        if others:
            with self.graph.inserting_after(node):
                back = self._copied(node, torch.contiguous_format, before)
            for user in others:
                user.replace_input_with(node, back)

    def _takes(self, user: fx.Node) -> bool:
        return user in self.chosen or _is_kernel(user)

    def _copied(self, node: fx.Node, how: torch.memory_format, facts: TensorFacts) -> fx.Node:
        made = self.graph.call_function(aten.clone.default, (node,), {"memory_format": how})
        made.meta["facts"] = facts
        return made


def _say_of_part(node: fx.Node) -> None:
    """Say of what returns several tensors how one of them lies."""
    args: Any = node.args
    every = list(args[0].meta["facts"])
    every[args[1]] = node.meta["facts"]
    args[0].meta["facts"] = tuple(every)


def _is_kernel(node: fx.Node) -> bool:
    return is_fused(node.target)
