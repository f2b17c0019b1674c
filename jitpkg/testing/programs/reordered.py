"""Eager code that adds up in another order, as a kernel may: what differs by that is rounding, even
where a partial sum overflows, and a branch depends on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def reordered(target: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose sums, means and products begin at the other end."""

    @wraps(target)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _FromTheEnd():
            return target(*args, **kwargs)

    return run


class _FromTheEnd(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        operand = args[0] if args else None
        if func in _REDUCTIONS and isinstance(operand, torch.Tensor):
            dims = named.get("dim", args[1] if len(args) > 1 else None)
            every = list(range(operand.dim())) if dims is None else dims
            args = (operand.flip(every), *args[1:])
        return func(*args, **named)


_REDUCTIONS = frozenset(
    getattr(where, name) for where in (torch, torch.Tensor) for name in ("sum", "mean", "prod")
)
