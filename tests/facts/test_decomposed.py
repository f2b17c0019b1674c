"""Decompositions of torch's that are wrong in some versions are not relied on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import jitpkg
from jitpkg.facts import decomposed
from jitpkg.internals.decompositions import LSTM_LAYER
from jitpkg.testing import Comparison
from tests.opinfo.contexts import default_dtype


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


WRONG: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "addmv": (torch.addmv, (torch.tensor(1.5), torch.empty(5, 0), torch.empty(0))),
    "pixel_unshuffle": (lambda x: functional.pixel_unshuffle(x, 3), (torch.empty(1, 1, 0, 0),)),
    "ldexp": (torch.ldexp, (torch.tensor([2, 3]), torch.tensor([4, 1]))),
    "ldexp of what is broadcast": (torch.ldexp, (torch.ones(10, 5), torch.ones(5))),
    "ldexp, transposed": (
        torch.ldexp,
        (torch.ones(5, 10, 10).transpose(0, 2), torch.ones(5, 10).t()),
    ),
    "index_put": (lambda x, at: x.index_put((at,), x), (torch.tensor(1.5), torch.tensor(True))),
    "index_put_": (lambda x, at: x.index_put_((at,), x), (torch.ones(()), torch.tensor([0]))),
    "group norm": (
        lambda x: torch.native_group_norm(x, None, None, 2, 4, 6, 2, 1e-5),
        (torch.arange(96.0).view(2, 4, 12)[..., ::2],),
    ),
}
"""Calls of which torch's own description is wrong."""


MODES = [
    *((mode, 2) for mode in ("nearest", "nearest-exact", "area", "bilinear", "bicubic")),
    ("linear", 1),
    ("trilinear", 3),
]
"""How images of so many dims are interpolated."""


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
@pytest.mark.parametrize(("mode", "dims"), MODES)
def test_integers_are_interpolated_or_refused(
    mode: str, dims: int, dtype: torch.dtype, requires_grad: bool, backend: str
) -> None:
    """Whether or not the graph has gradients elsewhere."""

    def f(x: Tensor, weight: Tensor) -> Any:
        return weight * 2, functional.interpolate(x, scale_factor=2, mode=mode)

    x = (torch.arange(4**dims) * 37 % 251).to(dtype).reshape(1, 1, *[4] * dims)
    weight = torch.ones(2, requires_grad=requires_grad)
    ignored = ("traceback", "grad_fn")
    Comparison(backend=backend, ignore=ignored).assert_same(f, x, weight)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("default", [torch.float32, torch.float64])
def test_what_is_described_wrongly(name: str, backend: str, default: torch.dtype) -> None:
    op, given = WRONG[name]

    with warnings.catch_warnings(), default_dtype(default):
        warnings.simplefilter("ignore")
        Comparison(backend=backend, ignore=("traceback",)).assert_same(op, *given)
