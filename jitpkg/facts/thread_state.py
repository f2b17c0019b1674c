"""Torch's thread-local state: grad mode and autocast, which a graph can change, and modes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils import _python_dispatch

DEVICE_TYPES = ("cpu", "cuda")


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

    def restore() -> None:
        torch._C._set_grad_enabled(grad)
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
    while torch._C._len_torch_dispatch_stack():
        torch._C._pop_torch_dispatch_stack(None)
        for name in _IN_A_MODE:
            if hasattr(_python_dispatch, name):
                setattr(_python_dispatch, name, False)
    while torch._C._len_torch_function_stack():
        torch._C._pop_torch_function_stack()


_IN_A_MODE = (
    "_is_in_torch_dispatch_mode",
    "_is_in_non_infra_torch_dispatch_mode",
    "_is_in_any_mode_without_ignore_compile_internals",
)
"""What torch notes of modes besides."""


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
