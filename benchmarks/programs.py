"""What is measured: small programs, in which nearly all time is what compiling adds to a call."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
    target: float | None = None
    """What jitpkg may add to the graphs at most, as a part of what torch.compile adds."""
    slow: bool = False
    """Whether it is left out where only a few rounds are run."""
    in_new_process: bool = False
    """Whether its first call is measured in a new process, too."""


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


def twenty_breaks() -> Callable[[Tensor], Tensor]:
    """A function of forty statements, of which every other one is a break."""
    body = "    x = x + 1\n    print(end='')\n" * 20
    namespace: dict[str, Any] = {}
    exec(f"def twenty_breaks(x):\n{body}    return x\n", namespace)
    function: Callable[[Tensor], Tensor] = namespace["twenty_breaks"]
    return function


def printing_loop(x: Tensor) -> Tensor:
    for _ in range(100):
        x = x + 1
        print(end="")
    return x


class Settings:
    """An object with forty attributes."""

    def __init__(self) -> None:
        for k in range(40):
            setattr(self, f"weight_{k}", k / 8)

    def weighted(self, x: Tensor) -> Tensor:
        total = 0.0
        for k in range(40):
            total += getattr(self, f"weight_{k}")
        return x * total


def perceptron(modules: int, *, grad: bool = False) -> nn.Module:
    """A perceptron of so many modules: the container, and linear layers and activations in turn."""
    layers = [nn.Linear(4, 4) if k % 2 == 0 else nn.ReLU() for k in range(modules - 1)]
    return nn.Sequential(*layers).requires_grad_(grad)


class OfParameters(nn.Module):
    """One module with so many parameters of its own."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.ones(4) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for weight in self.weights:
            x = x * weight
        return x


def of_many_classes() -> nn.Module:
    """A module with twenty submodules, each of a class of its own."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        return x + self.shift

    classes = [type(f"Shift{k}", (nn.Module,), {"shift": k, "forward": forward}) for k in range(20)]
    return nn.Sequential(*(cls() for cls in classes))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.project(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        mixed = torch.softmax(scores, dim=-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """One block of a vision transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.between = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.between(x))


def transformer_block() -> nn.Module:
    return Block(16, 2).requires_grad_(False)


def _perceptron_with_grad(modules: int) -> tuple[Callable[..., Any], Calls]:
    return perceptron(modules, grad=True), [(_tensor(),)]


def _of_parameters(count: int) -> tuple[Callable[..., Any], Calls]:
    return OfParameters(count), [(_tensor(),)]


def _tensor() -> Tensor:
    return torch.ones(4)


PROGRAMS = (
    Program("x + 1", lambda: (increment, [(_tensor(),)]), target=1 / 20, in_new_process=True),
    Program("3 tensors", lambda: (add_three, [(_tensor(), _tensor(), _tensor())]), target=1 / 20),
    Program("20 scalars", lambda: (with_scalars, [(_tensor(), *range(20))]), target=1 / 20),
    Program("40 attributes", lambda: (Settings().weighted, [(_tensor(),)])),
    Program("8 entries in turn", lambda: (by_mode, [(_tensor(), mode) for mode in MODES])),
    Program(
        "MLP of 10 modules",
        lambda: (perceptron(10), [(_tensor(),)]),
        target=1 / 5,
        in_new_process=True,
    ),
    Program("MLP of 100 modules", lambda: (perceptron(100), [(_tensor(),)]), target=1 / 5),
    Program(
        "MLP of 300 modules", lambda: (perceptron(300), [(_tensor(),)]), target=1 / 5, slow=True
    ),
    *(
        Program(
            f"{count} modules with grad",
            partial(_perceptron_with_grad, count),
            target=1 / 5,
            slow=count > 10,
        )
        for count in (10, 100, 300)
    ),
    *(
        Program(
            f"{count} parameters",
            partial(_of_parameters, count),
            target=1 / 5,
            slow=count > 100,
        )
        for count in (100, 1000)
    ),
    Program("20 module classes", lambda: (of_many_classes(), [(_tensor(),)])),
    Program(
        "transformer block",
        lambda: (transformer_block(), [(torch.ones(1, 4, 16),)]),
        in_new_process=True,
    ),
    Program("one break", lambda: (one_break, [(_tensor(),)]), target=1 / 5),
    Program("20 breaks", lambda: (twenty_breaks(), [(_tensor(),)]), target=1 / 5, slow=True),
    Program("print in a loop of 100", lambda: (printing_loop, [(_tensor(),)])),
)
