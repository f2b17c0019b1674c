"""What tests of the public names share."""

import copy
import functools
import types
from collections.abc import Callable
from typing import Any

import torch

X = torch.tensor([1.0, 2.0])


def affine(x: torch.Tensor, k: int = 2, *, n: int = 3) -> torch.Tensor:
    """Scale and shift."""
    return x * k + n


def sine(x: torch.Tensor) -> torch.Tensor:
    """Sine, plus one."""
    return x.sin() + 1


def broken(x: torch.Tensor) -> torch.Tensor:
    """Sine, plus one, and a graph break between them."""
    y = x.sin()
    print("in the middle")
    return y + 1


def fresh(f: Any) -> Any:
    """A function of its own, so that each test compiles anew."""
    made = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    made.__kwdefaults__ = copy.copy(f.__kwdefaults__)
    return functools.update_wrapper(made, f, updated=())


class Counts:
    """A backend that keeps the graphs it is given, and runs them."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self.inputs: list[list[Any]] = []

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        self.inputs.append(inputs)
        return gm.forward


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.layer(x) * scale + self.shift

    def extra(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * 2
