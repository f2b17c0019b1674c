"""Results that lie in memory in another way than in eager code, by which the program was traced.

AOTAutograd makes other ops of some: `rrelu` keeps the order of dims, where eager code does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.autograd.function import Layout
from jitpkg.codegen.graph.copies import copied, replaced
from jitpkg.codegen.graph.writing import name_of
from jitpkg.dataclass import dataclass
from jitpkg.facts.layout import overlaps
from jitpkg.facts.tensor import is_idle


def in_order(gm: fx.GraphModule) -> fx.GraphModule:
    """The graph, with what `one_hot` is given in order: where there are no data, its result lies in
    the order of that, and otherwise in its own."""
    if not any(name_of(node) == "one_hot" for node in gm.graph.nodes):
        return gm
    graph = copied(gm.graph)
    for node in list(graph.nodes):
        if name_of(node) == "one_hot" and node.args:
            with graph.inserting_before(node):
                node.update_arg(0, graph.call_method("contiguous", (node.args[0],)))
    return replaced(gm, graph)


@dataclass(frozen=True, slots=True)
class Laid:
    """How a result lies in memory."""

    layout: Layout
    can_be_copied: bool
    """Whether a copy could take its place: nothing else has its memory, and no element's twice."""

    @classmethod
    def of(cls, x: torch.Tensor, *, alone: bool) -> Laid:
        layout = Layout.of(x)
        lazy = x.is_conj() or x.is_neg()
        return cls(layout, alone and not lazy and not overlaps(layout.size, layout.stride))


def differing(
    laid: Sequence[Laid | None], made: Sequence[Any], *, varies: bool
) -> Mapping[int, Layout] | str:
    """How results should lie that a graph of ATen ops lays out in another way; or why no copies of
    them would be right.

    Args:
        made: what that graph returns for each, without data, and perhaps others.
        varies: whether sizes or strides are others at other calls.
    """
    found: dict[int, Layout] = {}
    for k, (of, x) in enumerate(zip(laid, made, strict=False)):
        if of is None or not isinstance(x, torch.Tensor):
            continue
        layout, stride = of.layout, tuple(map(_now, x.stride()))
        if layout.stride == stride:
            continue
        if of.can_be_copied and not varies:
            found[k] = layout
        elif any(
            a != b and not is_idle(layout.size, dim)
            for dim, (a, b) in enumerate(zip(layout.stride, stride, strict=True))
        ):
            return "results that would lie in memory in another way than eager code's"
    return found


def _now(length: Any) -> int:
    """A length, for the inputs at hand."""
    return int(length.node.hint) if isinstance(length, torch.SymInt) else int(length)


def laid_out(function: Callable[..., Any], layouts: Mapping[int, Layout]) -> Callable[..., Any]:
    """The function, with copies of some results, which lie so."""

    def run(*inputs: Any) -> Any:
        results = list(function(*inputs))
        for k, layout in layouts.items():
            if results[k].stride() != layout.stride:  # else it comes from the graph as it is
                results[k] = layout.copied(results[k])
        return tuple(results)

    return run
