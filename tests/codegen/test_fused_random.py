"""Random numbers in kernels: `options={"fused_random": True}`."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import jitpkg
from jitpkg import events
from tests.codegen.triton.support import needs_triton
from tests.native.support import needs_llvm

pytestmark = needs_llvm

MANY = 100_000
LARGE = 3.3 / math.sqrt(MANY)
"""What a mean of so many numbers of variance 1 exceeds in one of 1,000 cases."""


def fused(function: Callable[..., Any], **others: Any) -> Callable[..., Any]:
    options = {"fused_random": True}
    return jitpkg.compile(function, backend="jitpkg", options=options, **others)


def seeded(function: Callable[..., Any], *args: Any, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return function(*args)


def calls_of(function: Callable[..., Any], *args: Any) -> list[str]:
    """The ops that a call leaves to ATen, when it is compiled."""
    heard: list[str] = []

    def listener(event: events.Event) -> None:
        if isinstance(event, events.Fused):
            heard.extend(event.calls)

    with events.STREAM.listening(listener):
        fused(function)(*args)
    return heard


def distance(x: Tensor, distribution: Callable[[Tensor], Tensor]) -> float:
    """Kolmogorov's and Smirnov's, times the root of how many there are."""
    x = x.flatten().double().sort().values
    n = len(x)
    ideal = distribution(x)
    steps = torch.arange(n + 1, dtype=torch.float64) / n
    return float(torch.maximum(steps[1:] - ideal, ideal - steps[:-1]).max()) * math.sqrt(n)


DISTRIBUTIONS: dict[str, tuple[Callable[[], Tensor], Callable[[Tensor], Tensor]]] = {
    "rand": (lambda: torch.rand(MANY), lambda x: x),
    "rand of float64": (lambda: torch.rand(MANY, dtype=torch.float64), lambda x: x),
    "randn": (lambda: torch.randn(MANY), torch.special.ndtr),
    "randn of float64": (lambda: torch.randn(MANY, dtype=torch.float64), torch.special.ndtr),
    "rand_like": (lambda: torch.rand_like(torch.zeros(MANY)), lambda x: x),
    "randn_like": (lambda: torch.randn_like(torch.zeros(MANY)), torch.special.ndtr),
    "uniform_": (lambda: torch.empty(MANY).uniform_(-3, 5), lambda x: (x + 3) / 8),
    "normal_": (lambda: torch.empty(MANY).normal_(2, 3), lambda x: torch.special.ndtr((x - 2) / 3)),
    "exponential_": (lambda: torch.empty(MANY).exponential_(2), lambda x: 1 - (-2 * x).exp()),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name: str) -> None:
    draw, distribution = DISTRIBUTIONS[name]
    compiled = fused(draw)
    x, y = seeded(compiled), compiled()
    assert x.dtype is draw().dtype
    assert 0.2 < distance(x, distribution) < 1.95  # one of 1,000 is larger
    assert 0.2 < distance(torch.cat([x, y]), distribution) < 1.95
    z = distribution(x.double()) * math.sqrt(12) - math.sqrt(3)  # of mean 0 and variance 1
    assert abs(z.mean()) < LARGE
    assert abs(z.square().mean() - 1) < LARGE
    assert abs((z[1:] * z[:-1]).mean()) < LARGE


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_few_bits(dtype: torch.dtype) -> None:
    x, y = seeded(fused(lambda: (torch.rand(MANY, dtype=dtype), torch.randn(MANY, dtype=dtype))))
    assert x.dtype is y.dtype is dtype
    assert x.min() >= 0
    assert x.max() < 1
    step = torch.finfo(dtype).eps / 2
    assert abs(x.double().mean() + step / 2 - 0.5) < LARGE
    assert abs(y.double().mean()) < LARGE
    assert abs(y.double().var() - 1) < 2 * LARGE


def test_integers() -> None:
    x = seeded(fused(lambda: torch.randint(-3, 4, (7, 10_000))))
    assert x.dtype is torch.int64
    counts = torch.bincount(x.flatten() + 3, minlength=7).double()
    assert len(counts) == 7
    assert float(((counts - 10_000).square() / 10_000).sum()) < 22.5  # one of 1,000 is larger


@pytest.mark.parametrize("p", [0.0, 0.1, 0.7, 1.0])
def test_how_much_is_dropped(p: float) -> None:
    y = seeded(fused(lambda x: F.dropout(x, p)), torch.ones(MANY))
    kept = y != 0
    assert abs(kept.double().mean() - (1 - p)) <= LARGE * math.sqrt(p * (1 - p))
    assert torch.equal(y[kept], torch.full((int(kept.sum()),), 1.0) / (1 - p))


def test_bernoulli() -> None:
    x = torch.zeros(MANY, dtype=torch.int64)
    y, z = seeded(fused(lambda x: (torch.bernoulli(x, 0.3), x.clone().bernoulli_(0.2))), x)
    assert y.dtype is z.dtype is torch.int64
    assert abs(y.double().mean() - 0.3) < LARGE
    assert abs(z.double().mean() - 0.2) < LARGE


def correlation(x: Tensor, y: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([x.flatten(), y.flatten()]))[0, 1])


def test_ops_and_calls_are_independent() -> None:
    compiled = fused(lambda: (torch.rand(MANY), torch.rand(MANY), torch.randn(MANY)))
    drawn = [*seeded(compiled), *compiled(), *seeded(compiled, seed=1)]
    for k, x in enumerate(drawn):
        for y in drawn[:k]:
            assert abs(correlation(x, y)) < LARGE * 1.3  # there are 36


def noisy(x: Tensor) -> tuple[Tensor, ...]:
    return F.dropout(x, 0.5), torch.rand(3), torch.randn_like(x), torch.randint(9, (5,)), x + 1


def equal(some: Sequence[Tensor], others: Sequence[Tensor]) -> list[bool]:
    return [torch.equal(a, b) for a, b in zip(some, others, strict=True)]


def test_a_seed_gives_the_same_numbers_and_each_call_others() -> None:
    compiled, x = fused(noisy), torch.rand(20, 30) + 1
    one, two = seeded(compiled, x), compiled(x)
    assert equal(one, two) == [False, False, False, False, True]
    again = seeded(compiled, x)
    assert all(equal(one, again))
    assert all(equal(two, compiled(x)))
    assert not any(equal(one[:4], seeded(compiled, x, seed=1)[:4]))


def test_one_number_of_aten_s_stream_is_drawn_at_each_call() -> None:
    compiled, x = fused(noisy), torch.rand(4, 4)
    seeded(compiled, x)
    after = torch.rand(1)
    torch.manual_seed(0)
    torch.randint(-(2**63), 2**63 - 1, ())
    assert torch.equal(after, torch.rand(1))


def test_nothing_is_drawn_where_nothing_is_random() -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    fused(lambda x: F.dropout(x.exp(), 0.5, training=False))(torch.ones(3))
    assert torch.equal(torch.get_rng_state(), state)


def test_numbers_depend_on_positions_only() -> None:
    """Neither on threads, nor on what is fused, on how memory lies, or on whether sizes vary."""

    def several(x: Tensor) -> tuple[Tensor, ...]:
        u = torch.rand_like(x)
        return u, (u + x).sum(1), u.T * 2, torch.softmax(F.dropout(x, 0.4), 0)

    x = torch.randn(301, 203)
    want = seeded(fused(several), x)
    torch.testing.assert_close(want[1], (want[0] + x).sum(1))
    assert torch.equal(want[2], want[0].T * 2)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert all(equal(seeded(fused(several), x), want))
    finally:
        torch.set_num_threads(threads)

    def alone(x: Tensor) -> Tensor:
        return torch.rand_like(x)

    assert torch.equal(seeded(fused(alone), x), want[0])
    assert torch.equal(seeded(fused(alone), x.T.contiguous().T), want[0])
    assert torch.equal(seeded(fused(alone), x.flatten()), want[0].flatten())
    varying = fused(alone, dynamic=True)
    assert torch.equal(seeded(varying, x[:7]), want[0][:7])
    assert torch.equal(seeded(varying, x), want[0])


@pytest.mark.parametrize("other", ["interpret", pytest.param("triton", marks=needs_triton)])
def test_all_kinds_of_kernels_draw_the_same(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    def drawn(x: Tensor) -> tuple[Tensor, ...]:
        return *noisy(x), torch.rand(5, dtype=torch.float64), torch.empty(9).exponential_()

    x = torch.rand(3, 4)
    want = seeded(fused(drawn), x)
    monkeypatch.setenv("JITPKG_DEBUG", other)
    others = fused(lambda x: drawn(x))  # the function itself is compiled
    torch.testing.assert_close(seeded(others, x), want)


# Training


def test_gradients_are_those_of_what_was_kept() -> None:
    x = (torch.rand(50, 60) + 1).requires_grad_()
    y = seeded(fused(lambda x: F.dropout(F.dropout(x, 0.3), 0.2)), x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, (y / x).detach())
    assert abs(float((y == 0).double().mean()) - (1 - 0.7 * 0.8)) < 0.05


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Dropout(0.3)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(16, 16), torch.nn.Dropout(0.5))


def test_gradients_are_the_derivatives() -> None:
    """The same seed gives the same masks, so the loss is a function of the parameters."""
    module, x = model(), torch.randn(8, 16)
    compiled = fused(module)
    seeded(compiled, x).square().sum().backward()
    weight, direction = module[0].weight, torch.randn(16, 16)  # type: ignore[index]
    assert isinstance(weight, Tensor)
    assert weight.grad is not None
    losses = []
    with torch.no_grad():
        for step in (1e-3, -2e-3):
            weight += step * direction
            losses.append(seeded(compiled, x).square().sum())
    slope = (losses[0] - losses[1]) / 2e-3
    torch.testing.assert_close((weight.grad * direction).sum(), slope, rtol=0.02, atol=0.05)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_call_draws_the_same_again(reentrant: bool) -> None:
    compiled = fused(lambda x: F.dropout(x.sin(), 0.3))
    x = torch.rand(50, 60).add_(1).requires_grad_()
    y = checkpoint(compiled, x, use_reentrant=reentrant)
    torch.rand(3)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, (y / x.sin() * x.cos()).detach())


# What is left to ATen


def test_all_of_it_is_in_kernels() -> None:
    assert calls_of(noisy, torch.ones(3, 4)) == ["randint"]  # the seed


def test_a_generator_of_one_s_own_draws_eager_s_numbers() -> None:
    generator = torch.Generator()

    def drawn() -> Tensor:
        generator.manual_seed(3)
        return torch.empty(5).uniform_(generator=generator)

    want = drawn()
    assert torch.equal(fused(drawn)(), want)


def test_what_has_no_row_is_eager_s() -> None:
    def drawn(x: Tensor) -> tuple[Tensor, ...]:
        return torch.bernoulli(x), torch.randperm(5), torch.multinomial(x, 3)

    x = torch.rand(10)
    assert all(equal(seeded(fused(drawn), x), seeded(drawn, x)))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.bernoulli_(2.0),
        lambda x: x.uniform_(2, 1),
        lambda x: x.normal_(0, -1),
        lambda x: x.exponential_(-1),
        lambda x: torch.randint(3, 3, (2,)),
    ],
)
def test_errors_are_eager_s(wrong: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(RuntimeError) as eager:
        wrong(torch.ones(3))
    with pytest.raises(RuntimeError) as ours:
        fused(wrong)(torch.ones(3))
    assert str(ours.value) == str(eager.value)


def test_a_program_without_the_option_draws_eager_s_numbers() -> None:
    x = torch.rand(4, 5)
    compiled = jitpkg.compile(noisy, fullgraph=True, backend="jitpkg")
    assert all(equal(seeded(compiled, x), seeded(noisy, x)))
