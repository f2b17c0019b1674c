"""What torch's mode for transforms does with `x[i]`, where `i` is a tensor."""

from __future__ import annotations

from typing import Any

import torch


def indexed(x: torch.Tensor, key: Any, /) -> Any:
    """`x[key]`, by an op that takes tensors as indices, where these are all that is given."""
    indices: list[Any] = []
    _spread(key, indices)
    if not indices or not all(isinstance(index, (torch.Tensor, int)) for index in indices):
        return x[key]
    return torch.ops.aten.index(
        x,
        [
            torch.tensor(index, dtype=torch.int64, device=x.device)
            if isinstance(index, int)
            else index
            for index in indices
        ],
    )


def _spread(key: Any, found: list[Any]) -> None:
    """What a key is made of."""
    if type(key) in (tuple, list):
        for part in key:
            _spread(part, found)
    else:
        found.append(key)


def enter() -> None:
    """Let calls inside be such; the tracer has a row for it."""
    raise NotImplementedError


def leave() -> None:
    """The end of `enter`; the tracer has a row for it."""
    raise NotImplementedError
