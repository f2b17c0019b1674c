"""Sizes that vary, by kernels that are given them: one compilation for many, right for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg.codegen import backend as own
from jitpkg.codegen.sizes.by_symbols import BySymbols
from tests.codegen import counted

F = nn.functional
R = torch.randn


@contextmanager
def compilations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """For each compilation of a graph whose sizes vary: whether it is for symbols."""
    made: list[bool] = []
    add, of_one_size = BySymbols._add, own._of_one_size

    def noted(self: Any, inputs: Any) -> bool:
        done = add(self, inputs)
        if done:
            made.append(True)
        return done

    def of_numbers(gm: Any, *args: Any, **kwargs: Any) -> Any:
        made.append(False)
        return of_one_size(gm, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(BySymbols, "_add", noted)
        patched.setattr(own, "_of_one_size", of_numbers)
        yield made


def chain(x: torch.Tensor) -> Any:
    return torch.sin(x) * x + x.exp(), x > 0


def softmax(x: torch.Tensor) -> Any:
    return torch.softmax(x, -1), F.log_softmax(x, 0)


def folds(x: torch.Tensor) -> Any:
    return x.sum(0), x.mean(1), x.amax(-1), x.argmax(1), x.sum(), (x - x.mean(0)).exp()


def rms(x: torch.Tensor) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def turned(x: torch.Tensor) -> Any:
    return (x.t() * 2).softmax(-1), x.t() + 1, x.t().contiguous()


def joined(x: torch.Tensor) -> Any:
    return torch.cat([x, x * 2], 0)[1:] + 1, torch.stack([x, x + 1]).sum(0)


def sliced(x: torch.Tensor) -> Any:
    return x[2:] - x[:-2], x.flip(0) * 2, x[::2].exp()


def causal(x: torch.Tensor) -> Any:
    scores = x @ x.t()
    mask = torch.triu(torch.ones(x.shape[0], x.shape[0], dtype=torch.bool), 1)
    return scores.masked_fill(mask, float("-inf")).softmax(-1)


def padded(x: torch.Tensor) -> Any:
    return F.pad(x, (1, 2, 3, 0)) * 2


def running(x: torch.Tensor) -> Any:
    return x.cumsum(-1), x.cumsum(0)


def flat(x: torch.Tensor) -> Any:
    return x.flatten().exp(), x.view(-1, 8).sum(-1), x.reshape(x.shape[0], 4, 16).amax(1)


def numbers(x: torch.Tensor) -> Any:
    return x * x.shape[0] + x.shape[1], x.new_ones(x.shape[0], 3) * 2, x.shape[0] * 2


def positions(x: torch.Tensor) -> Any:
    return torch.arange(x.shape[0])[:, None] + x, x.roll(3, 0)


def written(x: torch.Tensor) -> Any:
    x.mul_(2)
    x[:, 0] = 1
    return x + 1


def listed(x: torch.Tensor) -> Any:
    last = x[:, [-1]]
    y = x * 2
    y[:, [0, 2]] = 1
    y[:, [3]] += last
    return last, y, x[[0, -1], [5, 6]] + 1


PROGRAMS = [
    chain,
    softmax,
    folds,
    rms,
    turned,
    joined,
    sliced,
    causal,
    padded,
    running,
    flat,
    numbers,
    positions,
    written,
    listed,
]


def copied(x: torch.Tensor) -> torch.Tensor:
    """With the same layout."""
    whole = x.as_strided((x.untyped_storage().nbytes() // x.itemsize,), (1,), 0).clone()
    return whole.as_strided(x.shape, x.stride(), x.storage_offset())


def compared(f: Callable[..., Any], inputs: list[Any]) -> None:
    fast = jitpkg.compile(f, backend="jitpkg")
    for args in inputs:
        expected_of = tuple(map(copied, args))
        with torch.no_grad():
            expected = f(*expected_of)
            found = fast(*args)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, check_stride=True)
        torch.testing.assert_close(args, expected_of, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("f", PROGRAMS)
def test_one_compilation_is_right_for_many_sizes(
    f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = (7, 9, 5, 33, 130, 16, 64, 1000, 4)
    with compilations(monkeypatch) as made:
        compared(f, [(R(n, 64),) for n in sizes])
    assert made == [False, True]


@pytest.mark.parametrize("f", PROGRAMS)
def test_the_interpreter_agrees(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITPKG_DEBUG", "interpret")
    compared_at_some_sizes(f, monkeypatch)


@pytest.mark.usefixtures("by_triton")
@pytest.mark.parametrize("f", PROGRAMS)
def test_triton_agrees(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    compared_at_some_sizes(f, monkeypatch)


def compared_at_some_sizes(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with compilations(monkeypatch) as made:
        compared(f, [(R(n, 64),) for n in (7, 9, 5, 20)])
    assert made == [False, True]


@pytest.mark.parametrize("f", [chain, folds, rms, running])
def test_both_dims_vary(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ((7, 3), (9, 5), (3, 9), (33, 400), (400, 33), (17, 16), (5, 5), (1000, 2))
    with compilations(monkeypatch) as made:
        compared(f, [(R(*size),) for size in sizes])
    assert made == [False, True]


@pytest.mark.parametrize("f", PROGRAMS)
def test_sizes_of_0_and_1_go_elsewhere(f: Callable[..., Any]) -> None:
    few = [3, 2, 1] if f is sliced else [1, 2]
    none = [] if f in (folds, sliced, causal, written, listed) else [0]
    compared(f, [(R(n, 64),) for n in (7, 9, *few, *none, 12)])


@pytest.mark.parametrize("f", [chain, softmax, folds, rms, turned, joined, causal])
def test_inputs_that_lie_in_memory_in_other_ways(f: Callable[..., Any]) -> None:
    compared(f, [(R(64, n).t(),) for n in (7, 9, 33, 4)])
    compared(f, [(R(n, 128)[:, ::2],) for n in (7, 9, 33, 4)])
    compared(f, [(R(n + 3, 70)[3:, 2:66],) for n in (7, 9, 33, 4)])
    compared(f, [(R(1, 64).expand(n, 64),) for n in (7, 9, 33, 4)])
    mixed = [R(7, 64), R(9, 64), R(64, 9).t(), R(9, 80)[:, :64], R(64).expand(9, 64), R(11, 64)]
    compared(f, [(x,) for x in mixed])


class Block(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        every = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = every.permute(2, 0, 3, 1, 4)
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        scores = (q @ k.transpose(-1, -2)) / (width // self.heads) ** 0.5
        attention = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(attention.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


def test_a_transformer_block_of_growing_length(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    with compilations(monkeypatch) as made:
        compared(Block(), [(R(2, n, 64),) for n in (5, 7, 8, 9, 33, 130, 2, 4, 16, 64)])
    assert made == [False, True]


def with_cache(cache: torch.Tensor, new: torch.Tensor, q: torch.Tensor) -> Any:
    k = torch.cat([cache, new], 2)
    return torch.softmax(q @ k.transpose(-1, -2), -1) @ k, k


def test_a_cache_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = (5, 6, 7, 8, 15, 16, 50, 3)
    with compilations(monkeypatch) as made:
        compared(with_cache, [(R(2, 4, n, 16), R(2, 4, 1, 16), R(2, 4, 1, 16)) for n in lengths])
    assert made == [False, True]


def test_rows_that_are_too_long_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with compilations(monkeypatch) as made:
        compared(softmax, [(R(3, n),) for n in (50, 60, 70_000, 100_000, 80)])
    assert made == [False, True, True]


def test_equal_sizes_in_the_example_need_not_stay_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x.exp().sum(0), y.cumsum(0)

    inputs = [(R(3, 8), R(3, 8)), (R(5, 8), R(5, 8)), (R(5, 8), R(7, 8)), (R(9, 8), R(4, 8))]
    with compilations(monkeypatch) as made:
        compared(f, inputs)
    assert made == [False, True, True]


def trained(f: Callable[..., Any], inputs: list[torch.Tensor], backward: str) -> None:
    f = f.double() if isinstance(f, nn.Module) else f
    fast = jitpkg.compile(f, backend="jitpkg", options={"backward": backward})
    own = list(f.parameters()) if isinstance(f, nn.Module) else []
    for x in inputs:
        found = []
        for function in (f, fast):
            leaf = copied(x.double()).requires_grad_()
            result = function(leaf)
            gradients = torch.autograd.grad(result.square().mean(), [leaf, *own])
            found.append((result.detach(), gradients))
        torch.testing.assert_close(found[1], found[0], rtol=1e-6, atol=1e-9)


MLP = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))


by_each = pytest.mark.parametrize("backward", ["own", "aot"])


@by_each
@pytest.mark.parametrize(
    "f",
    [
        MLP,
        lambda x: torch.softmax(x * 2, -1).cumsum(0) * x.shape[0],
        lambda x: torch.cat([x.exp(), x.flip(0)]).amax(0),
        lambda x: x.view(-1, 4, 4).transpose(0, 1).reshape(4, -1).sum(0),
    ],
)
def test_training_of_sizes_that_vary(
    f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, backward: str
) -> None:
    torch.manual_seed(0)
    with counted.compilations(monkeypatch) as made:
        trained(f, [R(n, 16) for n in (5, 7, 9, 33, 100, 16)], backward)
    assert made == [True]


@by_each
def test_training_of_a_block_of_growing_length(
    monkeypatch: pytest.MonkeyPatch, backward: str
) -> None:
    torch.manual_seed(0)
    with counted.compilations(monkeypatch) as made:
        trained(Block(), [R(2, n, 64) for n in (5, 7, 9, 33, 2, 1)], backward)
    assert made == [True]


@by_each
def test_training_relies_on_what_kernels_do(monkeypatch: pytest.MonkeyPatch, backward: str) -> None:
    sizes = (50, 60, 70_000, 80_000, 90)
    with counted.compilations(monkeypatch) as made:
        trained(lambda x: torch.softmax(x, -1), [R(3, n) for n in sizes], backward)
    assert made == [True, True]


def test_what_a_program_asks_of_sizes_is_decided_anew() -> None:
    def f(x: torch.Tensor) -> Any:
        if x.shape[0] % 2 == 0:
            return x.view(-1, 2, 8).sum(1)
        return x[: x.shape[0] // 2] * 3

    compared(f, [(R(n, 8),) for n in (4, 6, 8, 5, 7, 9, 10, 2, 3)])
