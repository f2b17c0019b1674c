"""Rewrite rows: a pattern of ops that another op does better.

None is exact, so they are for those who ask for them; each says how far its results may be off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.purity import name_of
from jitpkg.dataclass import dataclass
from jitpkg.facts.rows.functions import flash_is_on
from jitpkg.facts.single import Unanswered, facts_of_stand_in, of_whole_function, stand_in
from jitpkg.facts.tensor import TensorFacts

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A row: what may stand in place of a call."""

    name: str
    differs: str
    """By what, and why."""
    ops: frozenset[str]
    """The calls that may be the last one of the pattern."""
    replacement: Callable[[fx.Node], fx.Node | None]
    """Inserts what stands for a call that is the last one of the pattern; None if it is not."""


def rewrite(graph: fx.Graph, rows: Sequence[Rewrite]) -> int:
    """Apply rows wherever they fit; returns how often. What is replaced becomes dead code."""
    applied = 0
    for node in list(graph.nodes):
        for row in rows if node.op == "call_function" else ():
            if name_of(node) not in row.ops:
                continue
            with graph.inserting_before(node):
                replacement = row.replacement(node)
            if replacement is not None:
                node.replace_all_uses_with(replacement)
                applied += 1
                break
    return applied


# mm + add


def _added_product(node: fx.Node) -> fx.Node | None:
    if len(node.args) != 2 or node.kwargs:
        return None
    for product, other in (node.args, reversed(node.args)):
        if not isinstance(product, fx.Node) or not isinstance(other, fx.Node):
            continue
        facts, added = product.meta["facts"], other.meta["facts"]
        if name_of(product) != "mm" or len(product.users) != 1 or added.dtype is not facts.dtype:
            continue
        if len(added.size) > 2 or not _alike(facts, node.meta["facts"]):
            continue
        made = node.graph.call_function(aten.addmm.default, (other, *product.args))
        made.meta["facts"] = facts
        return made
    return None


# Attention


def _attention(node: fx.Node) -> fx.Node | None:
    """`softmax(query @ key.T * scale) @ value` of four dims: batch, head, place, feature."""
    value = _of_four_dims(node.args[1])
    weights = _behind_views(node.args[0], only=True)
    if value is None or weights is None or name_of(weights) != "_softmax":
        return None
    scores, dim = weights.args[:2]
    rank = len(weights.meta["facts"].size)
    if rank != 4 or dim not in (-1, 3) or len(weights.users) != 1:
        return None
    scale = 1.0
    while isinstance(scores, fx.Node) and name_of(scores) in ("mul", "div"):
        factor = scores.args[1]
        if type(factor) not in (int, float) or scores.kwargs or len(scores.users) != 1:
            return None
        assert isinstance(factor, int | float)
        scale = scale * factor if name_of(scores) == "mul" else scale / factor
        scores = scores.args[0]
    product = _behind_views(scores, only=True)
    if product is None or name_of(product) != "bmm" or len(product.users) != 1:
        return None
    query, turned_key = _of_four_dims(product.args[0]), _of_four_dims(product.args[1])
    if query is None or turned_key is None or query.meta["facts"].dtype not in _PRECISE:
        return None
    return _as_attention(node, query, turned_key, value, scale)


_PRECISE = (torch.float32, torch.float64)
"""Of lesser types the scores are rounded in eager code, and are not inside of attention."""


def _as_attention(
    node: fx.Node, query: fx.Node, turned_key: fx.Node, value: fx.Node, scale: float
) -> fx.Node | None:
    if not flash_is_on():
        return None
    graph, wanted = node.graph, node.meta["facts"]
    turned = aten.transpose.int(stand_in(turned_key.meta["facts"]), 2, 3)
    given = [stand_in(query.meta["facts"]), turned, stand_in(value.meta["facts"])]
    try:
        made = of_whole_function("scaled_dot_product_attention", given, {"scale": scale})
    except Unanswered:
        return None
    if (made.shape[0] * made.shape[1], *made.shape[2:]) != wanted.size:
        return None

    def call(op: Any, args: tuple[Any, ...], facts: torch.Tensor, **kwargs: Any) -> fx.Node:
        made = graph.call_function(op, args, kwargs)
        made.meta["facts"] = facts_of_stand_in(facts)
        return made

    key = call(aten.transpose.int, (turned_key, 2, 3), turned)
    function = torch.nn.functional.scaled_dot_product_attention
    found = call(function, (query, key, value), made, scale=scale)
    if not made.is_contiguous():
        made = made.contiguous()
        found = call(aten.clone.default, (found,), made, memory_format=torch.contiguous_format)
    viewed = graph.call_function(aten.view.default, (found, list(wanted.size)))
    viewed.meta["facts"] = wanted
    return viewed


_VIEWS = frozenset({"view", "_unsafe_view", "expand", "clone"})


def _behind_views(value: Any, *, only: bool = False) -> fx.Node | None:
    """What has these elements in this order; `only` if nothing else uses them."""
    while isinstance(value, fx.Node) and name_of(value) in _VIEWS:
        source = value.args[0]
        if only and len(value.users) != 1:
            return None
        if not isinstance(source, fx.Node) or _count(source) != _count(value):
            break
        value = source
    return value if isinstance(value, fx.Node) else None


def _of_four_dims(value: Any) -> fx.Node | None:
    """The tensor of four dims of which `value` has the first two in one."""
    node = value
    while isinstance(node, fx.Node):
        size = node.meta["facts"].size
        if len(size) == 4:
            wanted = value.meta["facts"].size
            return _original(node) if (size[0] * size[1], *size[2:]) == wanted else None
        if name_of(node) not in _VIEWS or len(size) != 3:
            return None
        node = node.args[0]
    return None


def _original(node: fx.Node) -> fx.Node:
    """What a copy is made of: attention takes other layouts, too."""
    while name_of(node) == "clone" and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def _count(node: fx.Node) -> int:
    count = 1
    for length in node.meta["facts"].size:
        count *= length
    return count


def _alike(a: TensorFacts, b: TensorFacts) -> bool:
    return a.size == b.size and a.stride == b.stride and a.dtype is b.dtype


REWRITES = (
    Rewrite(
        "mm + add",
        "one rounding less: the sum is added to before it is rounded",
        frozenset({"add"}),
        _added_product,
    ),
    Rewrite(
        "attention",
        "the softmax is computed in parts: 1e-6 of the largest value, in float32",
        frozenset({"bmm"}),
        _attention,
    ),
)
