"""Optimizers for tests: their steps, eagerly and compiled, with the gradients that are given."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ExponentialLR

from jitpkg import events

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]

STEPS = 20

EVERY: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"momentum": 0.9, "dampening": 0.1, "maximize": True}),
    ("SGD", {"momentum": 0.9, "foreach": True}),
    ("SGD", {"momentum": 0.9, "fused": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"foreach": True}),
    ("Adam", {"fused": True}),
    ("AdamW", {}),
    ("AdamW", {"foreach": True, "amsgrad": True}),
    ("AdamW", {"fused": True, "amsgrad": True}),
    *[
        (name, options)
        for name in ("Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "ASGD", "RMSprop", "Rprop")
        for options in ({}, {"foreach": True})
    ],
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", {"fused": True}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Muon", {}),
]


def named(case: tuple[str, dict[str, Any]]) -> str:
    name, options = case
    return "-".join(
        [name, *(key if value is True else f"{key}={value}" for key, value in options.items())]
    )


@dataclass
class Run:
    """What has become of the parameters, and what was heard on the way."""

    parameters: list[nn.Parameter]
    optimizer: Optimizer
    heard: list[list[events.Event]] = field(default_factory=list)

    @property
    def broke(self) -> list[str]:
        return [
            str(e.graph_break) for step in self.heard for e in step if isinstance(e, events.Broke)
        ]

    @property
    def graphs(self) -> list[int]:
        """How many were compiled in each step."""
        return [sum(isinstance(e, events.GraphCompiled) for e in step) for step in self.heard]

    def state(self) -> list[Any]:
        """What an optimizer keeps, in the order of its parameters."""
        found: list[Any] = []
        for parameter in self.parameters:
            for name, value in sorted(self.optimizer.state[parameter].items()):
                version = value._version if isinstance(value, Tensor) else None
                found.append((name, value, version))
        return found


def parameters(name: str, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    torch.manual_seed(0)
    shapes: list[tuple[int, ...]] = [(3, 4), (5, 3), (4, 4), (2, 6) if name == "Muon" else (7,)]
    return [nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes]


def made(name: str, options: dict[str, Any], dtype: torch.dtype = torch.float32) -> Run:
    """With three groups of parameters."""
    of = parameters(name, dtype)
    groups = [{"params": of[:1]}, {"params": of[1:2], "lr": 0.02}, {"params": of[2:], "lr": 0.03}]
    return Run(of, getattr(torch.optim, name)(groups, lr=0.01, **options))


def give_gradients(of: Iterable[nn.Parameter], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in of:
        parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(
            parameter.dtype
        )


def train(run: Run, step: Callable[[], Any], steps: int = STEPS, gamma: float = 0.9) -> Run:
    """With a learning rate that is another one in each step."""
    schedule = ExponentialLR(run.optimizer, gamma)
    for k in range(steps):
        give_gradients(run.parameters, k)
        heard: list[events.Event] = []
        with events.STREAM.listening(heard.append):
            step()
        run.heard.append(heard)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it saw no step
            schedule.step()
    return run
