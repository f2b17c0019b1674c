"""Programs that are as long as one wants: chains of pointwise ops, stacks of layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from programs import Block
from torch import Tensor, nn

OPS = (
    "x = x * 1.25",
    "x = x + y",
    "x = torch.tanh(x)",
    "x = x - 0.125",
    "x = torch.relu(x)",
    "x = torch.exp(x)",
    "x = x * 0.5",
    "x = x * y",
    "x = torch.sigmoid(x)",
    "x = torch.erf(x)",
)
"""Taken in turn; values stay near 1, so that nothing overflows however often."""


def chain(length: int) -> Callable[[Tensor, Tensor], Tensor]:
    """A function of so many statements, each of which is one op."""
    body = "".join(f"    {OPS[k % len(OPS)]}\n" for k in range(length))
    namespace: dict[str, Any] = {"torch": torch}
    exec(f"def chain_of_{length}(x, y):\n{body}    return x\n", namespace)
    function: Callable[[Tensor, Tensor], Tensor] = namespace[f"chain_of_{length}"]
    return function


def layers(count: int, width: int = 16, heads: int = 2) -> nn.Module:
    """So many blocks of a transformer, one after the other."""
    return nn.Sequential(*(Block(width, heads) for _ in range(count)))
