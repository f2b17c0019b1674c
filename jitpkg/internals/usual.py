"""The usual state of torch: how it is before a program changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def zeros(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor for a trial, whatever the default dtype is."""
    return torch.zeros(size, dtype=dtype)


@contextmanager
def usual_state() -> Iterator[None]:
    """A context without inference mode, gradients, autocast, and default devices.

    What a trial of PyTorch says must not depend on where it is first asked for. The default dtype
    is the process's, whose other threads would see it change: trials name theirs.
    """
    autocast = torch.autocast("cpu", enabled=False)
    with torch.inference_mode(False), torch.no_grad(), autocast, torch.device("cpu"):
        yield
