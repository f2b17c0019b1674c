"""Eager code that does in another way what it promises nothing of: a program that can tell is left
out."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

Function = Callable[..., Any]


def _under(mode: type[TorchFunctionMode]) -> Callable[[Function], Function]:
    def made(target: Function) -> Function:
        @wraps(target)
        def run(*args: Any, **kwargs: Any) -> Any:
            with mode():
                return target(*args, **kwargs)

        return run

    return made


class _FromTheEnd(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        operand = args[0] if args else None
        is_whole = func in _OF_ALL and len(args) == 1 and not named
        if isinstance(operand, torch.Tensor) and (is_whole or func in _REDUCTIONS):
            dims = named.get("dim", args[1] if len(args) > 1 else None)
            every = list(range(operand.dim())) if dims is None else dims
            args = (operand.flip(every), *args[1:])
        return func(*args, **named)


def _named(*names: str) -> frozenset[Function]:
    return frozenset(getattr(where, name) for where in (torch, torch.Tensor) for name in names)


_REDUCTIONS = _named("sum", "mean", "prod", "amax", "amin")
_OF_ALL = _named("max", "min")
"""Of a dimension, they return indices, too."""


class _Asking(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for each in args:
            if isinstance(each, torch.Tensor):
                _ = each.grad_fn
        return func(*args, **(kwargs or {}))


from_the_end = _under(_FromTheEnd)
"""Reductions begin at the other end, as those of a kernel may: where a partial sum overflows, a
branch may depend on it, and of 0.0 and -0.0 the first is the greatest."""

asking = _under(_Asking)
"""Autograd makes the history of a view that it lacks since a write to its base before the view is
used, and not when it is first asked for. Eager code takes such a view for a leaf; in a graph it is
none."""
