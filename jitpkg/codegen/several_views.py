"""Results that are one of several views that an op has made: eager code lets nobody write to them.

A compiled graph returns other tensors in their place, to which one could. So a view is taken of
each that is one of several, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.writing import name_of

_NAMES = ("split", "chunk", "unbind", "iter")
"""What is in the names of functions that make several views."""


def may_be_made(gm: fx.GraphModule) -> bool:
    """Whether something in a graph may make several views."""
    return any(
        part in name_of(node)
        for node in gm.graph.nodes
        if node.op.startswith("call")
        for part in _NAMES
    )


def places(results: Sequence[Any]) -> tuple[int, ...]:
    """Which of a graph's results, without data, are one of several views; they are written to."""
    return tuple(k for k, result in enumerate(results) if _is_one_of_several(result))


def _is_one_of_several(result: Any) -> bool:
    if not isinstance(result, torch.Tensor) or not result.requires_grad:
        return False
    try:  # to ask for its history can fail, too, where what it is a view of was written to before
        if not result.is_leaf:
            with torch.enable_grad():
                result.mul_(1)
    except RuntimeError as error:
        return "multiple views" in str(error)
    return False


def made_so(function: Callable[..., Any], places: tuple[int, ...]) -> Callable[..., Any]:
    """The function, with such views in these places."""

    def run(*inputs: Any) -> Any:
        results = list(function(*inputs))
        for k in places:
            if results[k].requires_grad:
                (results[k],) = results[k].unsqueeze(0).unbind(0)
        return tuple(results)

    return run
