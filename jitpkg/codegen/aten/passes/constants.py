"""Constant folding: what is computed of nothing but numbers is computed now, where it is small.

Tensors that only lend their size are no obstacle: `zeros_like(x)` is `full` of a size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.purity import is_pure, is_view, name_of
from jitpkg.codegen.ir.extents import varies
from jitpkg.facts.tensor import TensorFacts, contiguous_stride
from jitpkg.interrupts import from_outside

aten = torch.ops.aten

MOST_ELEMENTS = 1024
"""Of a constant: larger ones are computed, or read from memory, in any case."""


def constant(value: torch.Tensor) -> torch.Tensor:
    """A tensor that belongs to a graph; nobody may write to it."""
    return value


def fold_constants(graph: fx.Graph) -> int:
    """Replace calls by `full`, or by `constant` tensors; returns how many."""
    folded = 0
    known: dict[fx.Node, torch.Tensor] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(node.meta["facts"], TensorFacts):
            continue
        folded += _as_full(node)
        value = _value(node, known)
        if value is None:
            continue
        known[node] = value
        if name_of(node) not in _MADE_OF_NUMBERS and not is_view(node) and node.target != constant:
            _replace(node, value)
            folded += 1
    return folded


def _as_full(node: fx.Node) -> bool:
    """Make `full` of what fills a tensor that is laid out in the usual way."""
    filled = _FILLS.get(name_of(node))
    facts = node.meta["facts"]
    if filled is None or facts.stride != contiguous_stride(facts.size):
        return False
    number = filled if filled != "given" else node.args[-1]
    if isinstance(number, fx.Node):
        return False
    node.target = aten.full.default
    node.args, node.kwargs = (list(facts.size), number), {"dtype": facts.dtype}
    return True


_FILLS: Mapping[str, Any] = MappingProxyType(
    {
        "zeros": 0,
        "zeros_like": 0,
        "new_zeros": 0,
        "ones": 1,
        "ones_like": 1,
        "new_ones": 1,
        "full_like": "given",
        "new_full": "given",
    }
)
"""What such ops fill a tensor with."""

_MADE_OF_NUMBERS = frozenset({"full", "arange", "scalar_tensor", "empty"})
"""Ops that a kernel computes faster than it reads their results from memory."""


def _value(node: fx.Node, known: Mapping[fx.Node, torch.Tensor]) -> torch.Tensor | None:
    if node.target == constant:
        held: Any = node.args[0]
        return held if isinstance(held, torch.Tensor) else None
    facts = node.meta["facts"]
    if not is_pure(node) or name_of(node) in ("", "empty", "empty_like", "new_empty"):
        return None
    if any(used not in known for used in node.all_input_nodes):
        return None
    if _asks_for_sizes((node.args, node.kwargs)) or any(map(varies, facts.size)):
        return None
    if math.prod(facts.size) > MOST_ELEMENTS:
        return None
    target: Any = node.target
    args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
    try:
        with torch.inference_mode(False):
            made = target(*args, **kwargs)
    except RuntimeError as error:  # what it is to be raised for is seen where it runs
        if from_outside(error):
            raise
        return None
    if tuple(made.shape) != facts.size or made.stride() != facts.stride:
        return None
    return made if made.dtype is facts.dtype else None


def _asks_for_sizes(value: Any) -> bool:
    """Whether a size that varies is among arguments."""
    match value:
        case tuple() | list():
            return any(map(_asks_for_sizes, value))
        case dict():
            return any(map(_asks_for_sizes, value.values()))
        case _:
            return varies(value)


def _replace(node: fx.Node, value: torch.Tensor) -> None:
    facts = node.meta["facts"]
    if facts.stride == contiguous_stride(facts.size) and _is_uniform(value):
        number = value.reshape(-1)[0].item()
        node.target = aten.full.default
        node.args, node.kwargs = (list(facts.size), number), {"dtype": facts.dtype}
        return
    node.target, node.args, node.kwargs = constant, (value,), {}


def _is_uniform(value: torch.Tensor) -> bool:
    """Whether all elements are one number, and zeros have one sign."""
    if value.dtype.is_complex or not value.numel():
        return False
    is_one = bool((value == value.reshape(-1)[0]).all())
    return is_one and not bool((value.signbit() & (value == 0)).any())
