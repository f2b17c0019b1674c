"""Inputs that are views to which eager code refuses to write in grad mode: writes under no_grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import jitpkg


def not_in_grad_mode(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x.view(-1)


TAKEN: dict[str, Callable[[Tensor], Tensor]] = {
    "unbind": lambda x: x.unbind(0)[0],
    "walked": lambda x: next(iter(x)),
    "split": lambda x: x.split(1)[1],
    "chunk": lambda x: x.chunk(2)[0],
    "under no_grad": not_in_grad_mode,
    "item": lambda x: x[0],
    "alone": lambda x: x,
}


def filled(x: Tensor) -> None:
    nn.init.constant_(x, 3.0)


def written(x: Tensor) -> None:
    with torch.no_grad():
        x.mul_(2).add_(1)


def in_grad_mode(x: Tensor) -> None:
    x.mul_(2)


@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
@pytest.mark.parametrize("program", [filled, written, in_grad_mode])
@pytest.mark.parametrize("needs_grad", [False, True])
def test_as_eager(program: Callable[[Tensor], Any], backend: str, *, needs_grad: bool) -> None:
    """Each view in turn: what holds for one is no reason to compile for the next one."""
    compiled = jitpkg.compile(program, backend=backend)
    for _ in range(2):
        for take in TAKEN.values():
            outcomes = []
            for function in (program, compiled):
                base = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=needs_grad) * 1
                try:
                    function(take(base))
                    outcomes.append((base.tolist(), base.requires_grad))
                except RuntimeError as error:
                    outcomes.append((str(error), base.tolist()))
            assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("take", TAKEN)
def test_the_graph_does_not_fail(take: str, backend: str) -> None:
    base = torch.ones(2, 2, requires_grad=True) * 1
    with jitpkg.config.patch(strict=True):
        jitpkg.compile(filled, backend=backend)(TAKEN[take](base))
