"""`x[k]`, `x[:, k] = v` and the like, where `k` and `v` are other numbers at each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import jitpkg
from tests.varying.test_varying import Counted, same


def read(x, k):
    return x[k] + 1


def read_a_column(x, k):
    return x[:, k] * 2


def read_by_both_ends(x, k):
    return x[..., k, None] + x[None, -k, :, None]


def store_a_number(x, k):
    x[k] = k * 0.5
    return x + 1


def store_a_column(x, k):
    x[:, k] = x[k]
    return x.sum(1)


def store_elements(x, k):
    x[k, 1:] += x[k - 1, 1:]
    x[k, k] = 7
    return x


def write_to_what_is_read(x, k):
    x[k].add_(1)
    return x * 2


CASES = [
    read,
    read_a_column,
    read_by_both_ends,
    store_a_number,
    store_a_column,
    store_elements,
    write_to_what_is_read,
]


@pytest.mark.parametrize("f", CASES)
def test_two_graphs_serve_all_indices(f: Callable[..., Any]) -> None:
    backend = Counted()
    compiled = jitpkg.compile(f, backend=backend)
    for k in range(2, 8):
        x = torch.randn(8, 8)
        y = x.clone()
        assert same((f(x, k), x), (compiled(y, k), y))
    assert len(backend.graphs) == 2


def test_a_loop_that_fills_a_tensor() -> None:
    """The usual `losses[k] = loss.item()`."""

    def store(losses, k, loss):
        losses[k] = loss
        return losses * 2

    backend = Counted()
    compiled = jitpkg.compile(store, backend=backend)
    x, y = torch.zeros(9), torch.zeros(9)
    for k in range(9):
        assert same((store(x, k, 0.3 * k), x), (compiled(y, k, 0.3 * k), y))
    assert len(backend.graphs) <= 3


@pytest.mark.parametrize("f", CASES)
def test_what_is_out_of_range_raises_as_ever(f: Callable[..., Any]) -> None:
    compiled = jitpkg.compile(f, backend=Counted())
    for k in (2, 3, 4, 9, -10, 5):
        found = []
        for function in (f, compiled):
            x = torch.arange(64.0).view(8, 8)
            try:
                found.append((function(x, k), x))
            except IndexError as error:
                found.append((str(error), x))
        assert same(*found)


ITEMS = st.sampled_from(["k", "-k", "k - 1", "1", ":", "1:", "None", "...", "at"])


def reads(key: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(f"def f(x, k, at):\n    return x[{key},] * 2", namespace)
    function: Callable[..., Any] = namespace["f"]
    return function


def stores(key: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(f"def f(x, k, at):\n    x[{key},] = k\n    return x * 2", namespace)
    function: Callable[..., Any] = namespace["f"]
    return function


@settings(max_examples=60, deadline=None)
@given(st.lists(ITEMS, min_size=1, max_size=4), st.sampled_from([reads, stores]))
def test_keys_of_several_items(items: list[str], kind: Callable[[str], Callable[..., Any]]) -> None:
    f = kind(", ".join(items))
    compiled = jitpkg.compile(f, backend="eager")
    for k in (2, 3, 2):
        found: list[Any] = []
        for function in (f, compiled):
            x, at = torch.arange(125.0).view(5, 5, 5), torch.tensor([0, 3])
            try:
                found.append((function(x, k, at), x))
            except IndexError as error:
                found.append((str(error), x))
        assert same(*found)


def test_gradients() -> None:
    def f(x, k):
        return x[k] * x[:, k]

    compiled = jitpkg.compile(f, backend="eager")
    for k in (2, 3, 4):
        x = torch.randn(6, 6, requires_grad=True)
        a, b = (torch.autograd.grad(g(x, k).sum(), x)[0] for g in (f, compiled))
        assert same(a, b)


def test_by_kernels() -> None:
    pytest.importorskip("llvmlite")
    for f in CASES:
        compiled = jitpkg.compile(f, backend="jitpkg")
        for k in (2, 3, 4, 5):
            x = torch.randn(8, 8)
            y = x.clone()
            torch.testing.assert_close(compiled(y, k), f(x, k))
            torch.testing.assert_close(x, y)
