"""What is measured: small programs, in which nearly all time is what compiling adds to a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Calls = list[tuple[Any, ...]]
"""The arguments of the calls that are made in turn."""


@dataclass(frozen=True)
class Program:
    """A function or module, and how it is called."""

    title: str
    make: Callable[[], tuple[Callable[..., Any], Calls]]


def increment(x: Tensor) -> Tensor:
    return x + 1


def add_three(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return x + y + z


def with_scalars(x, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t):  # noqa: E741
    total = a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q + r + s + t
    return x + total


MODES = ("exp", "sin", "cos", "tanh", "abs", "neg", "sqrt", "floor")


def by_mode(x: Tensor, mode: str) -> Tensor:
    return getattr(x, mode)()


def one_break(x: Tensor) -> Tensor:
    y = x + 1
    if y.sum() < 0:
        return y - 1
    return y * 2


def printing_loop(x: Tensor) -> Tensor:
    for _ in range(100):
        x = x + 1
        print(end="")
    return x


def perceptron(modules: int) -> nn.Module:
    """A perceptron of so many modules: the container, and linear layers and activations in turn."""
    layers = [nn.Linear(4, 4) if k % 2 == 0 else nn.ReLU() for k in range(modules - 1)]
    return nn.Sequential(*layers).requires_grad_(False)


def _tensor() -> Tensor:
    return torch.ones(4)


PROGRAMS = (
    Program("x + 1", lambda: (increment, [(_tensor(),)])),
    Program("3 tensors", lambda: (add_three, [(_tensor(), _tensor(), _tensor())])),
    Program("20 scalars", lambda: (with_scalars, [(_tensor(), *range(20))])),
    Program("8 entries in turn", lambda: (by_mode, [(_tensor(), mode) for mode in MODES])),
    Program("MLP of 10 modules", lambda: (perceptron(10), [(_tensor(),)])),
    Program("MLP of 100 modules", lambda: (perceptron(100), [(_tensor(),)])),
    Program("one break", lambda: (one_break, [(_tensor(),)])),
    Program("print in a loop of 100", lambda: (printing_loop, [(_tensor(),)])),
)
