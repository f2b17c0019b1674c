"""A view of a view, as one view: of other sizes, of another order of dims, or spread."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.purity import name_of
from jitpkg.codegen.ir.extents import varies
from jitpkg.facts.single import stand_in
from jitpkg.facts.tensor import TensorFacts, size_of

aten = torch.ops.aten

_RESHAPED = frozenset({"view", "_unsafe_view", "_reshape_alias", "squeeze", "unsqueeze"})
_TURNED = frozenset({"permute", "transpose", "t"})


def merge_view_chains(graph: fx.Graph) -> int:
    """Make views of what their source is a view of, where one op can; returns how many."""
    merged = 0
    for node in graph.nodes:
        inner: Any = node.args[0] if node.args else None
        if node.op != "call_function" or not isinstance(inner, fx.Node):
            continue
        source = inner.args[0] if inner.op == "call_function" and inner.args else None
        if isinstance(source, fx.Node) and _merged(node, inner, source):
            merged += 1
    return merged


def _merged(node: fx.Node, inner: fx.Node, source: fx.Node) -> bool:
    kinds = (name_of(node), name_of(inner))
    facts = node.meta["facts"]
    if isinstance(facts, TensorFacts) and any(map(varies, (*facts.size, *facts.stride))):
        return False  # kernels read through views in any case
    size = list(size_of(facts)) if isinstance(facts, TensorFacts) else []
    if all(kind in _RESHAPED for kind in kinds):
        return _replaced(node, aten.view.default, source, size)
    if kinds == ("expand", "expand"):
        return _replaced(node, aten.expand.default, source, size)
    if all(kind in _TURNED for kind in kinds):
        first, second = _order(inner), _order(node)
        return _replaced(node, aten.permute.default, source, [first[k] for k in second])
    return False


def _replaced(node: fx.Node, op: Any, source: fx.Node, argument: list[int]) -> bool:
    """Let a node be this view, if it is the same one."""
    try:
        made = op(stand_in(source.meta["facts"]), argument)
    except RuntimeError:  # the memory lies so that it takes two
        return False
    facts = node.meta["facts"]
    if tuple(made.shape) != facts.size or made.stride() != facts.stride:
        return False
    if made.dtype is not facts.dtype:
        return False
    node.target, node.args, node.kwargs = op, (source, argument), {}
    return True


def _order(node: fx.Node) -> list[int]:
    """The dims of the source, in the order in which a turned view has them."""
    rank = len(node.meta["facts"].size)
    order = list(range(rank))
    match name_of(node):
        case "permute":
            dims: Any = node.args[1]
            return [dim % rank for dim in dims]
        case "transpose" if rank:
            a, b = (int(dim) % rank for dim in node.args[1:])  # type: ignore[arg-type]
            order[a], order[b] = order[b], order[a]
            return order
        case "t":
            return order[::-1]
        case _:
            return order
