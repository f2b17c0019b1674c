"""Python numbers that are made of tensors: what ends a graph, and where else they are met."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

import jitpkg
from jitpkg import events
from jitpkg.testing import Comparison, call
from jitpkg.testing.programs.modes import HOW_COMPUTED
from tests.tracer.test_numbers_of_tensors import WAYS, X, Y

Program = Callable[..., Any]

# What ends the graph


def branched(x: Any) -> Any:
    n = (x * 2).sum().item()
    return x + 1 if n > 2 else x - 1


def sliced(x: Any) -> Any:
    n = (x > 0).sum().item()
    return x[:n] * 2, n


def indexed(x: Any) -> Any:
    n = (x > 0).sum().item()
    return (x + 1)[n - 1], n


def as_a_size(x: Any) -> Any:
    n = (x > 0).sum().item()
    return torch.zeros(n) + 1, x.new_ones(n, 2)


def counted_to(x: Any) -> Any:
    y = x * 2
    for _ in range((x > 0).sum().item()):
        y = y + 1
    return y


def as_a_key(x: Any) -> Any:
    found = {}
    found[(x * 2).sum().item()] = x + 1
    return found


def as_text(x: Any) -> Any:
    y = x * 2
    n = y.sum().item()
    return f"{n:.2f}", y + 1, str(n), "%d" % n, repr([n])  # noqa: UP031


def by_identity(x: Any) -> Any:
    y = x * 2
    return (y > 0).all().item() is True, y + 1


def rounded(x: Any) -> Any:
    n = (x * 2).sum().item()
    return round(n, 2), max(n, 1.0), math.sqrt(abs(n)), divmod(n, 2), n.is_integer()


def in_a_tensor(x: Any) -> Any:
    n = (x * 2).sum().item()
    return torch.tensor([n, n]), torch.full((2,), n)


def summed(x: Any) -> Any:
    return sum((x[k] * 2).item() for k in range(3)), x + 1


ENDING = [
    *(branched, sliced, indexed, as_a_size, counted_to, as_a_key, as_text, by_identity, rounded),
    *(in_a_tensor, summed),
]


@pytest.mark.parametrize("way", ["eager", "jitpkg", "breaks"])
@pytest.mark.parametrize("program", ENDING, ids=lambda program: program.__name__)
def test_what_ends_the_graph(program: Program, way: str) -> None:
    options = {**WAYS[way], "fullgraph": False}
    calls = [call(x.clone()) for x in (X, X, Y, X + 3, -X, X)]
    Comparison(**options).assert_same_calls(program, *calls)


@pytest.mark.parametrize("program", ENDING, ids=lambda program: program.__name__)
def test_the_break_says_where(program: Program) -> None:
    explained = jitpkg.explain(program, backend="eager")(X)
    first = explained.break_reasons[0]
    expected = ("B103", "") if program is branched else ("B104", "Tensor.item")
    assert (first.reason.code, first.detail) == expected


# Elsewhere


def test_objects_and_globals_hold_them() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.total, self.count, self.last = 0.0, 0, None
            self.seen: list[Any] = []

        def forward(self, x: Any) -> Any:
            y = self.linear(x)
            self.last = y.max().item()
            self.total += self.last
            self.count += 1
            self.seen.append(self.last)
            return y, self.total / self.count

    torch.manual_seed(0)
    for backend in ("eager", "jitpkg"):
        comparison = Comparison(backend=backend, ignore=HOW_COMPUTED, relative=1e-5)
        comparison.assert_same_calls(Model(), *[call(X * k) for k in range(1, 6)])


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_whole_steps(backend: str) -> None:
    def losses(compiles: Any) -> list[Any]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return {"loss": loss.item(), "norm": norm.item()}

        compiled = compiles(step)
        return [compiled(torch.randn(5, 4)) for _ in range(6)]

    wanted = losses(lambda step: step)
    found = losses(lambda step: jitpkg.compile(step, backend=backend, fullgraph=True))
    for a, b in zip(wanted, found, strict=True):
        assert b == (a if backend == "eager" else pytest.approx(a, rel=1e-5))


def test_one_graph_with_kernels() -> None:
    def program(x: Any) -> Any:
        y = (x * weight).exp()
        loss = y.sum()
        return loss, loss.item(), y.mean().item()

    weight = torch.ones(3, requires_grad=True)
    heard: list[events.Event] = []
    with events.STREAM.listening(heard.append):
        loss, number, _ = jitpkg.compile(program, backend="jitpkg", fullgraph=True)(X)
    assert number == loss.item()
    assert sum(isinstance(e, events.Fused) for e in heard) == 2  # forward and backward
    assert not [e for e in heard if isinstance(e, events.Declined)]


def test_floats_of_tensors_are_compiled_once() -> None:
    def program(x: Any) -> Any:
        y = (x * 2).abs()
        s = y.sum().item()
        return (y * s).sqrt() + 1, s

    compiled = jitpkg.compile(program, backend="jitpkg", fullgraph=True)
    heard: list[events.Event] = []
    with events.STREAM.listening(heard.append):
        for k in range(12):
            y, s = compiled(X / (k + 1))
            torch.testing.assert_close((y, s), program(X / (k + 1)))
    assert sum(isinstance(e, events.Fused) for e in heard) == 2
    assert not [e for e in heard if isinstance(e, events.Declined)]


def test_nothing_is_gained_by_reading_alone() -> None:
    heard: list[events.Event] = []
    with events.STREAM.listening(heard.append):
        compiled = jitpkg.compile(lambda x, y: x.item() + y.item() * 2)
        assert [compiled(X[:1], Y[:1]) for _ in range(3)] == [2.5] * 3
    assert not [e for e in heard if isinstance(e, events.GraphCompiled)]


def in_a_transform(x: Any) -> Any:
    def inner(v: Any) -> Any:
        return (v * v).sum() * v.detach().sum().item()

    return torch.func.grad(inner)(x)


def captured_by_a_transform(x: Any) -> Any:
    n = (x * 2).sum().item()
    return torch.vmap(lambda v: v * n)(x), n


def in_a_checkpoint(x: Any) -> Any:
    def inner(v: Any) -> Any:
        return v.sin() * v.sum().item()

    return torch.utils.checkpoint.checkpoint(inner, x * 2, use_reentrant=False)


def captured_by_a_checkpoint(x: Any) -> Any:
    n = (x * 2).sum().item()
    return torch.utils.checkpoint.checkpoint(lambda v: v.sin() * n, x * 2, use_reentrant=False)


def out_of_a_checkpoint(x: Any) -> Any:
    def inner(v: Any) -> Any:
        return v.sin(), v.sum().item()

    y, n = torch.utils.checkpoint.checkpoint(inner, x * 2, use_reentrant=False)
    return y * 2, n


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.factor = x.sum().item()
        return x * ctx.factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        return grad * ctx.factor


def in_an_autograd_function(x: Any) -> Any:
    return Scaled.apply(x * 2) + 1


def in_a_generator(x: Any) -> Any:
    def parts() -> Any:
        for k in range(3):
            yield x[k].item() * 2

    return list(parts()), x + 1


INSIDE = [
    *(in_a_transform, captured_by_a_transform, in_a_checkpoint, captured_by_a_checkpoint),
    *(out_of_a_checkpoint, in_an_autograd_function, in_a_generator),
]


@pytest.mark.parametrize("way", ["eager", "jitpkg", "breaks"])
@pytest.mark.parametrize("program", INSIDE, ids=lambda program: program.__name__)
def test_inside_of_parts_of_graphs(program: Program, way: str) -> None:
    def trained(x: Any) -> Any:
        return program(x * weight)

    weight = torch.tensor([1.0, 1.5, 0.5], requires_grad=True)
    options = {**WAYS[way], "fullgraph": False}
    Comparison(**options).assert_same_calls(trained, *[call(x) for x in (X, X, Y)])
