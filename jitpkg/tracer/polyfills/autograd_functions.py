"""What `torch.autograd.Function.apply` calls, forward and backward, while grad mode is off."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import Function, FunctionCtx


class Context(FunctionCtx):
    """What `forward`, `setup_context` and `backward` get as `ctx`."""

    def __getattr__(self, name: str) -> Any:
        return of_the_real_context(name)


def of_the_real_context(name: str) -> Any:
    """What only autograd's own object has, if it has it: the tracer ends the trace at this call."""
    raise NotImplementedError(name)


def forward(cls: Any, needs_input_grad: tuple[bool, ...], args: tuple[Any, ...]) -> Any:
    """The context, and what `cls.forward` returns."""
    ctx: Any = Context()
    ctx.needs_input_grad = needs_input_grad
    ctx.to_save = ctx.saved_tensors = ctx.dirty_tensors = ctx.non_differentiable = ()
    ctx.materialize_grads = True
    if cls.setup_context is Function.setup_context:
        return ctx, cls.forward(ctx, *args)
    result = cls.forward(*args)
    cls.setup_context(ctx, args, result)
    return ctx, result


def forward_without_grad(cls: Any, needs: tuple[bool, ...], args: tuple[Any, ...]) -> Any:
    """The same where grad mode is on."""
    with torch.no_grad():
        return forward(cls, needs, args)


def backward(cls: Any, ctx: Any, gradients: tuple[Any, ...]) -> Any:
    """What `cls.backward` returns, under either of its names."""
    ctx.saved_tensors = ctx.to_save
    if cls.vjp is Function.vjp:
        return cls.backward(ctx, *gradients)
    return cls.vjp(ctx, *gradients)
