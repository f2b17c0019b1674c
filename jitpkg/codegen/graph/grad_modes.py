"""Graphs that switch grad mode: what of them is still inference."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.internals import modes
from jitpkg.marks import GRADIENTS, WRITES


def is_switch(node: fx.Node) -> bool:
    """Whether a node of a graph of torch functions switches grad mode."""
    return node.target is modes.SET_GRAD_ENABLED.found()


def has_backward(graph: fx.Graph) -> bool:
    """Whether a backward pass is a part of the graph."""
    return any(GRADIENTS in node.meta for node in graph.nodes)


def makes_leaf(node: fx.Node) -> bool:
    """Whether a node of a graph of torch functions returns a leaf that requires grad."""
    asked = bool(node.kwargs.get("requires_grad")) or node.target == "requires_grad_"
    return asked or makes_parameter(node)


def makes_parameter(node: fx.Node) -> bool:
    """Whether it makes a parameter, which only the real op does."""
    return node.target is torch.nn.Parameter


@dataclass(frozen=True, slots=True)
class GradModes:
    """Grad mode while a graph runs."""

    first: bool
    last: bool
    changes: bool
    off: bool
    """Whether it is off wherever inputs that require grad are used, though on when it is called."""

    @classmethod
    def trained(cls, gm: fx.GraphModule) -> GradModes | str:
        """Of a graph whose results may require grad: it ends in the mode in which it began."""
        if not torch.is_grad_enabled():
            return "grad mode is off"
        switches = [bool(node.args[0]) for node in gm.graph.nodes if is_switch(node)]
        if switches and not switches[-1]:
            return "grad mode is off in the end"
        return cls(first=True, last=True, changes=not all(switches), off=False)

    @classmethod
    def of(cls, gm: fx.GraphModule, inputs: Sequence[object]) -> GradModes | str:
        """What a graph does, called as things are; or why a result may require grad."""
        first = enabled = torch.is_grad_enabled()
        changes = False
        placeholders = gm.graph.find_nodes(op="placeholder")
        need = {
            node
            for node, given in zip(placeholders, inputs, strict=True)
            if isinstance(given, torch.Tensor) and given.requires_grad
        }
        names = {node.name for node in need}
        written = False  # then it may be an operand under another name
        for node in gm.graph.nodes:
            if is_switch(node):
                changes = changes or node.args != (enabled,)
                enabled = bool(node.args[0])
            elif not node.op.startswith("call") or node.target == "detach":
                continue
            elif enabled and (written or not need.isdisjoint(node.all_input_nodes)):
                return "a result that may require grad"
            written = written or not names.isdisjoint(node.meta.get(WRITES, ()))
        return cls(first, enabled, changes, off=first and bool(need))
