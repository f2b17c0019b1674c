"""Where no gradient comes to any result of a graph, none goes to its inputs, as in eager code."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import jitpkg


def cast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x


def detached(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sin(), x.detach() * 2


def written(x: Tensor) -> Tensor:
    y = x * 1
    y.view(-1)[0] = 2
    return y


PROGRAMS: dict[str, Callable[[Tensor], Tensor | tuple[Tensor, Tensor]]] = {
    "plain": lambda x: x.sin() * 2,
    "autocast": cast,
    "a view": lambda x: (x * 2).t(),
    "two": lambda x: (x.sin(), x.cos()),
    "one of two": detached,
    "a write": written,
}


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_none_comes_out(name: str, around: bool, backend: str) -> None:
    program = PROGRAMS[name]

    def gradient(function: Callable[[Tensor], Tensor | tuple[Tensor, Tensor]]) -> Tensor | None:
        x = torch.arange(4.0).view(2, 2).sin().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=around):
            made = function(x)
        every = made if isinstance(made, tuple) else (made,)
        counted = [torch.linalg.vector_norm(each, 0) for each in every]  # has none
        torch.autograd.backward([count for count in counted if count.requires_grad])
        return x.grad

    compiled = jitpkg.compile(program, backend=backend)
    for _ in range(2):
        assert gradient(program) is None
        assert gradient(compiled) is None


FLAT = "sgn sign floor ceil round trunc".split()
"""Ops whose gradient is zero wherever there is one: it is zeros, and not none."""


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("where", ["nowhere", "all", "a view", "a part"])
def test_gradients_of_zeros(name: str, where: str, backend: str) -> None:
    op = getattr(torch, name)

    def f(y: Tensor) -> Tensor:
        if where == "all":
            y.mul_(2)
        elif where == "a view":
            y.view(-1).mul_(2)
        elif where == "a part":
            y[1:].mul_(2)
        flat: Tensor = op(y)
        return flat

    found = []
    for function in (f, jitpkg.compile(f, backend=backend)):
        x = torch.linspace(-2, 2, 6, requires_grad=True)
        made = function(x * 1.5)
        if made.requires_grad:
            made.sum().backward()
        # eager code's may have no memory
        found.append((made.requires_grad, None if x.grad is None else (x.grad + 0).abs().tolist()))
    assert found[0] == found[1]
