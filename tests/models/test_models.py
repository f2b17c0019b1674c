"""Transformers, convolutional and recurrent networks: whole graphs, right, and not per size."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.facts.decomposed import lstm_is_right
from tests.models.support import MODELS, Heard, copied, trained


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    found = MODELS[request.param]
    if found.needs != "torch":
        pytest.importorskip(found.needs)
    return found


@pytest.fixture(params=["evaluation", "training"])
def training(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "training")


def test_bit_for_bit_and_two_traces_for_a_size_that_varies(model: Any, training: bool) -> None:
    """One size after another: the second length and the second batch trace once, no third does."""
    torch.manual_seed(0)
    module = model.module().train(training)
    state = copied(module)
    compiled = jitpkg.compile(module, fullgraph=True, backend="eager")
    heard, graphs = Heard(), []
    for size in (model.size, model.size, *model.others):
        inputs = model.inputs(size)
        expected = trained(module, module, inputs, state)
        with jitpkg.events.STREAM.listening(heard):
            found = trained(compiled, module, inputs, state)
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor), f"{name} at {size}"
            assert found[name].dtype is tensor.dtype, name
            assert found[name].stride() == tensor.stride(), name
        graphs.append(heard.graphs)
    assert not heard.breaks
    first, again, length, batch, third = graphs
    assert first == again == 1
    assert length - again <= 1
    assert batch - length <= 1
    if lstm_is_right() or "LSTM" not in model.title:  # else its sizes are taken as numbers
        assert third == batch


def check_sums(found: Any, expected: Any) -> None:
    """A result that others are made of ends a graph: gradients are summed in another order."""
    assert found.keys() == expected.keys()
    for name, wanted in expected.items():
        is_sum = isinstance(wanted, torch.Tensor) and name.startswith("gradient") and wanted.numel()
        largest = wanted.abs().max().item() if is_sum else 0.0
        absolute = 1e-5 + 2e-6 * largest
        torch.testing.assert_close(found[name], wanted, rtol=1.3e-6, atol=absolute)


OFTEN = ("ResNet-like", "LSTM language model", "BERT")
"""Models whose training goes through AOTAutograd whenever tests run: few graphs go that way."""


@pytest.mark.parametrize(
    ("model", "training"),
    [
        pytest.param(
            name,
            training,
            marks=() if training and name in OFTEN else pytest.mark.slow,
            id=f"{name}-{'training' if training else 'evaluation'}",
        )
        for name in MODELS
        for training in (False, True)
    ],
    indirect=["model"],
)
def test_through_aot_autograd(model: Any, training: bool) -> None:
    torch.manual_seed(0)
    module = model.module().train(training)
    state = copied(module)
    compiled = jitpkg.compile(module, fullgraph=True, backend="aot_eager")
    heard = Heard()
    for size in (model.size, model.size, model.others[0]):
        inputs = model.inputs(size)
        expected = trained(module, module, inputs, state)
        with jitpkg.events.STREAM.listening(heard):
            found = trained(compiled, module, inputs, state)
        check_sums(found, expected)
    assert not heard.breaks
    assert heard.graphs <= 2
