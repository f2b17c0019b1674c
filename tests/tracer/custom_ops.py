"""Ops that a program defines: torch makes them where no comparison looks."""

from __future__ import annotations

from typing import Any

import torch

calls: list[str] = []


@torch.library.custom_op("jitpkg_custom_ops::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    calls.append("twice")
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("jitpkg_custom_ops::cube", mutates_args=())
def cube(x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    return x**3 * factor


@cube.register_fake
def _(x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.factor = inputs[1]


def _differentiate(ctx: Any, gradient: torch.Tensor) -> Any:
    (x,) = ctx.saved_tensors
    return gradient * 3 * x**2 * ctx.factor, None


cube.register_autograd(_differentiate, setup_context=_keep)


@torch.library.custom_op("jitpkg_custom_ops::double_in_place", mutates_args={"x"})
def double_in_place(x: torch.Tensor) -> None:
    x.mul_(2)


@torch.library.custom_op("jitpkg_custom_ops::pair", mutates_args=())
def pair(x: torch.Tensor, flags: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    return x + flags[0], x.sum(0) * flags[1]


@pair.register_fake
def _(x: torch.Tensor, flags: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), x.new_empty(x.shape[1:])


@torch.library.custom_op("jitpkg_custom_ops::without_fake", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x - 1
