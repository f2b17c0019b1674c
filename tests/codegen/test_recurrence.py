"""Recurrent layers are torch's one call, and never unrolled over time."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import jitpkg
from jitpkg import events
from jitpkg.tracer import reasons
from tests.codegen.devices import DEVICES, needs_cuda

LAYERS = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn_tanh": nn.RNN}
LONG = 100
"""Steps: unrolled, they would be hundreds of ops."""


class Tagger(nn.Module):
    """A recurrent layer between others."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(3, 4), nn.Linear(4, 2)
        self.layer = layer(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden, _ = self.layer(torch.tanh(self.before(x)))
        return torch.relu(self.after(hidden)) * 2


class Heard:
    def __init__(self) -> None:
        self.breaks: list[events.Broke] = []
        self.declined: list[str] = []
        self.calls = 0
        self.kernels = 0

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.Broke():
                self.breaks.append(event)
            case events.Declined(why=why):
                self.declined.append(why)
            case events.Fused(calls=calls, kernels=kernels):
                self.calls += len(calls)
                self.kernels += len(kernels)


def trained(module: nn.Module, of: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    x = x.clone().requires_grad_()
    of.zero_grad()
    y = module(x)
    y.sum().backward()
    return y, x.grad, *(p.grad for p in of.parameters())


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("whole", [False, True])
def test_training(name: str, device: str, whole: bool) -> None:
    """Lengths that vary are no reason to compile it again and again either."""
    torch.manual_seed(0)
    model = Tagger(LAYERS[name]).to(device)
    twin = copy.deepcopy(model)
    heard = Heard()
    compiled = jitpkg.compile(model, backend="jitpkg", fullgraph=whole)
    with events.STREAM.listening(heard):
        for length in (LONG, LONG + 1, LONG + 2):
            x = torch.randn(length, 2, 3, device=device)
            torch.testing.assert_close(trained(compiled, model, x), trained(twin, twin, x))
    if whole:
        assert not heard.breaks and heard.declined and heard.kernels == 0
        assert all("recurrent" in why for why in heard.declined)
        return
    assert {broke.graph_break.reason for broke in heard.breaks} == {reasons.RECURRENCE}
    assert not heard.declined
    assert 0 < heard.calls + heard.kernels < LONG


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_packed_sequences(name: str, backend: str, dynamic: bool | None) -> None:
    """Their lengths are data: a GRU that is asked for facts of them kills the process."""
    layer = LAYERS[name](3, 4)

    def tagged(x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x.tanh(), lengths, enforce_sorted=False)
        hidden, _ = layer(packed)
        return pad_packed_sequence(hidden)[0] * 2

    compiled = jitpkg.compile(tagged, backend=backend, dynamic=dynamic)
    for longest in (5, 7):
        x, lengths = torch.randn(longest, 3, 3), torch.tensor([2, longest, 3])
        torch.testing.assert_close(compiled(x, lengths), tagged(x, lengths))
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, lengths), tagged(x, lengths))


@pytest.mark.parametrize("name", LAYERS)
def test_inference(name: str) -> None:
    model, heard = Tagger(LAYERS[name]).eval(), Heard()
    compiled = jitpkg.compile(model, backend="jitpkg", fullgraph=True)
    with events.STREAM.listening(heard), torch.no_grad():
        for length in (LONG, LONG + 1, LONG + 2):
            x = torch.randn(length, 2, 3)
            torch.testing.assert_close(compiled(x), model(x))
    assert not heard.breaks


@needs_cuda
@pytest.mark.parametrize("name", LAYERS)
def test_inference_on_a_gpu(name: str) -> None:
    model, heard = Tagger(LAYERS[name]).eval().cuda(), Heard()
    compiled = jitpkg.compile(model, backend="jitpkg")
    x = torch.randn(LONG, 2, 3, device="cuda")
    with events.STREAM.listening(heard), torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    assert {broke.graph_break.reason for broke in heard.breaks} == {reasons.RECURRENCE}


def test_a_cell_is_part_of_the_graph() -> None:
    cell = nn.GRUCell(3, 4)
    compiled = jitpkg.compile(cell, backend="jitpkg", fullgraph=True)
    x = torch.randn(2, 3)
    torch.testing.assert_close(compiled(x), cell(x))


def test_a_function_of_the_same_name_is_no_layer() -> None:
    def gru(x: Tensor, w: Tensor) -> Tensor:
        return x @ w

    compiled = jitpkg.compile(gru, backend="jitpkg", fullgraph=True)
    x, w = torch.randn(2, 3), torch.randn(3, 4, requires_grad=True)
    torch.testing.assert_close(compiled(x, w), gru(x, w))


def test_what_is_said_of_it() -> None:
    model = Tagger(nn.GRU)
    explanation = jitpkg.explain(model, backend="jitpkg")(torch.randn(5, 2, 3))
    assert "B128" in str(explanation) and "gru of tensors that require grad" in str(explanation)
