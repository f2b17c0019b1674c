"""Common subexpressions: a call that was made before with the same arguments is not made again."""

from __future__ import annotations

from collections.abc import Container, Hashable
from operator import getitem
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.passes.constants import constant
from jitpkg.codegen.aten.purity import is_random, name_of
from jitpkg.facts.tensor import data_of


def share_common(graph: fx.Graph, but: Container[fx.Node] = ()) -> int:
    """Replace later calls by the first one; returns how many.

    An op that may raise raises in its first call already.

    Args:
        but: calls that stay what they are.
    """
    seen: dict[Hashable, fx.Node] = {}
    shared = 0
    for node in graph.nodes:
        if node.op != "call_function" or is_random(node) or node in but:
            continue
        if node.target is not getitem and node.target != constant and not name_of(node):
            continue
        key = (node.target, _key(node.args), _key(node.kwargs))
        first = seen.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
            shared += 1
    return shared


def _key(value: Any) -> Hashable:
    """Equal for arguments that are the same: 1 is not True, and -0.0 is not 0.0."""
    match value:
        case fx.Node():
            return value
        case float():
            return float, value.hex()
        case tuple() | list():
            return tuple, tuple(map(_key, value))
        case dict():
            return dict, tuple((name, _key(each)) for name, each in value.items())
        case torch.Tensor():  # of a constant: there are none besides
            return value.dtype, value.shape, value.stride(), data_of(value)
        case complex() | slice():
            return id(value)
        case _:
            return type(value), value
