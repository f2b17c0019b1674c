"""Masks that are drawn by vectors: eager code's elements, and its generator afterwards."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

import jitpkg
from jitpkg.native import mersenne
from tests.native.support import needs_llvm

pytestmark = needs_llvm

DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def is_here() -> bool:
    """Whether this torch draws as is known: all but its builds for Intel's processors do."""
    mersenne.start()
    here = mersenne.bernoulli_(torch.empty(mersenne.WORTHWHILE), 0.5)
    assert here or "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    return here


@given(
    seed=st.integers(0, 2**64 - 1),
    words=st.sampled_from([0, 1, 2, 311, 622, 623, 624, 625, 1247, 1248]) | st.integers(0, 2000),
    counts=st.lists(
        st.integers(0, 40).map(lambda more: mersenne.WORTHWHILE + more)
        | st.integers(0, 12).map(lambda more: 312 * 8 - 6 + more),
        min_size=1,
        max_size=3,
    ),
    dtype=st.sampled_from(DTYPES),
    p=st.sampled_from([0.0, 1.0, 0.5, 0.9, 2.0**-53, 1 - 2.0**-53, 5e-324])
    | st.floats(0, 1, allow_subnormal=True),
)
def test_as_torch_draws(
    seed: int, words: int, counts: list[int], dtype: torch.dtype, p: float
) -> None:
    found = []
    for drawn_here in (True, False):
        torch.manual_seed(seed)
        torch.empty(words).uniform_()  # a word each
        torch.randn(1)  # leaves a number for the next
        made = [torch.empty(count, dtype=dtype) for count in counts]
        for each in made:
            if not (drawn_here and mersenne.bernoulli_(each, p)):
                each.bernoulli_(p)
        found.append([*made, torch.get_rng_state(), torch.randn(3), torch.rand(3)])
    for ours, torchs in zip(*found, strict=True):
        assert torch.equal(ours, torchs)


def test_each_call_draws_others(is_here: bool) -> None:
    if not is_here:
        pytest.skip("this torch draws otherwise on this processor")
    made = [torch.empty(100_000) for _ in range(2)]
    for each in made:
        assert mersenne.bernoulli_(each, 0.25)
        assert 0.24 < each.mean() < 0.26
    assert 0.3 < (made[0] != made[1]).float().mean() < 0.45


@pytest.mark.parametrize(
    ("made", "p"),
    [
        (torch.empty(mersenne.WORTHWHILE - 1), 0.5),
        (torch.empty(mersenne.WORTHWHILE), 1.5),
        (torch.empty(mersenne.WORTHWHILE), -0.5),
        (torch.empty(mersenne.WORTHWHILE), float("nan")),
        (torch.empty(mersenne.WORTHWHILE, dtype=torch.complex64), 0.5),
    ],
)
def test_what_is_left_to_torch_draws_nothing(made: torch.Tensor, p: float) -> None:
    before = torch.get_rng_state()
    assert not mersenne.bernoulli_(made, p)
    assert torch.equal(torch.get_rng_state(), before)


def test_threads_that_draw_at_once_share_one_stream(is_here: bool) -> None:
    """All elements of all threads are those that one thread draws: whose lock is held, waits."""
    if not is_here:
        pytest.skip("this torch draws otherwise on this processor")
    count, each, drawing = 2048, 50, 4
    torch.manual_seed(3)
    wanted = sorted(torch.empty(count).bernoulli_(0.5).tolist() for _ in range(each * drawing))
    found: list[list[float]] = []

    def draw(here: bool) -> None:
        for _ in range(each):
            made = torch.empty(count)
            if not (here and mersenne.bernoulli_(made, 0.5)):
                made.bernoulli_(0.5)
            found.append(made.tolist())

    torch.manual_seed(3)
    threads = [threading.Thread(target=draw, args=[k % 2 == 0]) for k in range(drawing)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == wanted


def test_a_generator_that_is_locked_is_left_to_torch(is_here: bool) -> None:
    if not is_here:
        pytest.skip("this torch draws otherwise on this processor")
    drawing = threading.Thread(target=torch.empty(3_000_000).bernoulli_)
    drawing.start()
    answers = []
    while drawing.is_alive():
        answers.append(mersenne.bernoulli_(torch.empty(mersenne.WORTHWHILE), 0.5))
        time.sleep(0.001)
    drawing.join()
    assert False in answers
    assert mersenne.bernoulli_(torch.empty(mersenne.WORTHWHILE), 0.5)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("p", [0.3, 0.5])
def test_dropout_is_eager_codes(p: float, dtype: torch.dtype, training: bool) -> None:
    x = torch.randn(64, 65, dtype=dtype)
    found = []
    for function in (functional.dropout, jitpkg.compile(functional.dropout, backend="jitpkg")):
        given = x.clone().requires_grad_(training)
        torch.manual_seed(5)
        y = function(given, p)
        if training:
            y.backward(torch.ones_like(y))
        found.append((y.detach(), given.grad, torch.get_rng_state()))
    for eager, compiled in zip(*found, strict=True):
        assert (eager is None and compiled is None) or torch.equal(eager, compiled)


def test_compiled_dropout_draws_here(monkeypatch: pytest.MonkeyPatch, is_here: bool) -> None:
    if not is_here:
        pytest.skip("this torch draws otherwise on this processor")
    drawn: list[int] = []
    real = mersenne.bernoulli_

    def counted(made: torch.Tensor, p: float) -> bool:
        drawn.append(made.numel())
        return real(made, p)

    monkeypatch.setattr(mersenne, "bernoulli_", counted)

    @jitpkg.jit(backend="jitpkg")
    def f(x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, 0.3) + 1

    x = torch.randn(64, 65)
    f(x)
    f(x.clone().requires_grad_()).sum().backward()
    assert drawn == [64 * 65, 64 * 65]
