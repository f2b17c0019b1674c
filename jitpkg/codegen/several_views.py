"""Results that are views to which eager code lets nobody write: one of several views that an op has
made, or a view that was taken while grad mode was off.

A compiled graph returns other tensors in their place, to which one could. So a view is taken of
each, in the way that makes it such a view, too.
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
    return "multiple views" in _refusal(result, 1)


def without_grad(results: Sequence[Any]) -> tuple[int, ...]:
    """Which of them are views that were taken while grad mode was off, to which nothing may be
    written that requires grad; they are written to."""
    return tuple(k for k, result in enumerate(results) if _is_without_grad(result))


def _is_without_grad(result: Any) -> bool:
    if not isinstance(result, torch.Tensor) or result.requires_grad or not _may_require(result):
        return False
    factor = torch.ones((), dtype=result.dtype, device=result.device, requires_grad=True)
    return "created in no_grad mode" in _refusal(result, factor)


def _may_require(result: torch.Tensor) -> bool:
    return result.is_floating_point() or result.is_complex()


def _refusal(result: torch.Tensor, factor: Any) -> str:
    """Why nothing may be written to a result: what that raises, or nothing."""
    try:  # to ask for its history can fail, too, where what it is a view of was written to before
        if not result.is_leaf or not result.requires_grad:
            with torch.enable_grad():
                result.mul_(factor)
    except RuntimeError as error:
        return str(error)
    return ""


def made_so(
    function: Callable[..., Any], places: tuple[int, ...], without_grad: tuple[int, ...] = ()
) -> Callable[..., Any]:
    """The function, with such views in these places."""

    def run(*inputs: Any) -> Any:
        results = list(function(*inputs))
        for k in places:
            if results[k].requires_grad:
                (results[k],) = results[k].unsqueeze(0).unbind(0)
        with torch.no_grad():
            for k in without_grad:
                results[k] = results[k].view_as(results[k])
        return tuple(results)

    return run
