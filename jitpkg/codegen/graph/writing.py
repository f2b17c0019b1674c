"""Nodes of a graph of torch functions that write to tensors, by their names."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import fx

from jitpkg.internals.ops import OpOverload, schema


def name_of(node: fx.Node) -> str:
    """The name of the function or method that a node calls."""
    return str(getattr(node.target, "__name__", node.target))


def of_expanded(node: fx.Node) -> bool:
    """Whether an op writes to a view that has been expanded, which an op on copies cannot tell."""
    if not _writes(node):
        return False
    written: Any = node.args[0] if node.args else None
    while isinstance(written, fx.Node):
        name = name_of(written)
        if name in _OVERLAPPING:
            return True
        if name in ("clone", "contiguous"):
            return False
        written = written.args[0] if written.args else None
    return False


def _writes(node: fx.Node) -> bool:
    name = name_of(node)
    bare = name.strip("_")
    is_named_so = bare in ("setitem", *_AUGMENTED) or bare + "_" == name
    return node.op.startswith("call") and (is_named_so or "out" in node.kwargs)


_AUGMENTED = frozenset("iadd isub imul itruediv ifloordiv imod ipow iand ior ixor".split())


def of_itself(node: fx.Node) -> bool:
    """Whether an op may read what it writes to, by another view; norms write to statistics."""
    if not _writes(node) and "norm" not in name_of(node):
        return False
    made_of = Counter(map(_made_of, _nodes((node.args, node.kwargs))))
    return max(made_of.values(), default=0) > 1


def written_by(node: fx.Node) -> Any:
    """What an op writes to; None for one that does not write."""
    if not _writes(node):
        return None
    return node.kwargs.get("out", node.args[0] if node.args else None)


def restrides(node: fx.Node) -> bool:
    """Whether a method sets sizes or strides of a tensor in place, as `t_` does."""
    if not node.op.startswith("call") or not name_of(node).endswith("_"):
        return False
    packet = getattr(torch.ops.aten, name_of(node), None)
    if packet is None:
        return False
    return any(torch.Tag.inplace_view in getattr(packet, name).tags for name in packet.overloads())


def object_of(node: fx.Node) -> fx.Node:
    """What methods that return the tensor itself were called of."""
    while _writes(node) and node.args and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def is_lost(op: object) -> bool:
    """Whether torch makes an op with `out=` functional in a wrong way: where the op is generated,
    it forgets to resize; where it writes to other arguments, too, the values get mixed up."""
    if not isinstance(op, OpOverload):
        return False
    by_name = [each.kwarg_only for each in schema(op).arguments if each.is_write]
    return any(by_name) and (torch.Tag.generated in op.tags or not all(by_name))


def _made_of(node: fx.Node) -> fx.Node:
    """What the first operand of a node, of that one, and so on is."""
    while node.args and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def _nodes(written: Any) -> list[fx.Node]:
    found: list[fx.Node] = []
    fx.map_arg(written, found.append)
    return found


_OVERLAPPING = frozenset(
    {"expand", "expand_as", "broadcast_to", "broadcast_tensors", "as_strided", "unfold"}
)
