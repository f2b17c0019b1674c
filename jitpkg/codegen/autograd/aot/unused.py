"""Results that nothing uses: what computes them may raise, and AOTAutograd drops it.

So a graph returns a tensor without elements for each, made of it: then it is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.graph.grad_modes import is_switch
from jitpkg.codegen.graph.writing import written_by
from jitpkg.facts.thread_state import setters
from jitpkg.internals import trees


def return_unused(graph: fx.Graph) -> int:
    """Return something of each result that nothing uses, behind the others; how many these are."""
    unused = list(filter(_is_unused, graph.nodes))
    if not unused:
        return 0
    (output,) = graph.find_nodes(op="output")
    results: Any = output.args[0]
    with graph.inserting_before(output):
        made = [graph.call_function(_nothing_of, (node, *node.args[:1])) for node in unused]
    output.args = ((*results, *made),)
    return len(made)


def without(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The function, returning so many."""
    return lambda *inputs: tuple(function(*inputs)[:count])


def _is_unused(node: fx.Node) -> bool:
    if node.users or not node.op.startswith("call") or is_switch(node) or node.target in setters():
        return False
    written = written_by(node)  # it is seen where it is an input, or used afterwards
    if not isinstance(written, fx.Node):
        return True
    return written.op.startswith("call") and [*written.users][-1] is node


def _nothing_of(*values: Any) -> torch.Tensor:
    """A tensor without elements, made of the first tensor that there is."""
    for leaf in trees.leaves_of(values):
        if isinstance(leaf, torch.Tensor):
            return leaf.new_empty(0)
    return torch.empty(0)
