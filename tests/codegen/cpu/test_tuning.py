"""Tuning: ways that differ in speed only, and the choice among them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg import events, native
from jitpkg.codegen import cache
from jitpkg.codegen.cpu import tuning
from jitpkg.codegen.ir.nodes import Buffer

pytestmark = pytest.mark.skipif(native.why_not() is not None, reason="native code cannot be had")


def chain(x: Tensor, y: Tensor) -> Tensor:
    return ((x * y + 1).tanh() * x).sigmoid()


def normed(x: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x + y, x.shape[-1:])


def rows(x: Tensor, k: Tensor) -> Tensor:
    return x[k] * 2


def summed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return (x * y).sum(0), (x + y).exp()


INPUTS = torch.randn(61, 67), torch.randn(61, 67)
CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "chain": (chain, INPUTS),
    "norm": (normed, INPUTS),
    "index": (rows, (INPUTS[0], torch.tensor([3, 60, 0]))),
    "sum": (summed, INPUTS),
    "bfloat16": (chain, (INPUTS[0].bfloat16(), INPUTS[1].bfloat16())),
    "nothing": (chain, (torch.randn(0, 3), torch.randn(0, 3))),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("title", CASES)
def test_no_result_shows_it(title: str, last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    function, inputs = CASES[title]
    expected = jitpkg.compile(function, backend="jitpkg")(*inputs)
    monkeypatch.setattr(tuning, "fastest", lambda ways, given: (len(ways) - 1) * last)
    stream = torch.get_rng_state()
    found = jitpkg.compile(lambda *args: function(*args), backend="jitpkg", mode="max-autotune")(
        *inputs
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert torch.equal(stream, torch.get_rng_state())


def test_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "fastest", lambda ways, given: len(ways) - 1)
    gradients = []
    for mode in ("default", "max-autotune"):
        x = INPUTS[0].clone().requires_grad_()
        jitpkg.compile(chain, backend="jitpkg", mode=mode)(x, INPUTS[1]).sum().backward()
        gradients.append(x.grad)
    assert gradients[0] is not None
    assert gradients[1] is not None
    assert torch.equal(gradients[0], gradients[1])


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("JITPKG_CACHE_DIR", "off")
    cache.kernels.cache_clear()
    yield
    cache.kernels.cache_clear()


def test_several_ways_are_measured(nothing_kept: None) -> None:
    counts: list[int] = []
    measured = tuning.fastest

    def counting(ways: Any, given: Any) -> int:
        counts.append(len(ways))
        return measured(ways, given)

    kernels: list[events.KernelCompiled] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.KernelCompiled):
            kernels.append(event)

    with pytest.MonkeyPatch.context() as patch, events.STREAM.listening(note):
        patch.setattr(tuning, "fastest", counting)
        jitpkg.compile(lambda x: x.exp() * 3 + 1, backend="jitpkg", mode="max-autotune")(INPUTS[0])
    assert counts
    assert counts[0] == len(tuning.SIDE_BY_SIDE)
    assert len(kernels) == 1


def test_the_first_stays_unless_another_is_clearly_faster() -> None:
    def slow(*given: Tensor) -> None:
        time.sleep(0.002)

    def slower(*given: Tensor) -> None:
        time.sleep(0.004)

    given = tuning.arguments([Buffer("x", torch.float32, (8,), (1,))])
    assert tuning.fastest([slow, slow], given) == 0
    assert tuning.fastest([slow, slower], given) == 0
    assert tuning.fastest([slower, slow], given) == 1
