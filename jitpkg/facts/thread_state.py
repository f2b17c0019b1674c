"""Torch's thread-local state: grad mode and autocast, which a graph can change, and modes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from jitpkg.internals import Row, modes

DEVICE_TYPES = ("cpu", "cuda")


@cache
def setters() -> frozenset[Callable[..., Any]]:
    """Functions that change this state: a graph may call them, and change it for good."""
    return frozenset(
        {
            torch.set_autocast_enabled,
            torch.set_autocast_dtype,
            torch.set_autocast_cache_enabled,
            torch.autocast_increment_nesting,
            torch.autocast_decrement_nesting,
            torch.clear_autocast_cache,
            *filter(None, [modes.SET_GRAD_ENABLED.found()]),
        }
    )


def changes_autocast(function: object) -> bool:
    """Whether a function of a graph changes what ops are given under autocast."""
    return function in setters() and function is not modes.SET_GRAD_ENABLED.found()


def snapshot(*, nested: bool = True) -> Callable[[], None]:
    """A function that puts the state back as it is now.

    Args:
        nested: how many autocast contexts are entered, too; what decides when casts are forgotten
            is no setting, and may be another one wherever the rest is the same.
    """
    grad = torch.is_grad_enabled()
    cache = torch.is_autocast_cache_enabled()
    autocast = [
        (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
        for kind in DEVICE_TYPES
    ]
    nesting = autocast_nesting() if nested else None
    set_grad_enabled = modes.SET_GRAD_ENABLED.get()

    def restore() -> None:
        set_grad_enabled(grad)
        for kind, enabled, dtype in autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_cache_enabled(cache)
        if nesting is not None:
            nest_autocast(nesting)

    return restore


def leave_modes() -> None:
    """Leave all dispatch and torch-function modes: what is called for where none was active before.

    An exception of a signal handler may come when a mode has been entered, and before the `with`
    statement knows; or in the middle of leaving it.
    """
    if _leave_all(modes.DISPATCH_DEPTH, modes.LEAVE_DISPATCH_MODE, (None,)):
        for note in modes.LEFT_DISPATCH_MODE:
            if (set_ := note.found()) is not None:
                set_(False)
    _leave_all(modes.FUNCTION_DEPTH, modes.LEAVE_FUNCTION_MODE, ())


def _leave_all(
    depth: Row[Callable[[], int]], leave: Row[Callable[..., object]], arguments: tuple[object, ...]
) -> bool:
    """Whether any was active, and they could be left."""
    asked = depth.found()
    if asked is None or not asked() or (leave_one := leave.found()) is None:
        return False
    while asked():
        leave_one(*arguments)
    return True


def autocast_nesting() -> int:
    """How many autocast contexts are entered."""
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth


def nest_autocast(depth: int) -> None:
    """Let it be so many."""
    while autocast_nesting() > depth:
        torch.autocast_decrement_nesting()
    while autocast_nesting() < depth:
        torch.autocast_increment_nesting()
