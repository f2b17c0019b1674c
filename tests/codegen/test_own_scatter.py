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


def added_rows(x: Tensor, at: Tensor, rows: Tensor) -> Tensor:
    return x.index_add(0, at, rows)


@pytest.mark.parametrize("columns", [1, 3, 16, 67, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_rows_are_added_in_their_order(dtype: torch.dtype, columns: int) -> None:
    """Bit for bit as eager code adds them, though the columns run side by side."""
    at = torch.tensor([2, 0, 2, 2, 4, 0, 2])
    x, rows = ((torch.randn(n, columns) * 100).to(dtype) for n in (5, 7))
    expected = added_rows(x, at, rows)
    assert torch.equal(jitpkg.jit(added_rows, backend="jitpkg")(x, at, rows), expected)


def test_gradient_of_an_embedding() -> None:
    table = torch.randn(50, 33, requires_grad=True)
    index = torch.randint(0, 50, (4, 100))

    def gradient(f: Callable[..., Tensor]) -> Tensor | None:
        table.grad = None
        f(index, table).square().sum().backward()
        return table.grad

    embed = torch.nn.functional.embedding

    def looked_up(index: Tensor, table: Tensor) -> Tensor:
        return embed(index, table, padding_idx=3)

    got, want = gradient(jitpkg.jit(looked_up, backend="jitpkg")), gradient(looked_up)
    torch.testing.assert_close(got, want)


ONCE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index_add": lambda x, at: x.index_add(0, at, x[:1]),
    "scatter_add": lambda x, at: x.scatter_add(0, at, x[:1]),
    "index_put": lambda x, at: x.index_put((at,), x[:1], accumulate=True),
    "scatter_reduce": lambda x, at: x.scatter_reduce(0, at, x[:1], "sum"),
}


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("name", ONCE)
def test_a_negative_zero_stays_negative(name: str, size: int) -> None:
    def known(x: Tensor) -> Tensor:
        return ONCE[name](x, torch.tensor([0]))

    x = torch.full((size,), -0.0)
    for f, args in ((ONCE[name], (x, torch.tensor([0]))), (known, (x,))):
        assert jitpkg.compile(f, backend="jitpkg")(*args).signbit().all()  # type: ignore[operator]
