"""Random numbers for what does not lie in order: element by element, they are eager code's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import jitpkg
from jitpkg import events
from jitpkg.testing import Comparison

HOW = ("grad_fn", "version")
DRAWING: dict[str, Callable[[Tensor], Tensor]] = {
    "bernoulli_": lambda x: x.bernoulli_(0.3),
    "bernoulli_ of a tensor": lambda x: x.bernoulli_(x.detach().sigmoid()),
    "uniform_": Tensor.uniform_,
    "normal_": Tensor.normal_,
    "exponential_": Tensor.exponential_,
    "random_": Tensor.random_,
    "geometric_": lambda x: x.geometric_(0.4),
    "cauchy_": Tensor.cauchy_,
    "log_normal_": Tensor.log_normal_,
    "bernoulli": lambda x: x.sigmoid().bernoulli(),
    "dropout": F.dropout,
    "dropout_": lambda x: F.dropout(x, inplace=True),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
    "gumbel_softmax": F.gumbel_softmax,
    "rand_like": torch.rand_like,
}
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.reshape(8, 6).t(),
    "with gaps": lambda x: x.reshape(8, 6)[::2],
    "columns": lambda x: x.reshape(8, 6)[:, 1::2],
    "permuted": lambda x: x.reshape(2, 4, 6).permute(1, 2, 0),
}


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", DRAWING)
def test_as_eager(name: str, trained: bool, backend: str) -> None:
    draw = DRAWING[name]

    def program(x: Tensor) -> Any:
        return [draw(layout(x * 0.5)) * 2 for layout in LAYOUTS.values()]

    comparison = Comparison(backend=backend, relative=1e-6, absolute=1e-6, ignore=HOW)
    comparison.assert_same(program, torch.arange(48.0).sin().requires_grad_(trained))


@pytest.mark.parametrize("layout", [Tensor.clone, *LAYOUTS.values()])
def test_dropout_of_graphs_that_are_trained_is_in_kernels(
    layout: Callable[[Tensor], Tensor],
) -> None:
    def program(x: Tensor) -> Tensor:
        return F.dropout(layout(x * 0.5)) * 2

    x = torch.arange(48.0).sin().requires_grad_()
    said: list[events.Event] = []
    with events.STREAM.listening(said.append):
        jitpkg.compile(program, backend="jitpkg")(x)
    assert not [event for event in said if isinstance(event, events.Declined)]
