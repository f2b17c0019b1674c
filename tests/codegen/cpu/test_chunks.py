"""Folds of everything by several threads: what one thread makes, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import jitpkg
from jitpkg import events
from jitpkg.codegen.cpu import maker
from jitpkg.codegen.cpu.host import host_of
from tests.codegen.cpu.support import needs_llvm

pytestmark = needs_llvm

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def grain(monkeypatch: pytest.MonkeyPatch, elements: int) -> None:
    """So many elements are worth a thread."""
    monkeypatch.setattr(maker, "host_of", lambda *given: replace(host_of(*given), grain=elements))


def compiled(function: Function, *inputs: Tensor) -> tuple[Function, str]:
    """The compiled function, and the text of its kernels."""
    texts: list[str] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.KernelCompiled):
            texts.append(event.text)

    with events.STREAM.listening(note):
        made = jitpkg.compile(function, backend="jitpkg")
        made(*inputs)
    return made, "\n".join(texts)


def normal(x: Tensor) -> Tensor:
    return (x - x.mean()) / x.std()


FUNCTIONS: dict[str, Function] = {
    "sum": lambda x: x.sum(),
    "largest and smallest": lambda x: (x.amax(), x.amin()),
    "product": lambda x: x.sign().prod(),
    "several": lambda x: (x.sum(), (x * x).mean(), x.abs().amax(), (x > 0).sum()),
    "any and all": lambda x: ((x > 3).any(), (x > 9).any(), (x > -9).all(), (x > 0).all()),
    "one pass after another": lambda x: x.var(),
    "and what the result is for": normal,
    "softmax": lambda x: x.flatten().softmax(0),
    "and an element each": lambda x: (x * 2, x.sum()),
    "rows and all": lambda x: (x.sum(-1), x.sum()),
    "folds in a fold": lambda x: functional.cross_entropy(x, x.argmax(-1)),
    "logsumexp": lambda x: x.flatten().logsumexp(0),
    "norm": lambda x: torch.linalg.vector_norm(x),
}
LAYOUTS: dict[str, Function] = {
    "plain": lambda x: x,
    "turned": lambda x: x.t(),
    "a slice": lambda x: x[:, 3:-2],
    "expanded": lambda x: x[:, :1].expand(-1, 50),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_threads_make_no_difference(
    name: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grain(monkeypatch, 16)
    function = FUNCTIONS[name]
    torch.manual_seed(0)
    x = LAYOUTS[layout](torch.randn(37, 61))
    made, text = compiled(function, x)
    assert "@kernel.chunks0" in text
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(made(x))
    exact = function(x.double())
    torch.testing.assert_close(results[0], exact, rtol=5e-6, atol=5e-6, check_dtype=False)
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=0, atol=0)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 127, 129, 4096, 4097, 9999])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_all_sizes(count: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    grain(monkeypatch, 1)
    torch.manual_seed(0)
    x = torch.randint(-4, 5, (count,)).to(dtype)
    made, _ = compiled(lambda x: (x.sum(), x.amax(), (x > 3).any(), x + 1), x)
    expected = x.sum(), x.amax(), (x > 3).any(), x + 1
    torch.testing.assert_close(made(x), expected, rtol=0, atol=0)


def test_not_a_number_is_found_in_any_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    grain(monkeypatch, 16)
    made, _ = compiled(lambda x: (x.amax(), x.amin(), x.sum()), torch.zeros(1000))
    for place in (0, 17, 500, 999):
        x = torch.zeros(1000)
        x[place] = float("nan")
        assert all(result.isnan() for result in made(x))


def test_an_index_out_of_range_in_any_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    grain(monkeypatch, 16)
    table = torch.randn(10)

    def looked_up(table: Tensor, index: Tensor) -> Tensor:
        return table[index].sum()

    index = torch.zeros(1000, dtype=torch.int64)
    made, text = compiled(looked_up, table, index)
    assert "@kernel.chunks0" in text
    torch.testing.assert_close(made(table, index), table[0] * 1000)
    for place in (0, 500, 999):
        wrong = index.clone()
        wrong[place] = 10
        with pytest.raises(IndexError):
            made(table, wrong)


@pytest.mark.parametrize(
    "function",
    [lambda x: x.argmax(), lambda x: x.cumsum(0), lambda x: x.sum(1), lambda x: x * 2],
    ids=["a position", "a scan", "rows", "no fold"],
)
def test_what_is_not_cut(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    grain(monkeypatch, 16)
    x = torch.randn(40, 50)
    made, text = compiled(function, x)
    assert "@kernel.chunks0" not in text
    torch.testing.assert_close(made(x), function(x))


def test_small_kernels_are_not_cut() -> None:
    _, text = compiled(lambda x: x.sum(), torch.randn(60_000))
    assert "@kernel.chunks0" not in text
    _, text = compiled(lambda x: x.sum(), torch.randn(70_000))
    assert "@kernel.chunks0" in text


@pytest.mark.parametrize("count", [1 << 20, 3_000_001])
def test_long_sums_are_as_exact_as_eager_ones(count: int) -> None:
    torch.manual_seed(0)
    x = torch.rand(count)
    made, _ = compiled(lambda x: x.sum(), x)
    exact = x.double().sum()
    assert (made(x) - exact).abs() <= 4 * (x.sum() - exact).abs() + 1e-7 * exact
