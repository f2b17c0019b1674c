"""Writes that autograd does not see: a value changes, and keeps its history."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.traced import REPLACES, WRITTEN_TO


def is_unseen(node: fx.Node) -> bool:
    """Whether a node holds what a write has left of a value, of which autograd knows nothing."""
    return REPLACES in node.meta and WRITTEN_TO in node.meta[REPLACES].meta


def with_history_of(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """What is written to a value, with the history that the value has."""
    made: torch.Tensor = _Written.apply(before, after)  # type: ignore[no-untyped-call]
    return made


class _Written(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, _before: torch.Tensor, after: torch.Tensor) -> Any:
        return after.clone()

    @staticmethod
    def backward(_ctx: Any, gradient: Any) -> Any:
        return gradient, None
