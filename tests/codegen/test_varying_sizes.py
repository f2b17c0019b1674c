"""Sizes that vary, through AOTAutograd: one compilation for many, and right for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg.codegen.autograd.aot import functional, varying
from jitpkg.codegen.autograd.partial import Halves
from jitpkg.testing import Comparison, call
from tests.codegen.counted import compilations
from tests.torch_versions import RELEASE

HOW = ["grad_fn", "version", "view", "idle strides"]
SAME = Comparison(backend="aot_eager", ignore=HOW, relative=1e-4, absolute=1e-5)


def mlp(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x @ w).relu().sum(1) * x.shape[0]


def turned(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x.t().reshape(-1)
    return y[1:], y.view(x.shape[1], x.shape[0]).cumsum(0), x.new_zeros(x.shape[0] * 2)


def joined(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = torch.cat([x, x[:-1]])
    return y, y.split(x.shape[0]), torch.arange(x.shape[0]) + 1


def by_size(x: torch.Tensor, w: torch.Tensor) -> Any:
    return x * 2 if x.shape[0] < 6 else x + w.sum()


def part(x: torch.Tensor, w: torch.Tensor) -> Any:
    return x[: x.shape[0] // 2] * 3, x.sum(0), x.view(-1)


def written(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x * 1
    y[0] = 7
    y.add_(x.shape[0])
    return y, y.t()


def several(x: torch.Tensor, w: torch.Tensor) -> Any:
    """Only some of the results are used in turn."""
    return x.sqrt(), x @ w, x.detach() * 2


@pytest.mark.parametrize("f", [mlp, turned, joined, by_size, part, written, several])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_many_sizes_are_one_compilation(
    f: Callable[..., Any], requires_grad: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)

    def arguments(n: int) -> Any:
        x = torch.rand(n, 3) + 0.5
        return call(x.requires_grad_(requires_grad), torch.rand(3, 2, requires_grad=requires_grad))

    with compilations(monkeypatch) as made:
        SAME.assert_same_calls(f, *map(arguments, [4, 5, 8, 3, 7, 2, 9, 1, 0, 6, 5]))
    # Of some, one result is made of another: these are two graphs. And n - 1, n // 2 are 1.
    stages = 2 if requires_grad and f in (joined, written) else 1
    asks = RELEASE >= (2, 15) and f is written  # AOTAutograd's views of a write compare sizes there
    twice = f in (by_size, joined, part) or (asks and not requires_grad)
    assert made == [True] * stages * (2 if twice else 1)


@pytest.mark.parametrize("n", [(3, 2, 5, 7, -4, 0, 1, 9), (0, 3, 4, 5, 6)])
def test_numbers(n: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        return x * n, x.sum() + n * n

    with compilations(monkeypatch) as made:
        calls = (call(torch.ones(3, requires_grad=True), k) for k in n)
        SAME.assert_same_calls(f, *calls)
    assert made == [True]


def test_large_numbers_are_no_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        return x * n, x + n * n

    numbers = (3, 4, 5, 2**40, 6, 2**31, -(2**62), 2**64)
    with compilations(monkeypatch) as made:
        SAME.assert_same_calls(f, *(call(torch.ones(3, dtype=torch.double), n) for n in numbers))
    assert 1 < len(made) < len(numbers)


def test_a_backend_that_fails_for_a_later_size(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    through = functional._functional

    def failing(backend: Any, compile_: Any, gm: Any, inputs: Any, fakes: Any) -> Any:
        asked.append(len(inputs[0]))
        if fakes.varies or len(inputs[0]) == 7:
            raise NotImplementedError
        return through(backend, compile_, gm, inputs, fakes)

    monkeypatch.setattr(functional, "_functional", failing)
    sizes = [4, 5, 6, 7, 8, 6, 5]
    SAME.assert_same_calls(mlp, *(call(torch.ones(n, 3), torch.ones(3, 2)) for n in sizes))
    assert asked == [4, 5, 5, 6, 7]


RATES = [0.5, 0.25, 1.0, 2.0, -0.0, 0.0, float("inf"), 3.0, 4.0, 5.0, 6.0, 7.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, rate: x * rate + rate - x / rate,
        lambda x, rate: rate * x - (rate - x) + x.sum(),
        lambda x, rate: x.clone().mul_(rate).sub_(rate).unsqueeze(0),
        lambda x, rate: rate / x + torch.add(x, x, alpha=rate),
        lambda x, rate: x.clone().addcmul_(x, x, value=rate).addcdiv(x, x, value=rate),
        lambda x, rate: torch._foreach_mul([x, x.sum()], rate)[1],
    ],
)
def test_a_float_beside_floats_is_compiled_once(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with compilations(monkeypatch) as made:
        SAME.assert_same_calls(f, *(call(torch.ones(3), rate) for rate in RATES))
    assert not made  # it is a tensor without dims: nothing of the graph varies


@pytest.mark.parametrize("f", [lambda x, rate: x.clamp(max=rate), lambda x, rate: x.lerp(x, rate)])
def test_other_floats_are_compiled_for_each_value(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with compilations(monkeypatch) as made:
        SAME.assert_same_calls(f, *(call(torch.ones(3), rate) for rate in RATES))
    assert len(made) == varying.MOST


def test_a_float_beside_integers_makes_floats() -> None:
    for x in (torch.arange(3), torch.tensor(2.0), torch.tensor([True, False])):
        SAME.assert_same_calls(
            lambda x, rate: (x * rate, x + rate), *(call(x, rate) for rate in RATES)
        )


def test_what_torch_relies_on_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compilation that holds for some sizes only is used for those."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum() + y

    looked: list[int] = []
    through = functional._functional

    def looking(backend: Any, compile_: Any, gm: Any, inputs: Any, fakes: Any) -> Any:
        if fakes.varies:
            size = fakes.values[0].shape[0]
            looked.append(int(bool(size >= 6)))  # a guard of ShapeEnv
        return through(backend, compile_, gm, inputs, fakes)

    monkeypatch.setattr(functional, "_functional", looking)
    sizes = [4, 5, 7, 3, 8, 2, 9]
    with compilations(monkeypatch) as made:
        SAME.assert_same_calls(f, *(call(torch.ones(n), torch.ones(2)) for n in sizes))
    assert looked == [0, 1]
    assert made == [True, True]


def test_other_dims_come_to_vary() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[:, None] * y

    sizes = [(3, 4), (5, 4), (6, 7), (5, 5), (7, 2), (2, 1), (8, 8)]
    SAME.assert_same_calls(f, *(call(torch.rand(a), torch.rand(b)) for a, b in sizes))


@pytest.mark.parametrize("fails", [False, True])
def test_gradients_of_some_results(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nothing led to has none, for each size, also where no part can be compiled."""

    def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x @ w
        return y.relu(), x.sqrt(), torch.cat([y, x.exp()], 1).view(-1), w * 2

    runs, failed = Halves.runs, []

    def whole_only(self: Any, aten: Any, compile_: Any) -> Any:
        def compile_whole(part: Any) -> Any:
            if part is aten:
                return compile_(part)
            failed.append(part)
            raise NotImplementedError

        return runs(self, aten, compile_whole)

    if fails:
        monkeypatch.setattr(Halves, "runs", whole_only)
    compiled = jitpkg.compile(f, backend="aot_eager")
    for n in (4, 5, 7, 2):
        for used in ((1,), (0,), (2, 3), (0, 1), (0, 1, 2, 3)):
            x, w = torch.rand(n, 3, requires_grad=True), torch.rand(3, 2, requires_grad=True)
            found = []
            for function in (f, compiled):
                x.grad = w.grad = None
                results = function(x, w)
                sum(results[k].sum() for k in used).backward()  # type: ignore[union-attr]
                found.append([x.grad, w.grad])
            torch.testing.assert_close(found[1], found[0])
    assert bool(failed) == fails


def test_layouts_and_offsets() -> None:
    whole = torch.arange(40.0).view(10, 4)

    def f(x: torch.Tensor) -> Any:
        return x[1:], x * 2, x.reshape(-1)

    views = [whole[:3], whole[2:6], whole[1:3], whole[5:], whole.t()[:3], whole[::2], whole[3:8]]
    SAME.assert_same_calls(f, *map(call, views))


def test_where_symbols_do_not_do_it_is_compiled_for_each_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: Any) -> Any:
        raise NotImplementedError

    monkeypatch.setattr(varying.Varying, "_symbolic", refuse)
    with compilations(monkeypatch) as made:
        calls = (call(torch.ones(n, 3), torch.ones(3, 2)) for n in range(2, 14))
        SAME.assert_same_calls(mlp, *calls)
    assert made == [False] * varying.MOST


def test_training_with_batches_of_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    def trained(compile_: Callable[[nn.Module], Callable[..., Any]]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(3, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 1)
        )
        step = compile_(net)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for n in (4, 7, 5, 9, 3, 6):
            optimizer.zero_grad()
            step(torch.rand(n, 3)).square().mean().backward()
            optimizer.step()
        return [*net.state_dict().values(), torch.rand(2)]

    with compilations(monkeypatch) as made:
        found = trained(lambda net: jitpkg.compile(net, backend="aot_eager"))
    for a, b in zip(trained(lambda net: net), found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
    assert made == [True]
