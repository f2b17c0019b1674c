"""Nested arguments and results, taken apart as torch's own functions do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jitpkg.internals.row import Row

_LOST = "nothing is known of what ops return: each breaks the graph"

FLATTEN = Row[Callable[..., tuple[list[Any], Any]]](
    "torch.utils._pytree.tree_flatten", use="finding the tensors among arguments", lost=_LOST
)
UNFLATTEN = Row[Callable[[Iterable[Any], Any], Any]](
    "torch.utils._pytree.tree_unflatten", use="putting tensors in their places", lost=_LOST
)

IsLeaf = Callable[[Any], bool]


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], Any]:
    """The leaves of nested containers, and what `unflatten` needs to put others there."""
    return FLATTEN.get()(tree, is_leaf=is_leaf)


def unflatten(leaves: Iterable[Any], structure: Any) -> Any:
    return UNFLATTEN.get()(leaves, structure)


def leaves_of(tree: Any) -> list[Any]:
    return flatten(tree)[0]


def mapped(function: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The same containers, with what a function gives for each leaf."""
    leaves, structure = flatten(tree, is_leaf)
    return unflatten(map(function, leaves), structure)
