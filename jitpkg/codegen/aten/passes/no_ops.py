"""Calls that return what they are given: the same bits, size, strides and dtype.

In a functional graph a copy that nobody writes to is no different from the original.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.purity import name_of
from jitpkg.codegen.ir.extents import same
from jitpkg.facts.tensor import TensorFacts


def drop_no_ops(graph: fx.Graph) -> int:
    """Replace such calls by what they are given; returns how many."""
    dropped = 0
    for node in graph.nodes:
        same = _ROWS.get(name_of(node)) if node.op == "call_function" else None
        source = same(node) if same is not None else None
        if source is None or not alike(source, node):
            continue
        node.replace_all_uses_with(source)
        graph.erase_node(node)
        dropped += 1
    return dropped


def alike(a: fx.Node, b: fx.Node) -> bool:
    """Whether two tensors have one layout and dtype."""
    x, y = a.meta["facts"], b.meta["facts"]
    if not isinstance(x, TensorFacts) or not isinstance(y, TensorFacts):
        return False
    if len(x.size) != len(y.size) or x.dtype is not y.dtype:
        return False
    return all(map(same, (*x.size, *x.stride), (*y.size, *y.stride)))


Row = Callable[[fx.Node], fx.Node | None]
"""What a call returns where its facts are that node's."""


def _first(node: fx.Node) -> fx.Node | None:
    source = node.args[0]
    return source if isinstance(source, fx.Node) else None


def _second(node: fx.Node) -> fx.Node | None:
    """`copy(x, y)` where y is laid out as x."""
    source = node.args[1]
    return source if isinstance(source, fx.Node) else None


def _converted(node: fx.Node) -> fx.Node | None:
    """To the same dtype; or back from a wider one."""
    source = _first(node)
    if source is None or alike(source, node) or name_of(source) != "_to_copy":
        return source
    origin = _first(source)
    if origin is None:
        return source
    narrow, wide = origin.meta["facts"].dtype, source.meta["facts"].dtype
    return origin if wide in _WIDER.get(narrow, ()) else source


_WIDER: Mapping[torch.dtype, tuple[torch.dtype, ...]] = MappingProxyType(
    {
        torch.bfloat16: (torch.float32, torch.float64),
        torch.float16: (torch.float32, torch.float64),
        torch.float32: (torch.float64,),
        torch.int32: (torch.int64, torch.float64),
        torch.bool: (torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64),
    }
)
"""Dtypes that have all the values of another."""


def _number(node: fx.Node) -> Any:
    """The number that is a call's second argument, or None."""
    second = node.args[1] if len(node.args) > 1 else None
    return second if type(second) in (int, float) else None


def _by_one(node: fx.Node) -> fx.Node | None:
    """`x * 1`, `x / 1`, `x ** 1`: signs of zeros and NaN stay, too."""
    return _first(node) if _number(node) == 1 and not node.kwargs else None


def _plus_nothing(node: fx.Node) -> fx.Node | None:
    """`x + 0`, of integers: -0.0 + 0 is 0.0."""
    source = _first(node)
    if source is None or _number(node) != 0 or node.kwargs:
        return None
    dtype = source.meta["facts"].dtype
    return None if dtype.is_floating_point or dtype.is_complex else source


def _minus_nothing(node: fx.Node) -> fx.Node | None:
    """`x - 0`: -0.0 stays; less -0.0 it would not."""
    zero = _number(node)
    is_zero = zero == 0 and not str(zero).startswith("-")
    return _first(node) if is_zero and not node.kwargs else None


_ROWS: Mapping[str, Row] = MappingProxyType(
    {
        **dict.fromkeys(
            """
            view _unsafe_view _reshape_alias expand squeeze permute transpose t slice detach alias
            clone
            """.split(),
            _first,
        ),
        "copy": _second,
        "_to_copy": _converted,
        "mul": _by_one,
        "div": _by_one,
        "pow": _by_one,
        "add": _plus_nothing,
        "sub": _minus_nothing,
    }
)
