"""Fifty steps of training and their losses: eager, in several orders of summation, and compiled."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import jitpkg
from jitpkg import events
from tests.curves.models import Batch, Model

STEPS = 50

Losses = list[float]


@dataclass(frozen=True)
class Case:
    """How a model is trained."""

    model: Model
    dropout: float
    autocast: bool
    steps: int = STEPS

    def __str__(self) -> str:
        return f"{self.model.name}, dropout {self.dropout:g}" + ", bfloat16" * self.autocast


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, cast: bool) -> Tensor:
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
        loss: Tensor = model(**batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


Step = Callable[[nn.Module, torch.optim.Optimizer, Batch, bool], Tensor]


def losses(case: Case, of_step: Step) -> tuple[Losses, Any]:
    """The loss of each step, and what is left: the weights and the random stream."""
    torch.manual_seed(0)
    model = case.model.make(case.dropout).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda k: min(1.0, (k + 1) / 5) * (1 + math.cos(math.pi * k / case.steps)) / 2
    )
    generator = torch.Generator().manual_seed(1)
    found = []
    for _ in range(case.steps):
        found.append(of_step(model, optimizer, case.model.batch(generator), case.autocast).item())
        schedule.step()
    return found, (model.state_dict(), torch.get_rng_state())


# Eagerly


def eagerly(case: Case) -> tuple[Losses, Any]:
    """The same as `losses`, of code that runs as it is.

    Models that ask whether they are compiled, and compute other things then, are told that they
    are: attention gets its mask, and experts are multiplied by another op.
    """
    return losses(case, _told if case.model.needs == "transformers" else step)


def _yes() -> bool:
    return True


def _told(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, cast: bool) -> Tensor:
    asked = "torch.compiler.is_compiling"
    forward = mock.patch(asked, new=_yes)(model.forward)
    with mock.patch.object(model, "forward", forward):
        return step(model, optimizer, batch, cast)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _without_onednn() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TF32 acceleration")
        with torch.backends.mkldnn.flags(enabled=False):
            yield


ORDERS: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "two threads": lambda: _threads(2),
    "without oneDNN": _without_onednn,
    "attention op by op": lambda: sdpa_kernel(SDPBackend.MATH),
}
"""What makes torch add in another order, and compute the same."""


def spread(case: Case, wanted: Losses) -> float:
    """How far eager runs of other orders are from one of them."""
    apart = 0.0
    for context in ORDERS.values():
        with context():
            apart = max(apart, distance(eagerly(case)[0], wanted))
    return apart


def distance(found: Losses, wanted: Losses) -> float:
    """The largest difference of a step, in terms of the largest loss."""
    most = max(map(abs, wanted))
    return max(abs(a - b) for a, b in zip(found, wanted, strict=True)) / most


# Compiled


@dataclass(frozen=True)
class Compiled:
    """What a compiled step gave."""

    losses: Losses
    left: Any
    graphs: int
    """Compiled until the second step has ended."""
    later: int
    """After that."""
    breaks: tuple[str, ...]


def compiled(case: Case, backend: str) -> Compiled:
    made = jitpkg.compile(step, backend=backend)
    heard: list[Any] = []
    at: list[int] = []

    def counting(*arguments: Any) -> Tensor:
        result = made(*arguments)
        at.append(sum(isinstance(event, events.GraphCompiled) for event in heard))
        return result  # type: ignore[no-any-return]

    with events.STREAM.listening(heard.append), jitpkg.config.patch(never_worse=False):
        found, left = losses(case, counting)
    breaks = tuple(
        str(event.graph_break.title()) for event in heard if isinstance(event, events.Broke)
    )
    return Compiled(found, left, at[1], at[-1] - at[1], breaks)
