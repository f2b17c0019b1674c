"""Torch's thread-local state that a graph can change: grad mode and autocast."""

from __future__ import annotations

from collections.abc import Callable

import torch

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


def _nesting() -> int:
    """How many autocast contexts are entered."""
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth
