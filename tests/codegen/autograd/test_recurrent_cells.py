"""Cells of recurrent layers that are trained: by our own backward pass, also where batches vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg import events
from jitpkg.codegen import backend as own
from jitpkg.testing.programs.modes import HOW_COMPUTED
from jitpkg.testing.same import Comparison, call

CELLS: dict[str, Callable[[], nn.Module]] = {
    "GRU": lambda: nn.GRUCell(3, 5),
    "GRU without bias": lambda: nn.GRUCell(3, 5, bias=False),
    "LSTM": lambda: nn.LSTMCell(3, 5),
    "tanh": lambda: nn.RNNCell(3, 5),
    "relu": lambda: nn.RNNCell(3, 5, nonlinearity="relu"),
}


@pytest.mark.parametrize("name", CELLS)
def test_gradients(name: str) -> None:
    torch.manual_seed(0)
    cell = CELLS[name]()

    def program(x: Any) -> Any:
        made = cell(x)
        for _ in range(2):
            made = cell(x * 0.5, made)
        return made

    comparison = Comparison(backend="jitpkg", ignore=HOW_COMPUTED, relative=1e-5, absolute=1e-6)
    calls = [call(torch.randn(n, 3, requires_grad=True)) for n in (4, 4, 6, 1, 7)]
    comparison.assert_same_calls(program, *calls)


@pytest.mark.parametrize("name", CELLS)
def test_without_aotautograd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **named: Any) -> Any:
        raise AssertionError("AOTAutograd is asked")

    monkeypatch.setattr(own, "_through_aot", refuse)
    cell = CELLS[name]()
    compiled = jitpkg.compile(lambda x: cell(x * 2), backend="jitpkg")
    heard: list[events.Event] = []
    with events.STREAM.listening(heard.append):
        for size in (4, 6, 7):
            made = compiled(torch.randn(size, 3, requires_grad=True))
            (made[0] if isinstance(made, tuple) else made).sum().backward()
    assert sum(isinstance(event, events.GraphCompiled) for event in heard) == 2
    assert not any(isinstance(event, events.Declined) for event in heard)
