"""Writes at positions out of data, through the whole backend."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import jitpkg


def all_at_one_place(x: Tensor) -> Tensor:
    """Neither index nor value depends on the position: each counts all the same."""
    at = torch.zeros(6, 3, dtype=torch.int64)
    return x.scatter_add(0, at, torch.ones(6, 3))


def one_number_often(x: Tensor) -> Tensor:
    at = torch.zeros(6, dtype=torch.int64)
    return x.index_put((at,), torch.tensor(1.0), accumulate=True)


AT, ONES = torch.tensor([2]).expand(4), torch.ones(1, 3).expand(4, 3)


def expanded(x: Tensor) -> Tensor:
    """One number in memory stands for all of its positions, of which each counts."""
    x = x.index_put((AT, AT), torch.tensor(1.0), accumulate=True)
    return x.bfloat16().index_add(0, AT, ONES.bfloat16()).float().index_add(0, AT, ONES)


def computed(x: Tensor) -> Tensor:
    at = torch.arange(12) % 4
    return x.exp().index_add(0, at, (x * 2).repeat(3, 1)) + 1


def masked(x: Tensor) -> Tensor:
    return x.index_put((x > 0,), torch.tensor(-1.0))


@pytest.mark.usefixtures("by_each_printer")
@pytest.mark.parametrize("f", [all_at_one_place, one_number_often, expanded, computed, masked])
def test_like_eager(f: Callable[[Tensor], Tensor]) -> None:
    x = torch.randint(-4, 5, (4, 3)).float()
    expected = f(x)
    torch.testing.assert_close(jitpkg.jit(f, backend="jitpkg")(x), expected)


def histogram(x: Tensor, at: Tensor) -> Tensor:
    return x.index_add(0, at, torch.ones(at.shape[0]))


def test_many_at_few_places() -> None:
    """Whatever runs side by side."""
    at = torch.randint(0, 5, (200_000,))
    expected = torch.bincount(at, minlength=5).float()
    found = jitpkg.jit(histogram, backend="jitpkg")(torch.zeros(5), at)
    assert torch.equal(found, expected)


@pytest.mark.usefixtures("by_each_printer")
def test_position_outside_raises_as_eager_does() -> None:
    compiled = jitpkg.jit(histogram, backend="jitpkg")
    compiled(torch.zeros(5), torch.tensor([0, 4]))
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        compiled(torch.zeros(5), torch.tensor([0, 5]))
