"""Which parts of an input a program has written to, so that no more is written than they."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.views import View
from jitpkg.dataclass import dataclass

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Part:
    """The value of a view."""

    views: tuple[View, ...]
    value: fx.Node


def parts_written(before: fx.Node, after: fx.Node) -> list[Part]:
    """What to write, one after the other, to make the value `after` of the value `before`."""
    if after is before:
        return []
    view = _view_written(after)
    if view is None:
        return [Part((), after)]
    whole: Any = after.args[0]
    value: Any = after.args[1]
    first = parts_written(before, whole)
    if any(not part.views for part in first):  # all of it, and then a part again
        return [Part((), after)]
    return [*first, *_inside(whole, view, value)]


def _inside(whole: fx.Node, view: View, value: fx.Node) -> list[Part]:
    """What to write to make `value` of this view of `whole`."""
    for node in whole.users:
        if node.target is view.op and node.args[1:] == view.args and not node.kwargs:
            return [Part((view, *part.views), part.value) for part in parts_written(node, value)]
    return [Part((view,), value)]


def _view_written(node: fx.Node) -> View | None:
    op = _OF_SCATTER.get(node.target)
    return None if op is None or node.kwargs else View(op, tuple(node.args[2:]), {})


_OF_SCATTER: Mapping[Any, Any] = MappingProxyType(
    {
        aten.select_scatter.default: aten.select.int,
        aten.slice_scatter.default: aten.slice.Tensor,
        aten.diagonal_scatter.default: aten.diagonal.default,
    }
)
