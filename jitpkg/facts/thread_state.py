"""Torch's thread-local state: grad mode and autocast, which a graph can change, and modes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils import _python_dispatch

DEVICE_TYPES = ("cpu", "cuda")


def snapshot() -> Callable[[], None]:
    """A function that puts the state back as it is now."""
    grad = torch.is_grad_enabled()
    cache = torch.is_autocast_cache_enabled()
    autocast = [
        (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
        for kind in DEVICE_TYPES
    ]
    nesting = _nesting()

    def restore() -> None:
        torch._C._set_grad_enabled(grad)
        for kind, enabled, dtype in autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_cache_enabled(cache)
        while _nesting() > nesting:
            torch.autocast_decrement_nesting()
        while _nesting() < nesting:
            torch.autocast_increment_nesting()

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


def _nesting() -> int:
    """How many autocast contexts are entered."""
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth
