"""What `torch.optim` puts around the steps of its optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

Tensors = Sequence[torch.Tensor | None]


def with_grad(step: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """`torch.optim.optimizer._use_grad_for_differentiable`, which asks Dynamo for two breaks."""
    with torch.set_grad_enabled(args[0].defaults["differentiable"]):
        return step(*args, **kwargs)


def group_by_device_and_dtype(
    lists: Sequence[Tensors], with_indices: bool = False, /
) -> dict[tuple[torch.device, torch.dtype], tuple[list[list[torch.Tensor | None]], list[int]]]:
    """Lists of as many tensors each, or of none, in groups by those of the first list."""
    groups: dict[Any, Any] = {}
    for k, first in enumerate(lists[0]):
        if first is None:
            refused()
        key = first.device, first.dtype
        if key not in groups:
            groups[key] = [[] for _ in lists], []
        members, indices = groups[key]
        for member, tensors in zip(members, lists, strict=True):
            if len(tensors) > k:
                if not _go_together(first, tensors[k]):
                    refused()
                member.append(tensors[k])
            elif len(tensors):
                refused()
        if with_indices:
            indices.append(k)
    return groups


def _go_together(first: torch.Tensor, other: torch.Tensor | None) -> bool:
    """Whether torch takes them into one group; there are others that newer versions take."""
    if other is None:
        return True
    is_number = other.dtype in (torch.float32, torch.float64)
    if other.device == first.device:
        return other.dtype == first.dtype or is_number
    return other.device.type == "cpu" and is_number


def refused() -> NoReturn:
    """Leave lists to torch that it may refuse: a break of the graph."""
    raise AssertionError("not traced")
