"""Decompositions of torch's that are wrong in some versions are not relied on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import jitpkg
from jitpkg.facts import decomposed
from jitpkg.internals.decompositions import LSTM_LAYER


@pytest.fixture(params=["as it is", "wrong"])
def decomposition(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """As in this version of torch, and as in 2.11."""
    decomposed.lstm_is_right.cache_clear()
    if request.param == "wrong":
        real = LSTM_LAYER.get()

        def wrong(inp: Tensor, hidden: Any, *rest: Any, **named: Any) -> Any:
            out, (h, c) = real(inp, hidden, *rest, **named)
            return out, (h.reshape(1, *h.shape), c.reshape(1, *c.shape))

        monkeypatch.setattr(LSTM_LAYER, "get", lambda: wrong)
        monkeypatch.setattr(LSTM_LAYER, "found", lambda: wrong)
        assert not decomposed.lstm_is_right()
    yield
    decomposed.lstm_is_right.cache_clear()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("training", [False, True])
def test_the_states_of_an_lstm(
    decomposition: None, backend: str, dynamic: bool | None, training: bool
) -> None:
    torch.manual_seed(0)
    model = torch.nn.LSTM(4, 4, 2, batch_first=True).train(training)

    def f(x: Tensor) -> Any:
        out, (h, c) = model(x)
        return out, h, c.reshape(h.shape[0], -1), h.dim()

    fast = jitpkg.compile(f, backend=backend, dynamic=dynamic)
    for size in ((2, 3), (2, 5), (3, 7)):
        x = torch.randn(*size, 4)
        got, want = fast(x), f(x)
        torch.testing.assert_close(got[:3], want[:3])
        assert got[3] == want[3]
        got[1].sum().backward()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("batch", [(), (1,), (3,)])
def test_margin_losses(
    backend: str, requires_grad: bool, reduction: str, batch: tuple[int, ...]
) -> None:
    """A label of -1 ends the list of an example's labels."""

    def f(x: Tensor, one: Tensor, several: Tensor) -> Any:
        margin = functional.multi_margin_loss(x, one, reduction=reduction)
        labels = functional.multilabel_margin_loss(x, several, reduction=reduction)
        return margin, labels, margin.dim(), labels.dim(), (margin + labels)[..., None]

    one, several = torch.tensor(2).expand(batch), torch.tensor([1, 3, -1, 0, 0])
    given = one.contiguous(), several.expand(*batch, 5).contiguous()
    x = torch.randn(*batch, 5, requires_grad=requires_grad)
    got, want = jitpkg.compile(f, backend=backend)(x, *given), f(x, *given)
    assert got[2:4] == want[2:4]
    torch.testing.assert_close((*got[:2], got[4]), (*want[:2], want[4]))
    if requires_grad:
        gradients = [torch.autograd.grad(made[4].sum(), x)[0] for made in (got, want)]
        torch.testing.assert_close(*gradients)
