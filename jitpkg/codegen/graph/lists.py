"""Ops on lists of tensors, such as `torch._foreach_add_`: one op for each tensor in their place.

On a CPU torch itself goes through the lists, so that this computes the same; kernels are made of
the single ops, and what happens to one tensor is one of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.graph.copies import copied, replaced
from jitpkg.codegen.graph.writing import name_of
from jitpkg.internals import ops
from jitpkg.marks import SCALAR, WRITES

_METHODS = frozenset(
    """
    abs add addcdiv addcmul clamp_max clamp_min copy_ div exp lerp log mul neg pow reciprocal round
    rsqrt sigmoid sign sqrt sub tanh zero_
    """.split()
)
"""Methods of tensors that do for one what such an op does for a list."""
_SCALED = frozenset({"addcdiv", "addcmul"})
"""Those of which a fourth argument is called `value`."""
_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"maximum": torch.maximum, "minimum": torch.minimum, "norm": torch.linalg.vector_norm}
)


def singly(gm: fx.GraphModule) -> fx.GraphModule:
    """A graph without such ops, as far as that can be done; the same one where there are none."""
    if not any(_name(node) for node in gm.graph.nodes):
        return gm
    graph = copied(gm.graph)
    for node in list(graph.nodes):
        if _name(node):
            _replace(graph, node)
    return replaced(gm, graph)


def is_fused_step(gm: fx.GraphModule) -> bool:
    """Whether a graph has a step of an optimizer as one op, as with `fused=True`."""
    return any(_called(node).startswith(ops.FUSED) for node in gm.graph.nodes)


def _name(node: fx.Node) -> str:
    """The name of what such an op does, without the prefix."""
    name = _called(node)
    return name.removeprefix(ops.FOREACH) if name.startswith(ops.FOREACH) else ""


def _called(node: fx.Node) -> str:
    return name_of(node) if node.op == "call_function" else ""


def _replace(graph: fx.Graph, node: fx.Node) -> None:
    name = _name(node)
    stem = name.rstrip("_")
    tensors: Any = node.args[0] if node.args else None
    known = name in _METHODS or stem in _METHODS or stem in _FUNCTIONS
    if not known or not isinstance(tensors, list | tuple) or not _only_items(node):
        return
    args: list[Any] = list(node.args)
    kwargs: dict[str, Any] = dict(node.kwargs)
    lists = [given for given in (*args, *kwargs.values()) if _is_list(given)]
    if any(len(given) != len(tensors) for given in lists):
        return
    last = args[-1]
    if stem in _SCALED and len(args) == 4 and isinstance(last, fx.Node) and SCALAR not in node.meta:
        return  # a tensor with a number for each
    if stem in ("maximum", "minimum") and not _is_list(last):
        return
    made: list[fx.Node] = []
    with graph.inserting_before(node):
        for k in range(len(tensors)):
            of_one = [given[k] if _is_list(given) else given for given in args]
            named = {key: given[k] if _is_list(given) else given for key, given in kwargs.items()}
            made.append(_one(graph, node, name, of_one, named))
    for user in list(node.users):
        user.replace_all_uses_with(made[user.args[1]])  # type: ignore[index]
        graph.erase_node(user)
    graph.erase_node(node)


def _one(
    graph: fx.Graph, node: fx.Node, name: str, args: list[Any], kwargs: dict[str, Any]
) -> fx.Node:
    stem = name.rstrip("_")
    if stem in _SCALED and len(args) == 4:
        kwargs["value"] = args.pop()
    if stem not in _FUNCTIONS:
        found = graph.call_method(name, tuple(args), kwargs)
    else:
        found = graph.call_function(_FUNCTIONS[stem], tuple(args), kwargs)
        if name != stem:
            found = graph.call_method("copy_", (args[0], found))
    if SCALAR in node.meta:
        found.meta[SCALAR] = node.meta[SCALAR]
    if name.endswith("_") and WRITES in node.meta:
        found.meta[WRITES] = node.meta[WRITES]
    return found


def _only_items(node: fx.Node) -> bool:
    return all(user.target is operator.getitem and user.args[0] is node for user in node.users)


def _is_list(given: object) -> bool:
    return isinstance(given, list | tuple)
