"""A graph that runs aside: nobody sees it, and where somebody might, it does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import api
from jitpkg.comparison.differences import differences
from jitpkg.comparison.facts import State
from jitpkg.rewriter import entry as entries
from jitpkg.rewriter.aside import Aside
from jitpkg.rewriter.gains import Meter
from jitpkg.rewriter.ledger import Ledger
from jitpkg.tracer.trace import Trace

BASE = torch.arange(12.0)
LEAF = torch.tensor([1.0, 2.0], requires_grad=True)
NORM = torch.nn.BatchNorm1d(2)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Trace, Any]]]:
    """What is compiled."""
    found: list[tuple[Trace, Any]] = []

    def noted(*arguments: Any) -> Any:
        found.append((arguments[1], arguments[2]))
        return Meter(*arguments)

    monkeypatch.setattr(entries, "Meter", noted)
    monkeypatch.setattr(api._COMPILED, "ledger", Ledger())
    with jitpkg.config.patch(never_worse=True):
        yield found


def written(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


def written_through_a_view(x: torch.Tensor) -> torch.Tensor:
    x[1:].mul_(3)
    return x.sum()


def written_beside_its_base(x: torch.Tensor) -> torch.Tensor:
    x.zero_()
    return BASE + 1


def drawn(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x) + torch.rand(2)


def differentiated(x: torch.Tensor) -> torch.Tensor:
    return (x * LEAF).exp()


def normalised(x: torch.Tensor) -> torch.Tensor:
    return NORM(x.reshape(-1, 2)).sum()


def without_gradients(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x * LEAF
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = torch.outer(y, y) @ torch.outer(y, y)
    return z.float().sum() * LEAF


def gone_on_without_gradients(x: torch.Tensor) -> torch.Tensor:
    torch.set_grad_enabled(False)
    return x * LEAF


SEEN = [
    (written, lambda: torch.ones(3)),
    (written, lambda: torch.ones(2, 3).t()),
    (written_through_a_view, lambda: BASE[2:7]),
    (written_beside_its_base, lambda: BASE[3:5]),
    (drawn, lambda: torch.ones(2)),
    (differentiated, lambda: torch.ones(2)),
    (differentiated, lambda: LEAF * 3),
    (normalised, lambda: torch.arange(6.0)),
    (without_gradients, lambda: torch.ones(2)),
    (gone_on_without_gradients, lambda: torch.ones(2)),
]


def surroundings(*more: object) -> State:
    state = State()
    for name, value in (("base", BASE), ("leaf", LEAF), ("norm", NORM), ("arguments", more)):
        state.add(name, value)
    state.add("random", torch.random.get_rng_state())
    state.add("modes", [torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")])
    return state


@pytest.mark.parametrize(("function", "argument"), SEEN)
def test_nobody_sees_it(
    traces: list[tuple[Trace, Any]],
    function: Callable[[torch.Tensor], torch.Tensor],
    argument: Callable[[], torch.Tensor],
) -> None:
    x = argument()
    jitpkg.compile(function)(x)
    torch.set_grad_enabled(True)
    trace, module = traces[0]
    aside = Aside.of(trace, module)
    assert aside is not None
    fired: list[object] = []
    handle = LEAF.register_hook(fired.append)
    inputs = [i.example for i in trace.inputs]
    before = surroundings(x, inputs)
    took = aside.timed([module.forward, module.forward], inputs, time.perf_counter, 60.0, 3)
    after = surroundings(x, inputs)
    handle.remove()
    assert took is not None
    assert [len(each) for each in took] == [3, 3]
    assert not differences(before.facts, after.facts)
    assert fired == []
    assert LEAF.grad is None


@contextmanager
def gradients_in_inference_mode() -> Iterator[None]:
    with torch.inference_mode(), torch.enable_grad():
        yield


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, gradients_in_inference_mode])
@pytest.mark.parametrize(("function", "argument"), SEEN)
def test_in_every_grad_mode(
    traces: list[tuple[Trace, Any]],
    function: Callable[[torch.Tensor], torch.Tensor],
    argument: Callable[[], torch.Tensor],
    mode: Callable[[], AbstractContextManager[object]],
) -> None:
    """Parameters ask for gradients where none are computed, too."""
    x = argument()
    with mode():
        jitpkg.compile(function)(x)
    trace, module = traces[0]
    aside = Aside.of(trace, module)
    assert aside is not None
    inputs = [i.example for i in trace.inputs]
    before = surroundings(x, inputs)
    with mode():
        took = aside.timed([module.forward, module.forward], inputs, time.perf_counter, 60.0, 3)
    assert took is not None
    assert [len(each) for each in took] == [3, 3]
    assert not differences(before.facts, surroundings(x, inputs).facts)


@jitpkg.allow_in_graph
def of_the_program(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def calls_the_program(x: torch.Tensor) -> torch.Tensor:
    return of_the_program(x) + 1


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2


jitpkg.allow_in_graph(Doubled)


def calls_a_function_of_autograd(x: torch.Tensor) -> torch.Tensor:
    return Doubled.apply(x) + 1  # type: ignore[no-any-return]


@pytest.mark.parametrize("function", [calls_the_program, calls_a_function_of_autograd])
def test_what_others_might_see_does_not_run(
    traces: list[tuple[Trace, Any]], function: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    jitpkg.compile(function)(torch.ones(2))
    assert Aside.of(*traces[0]) is None


def test_a_graph_that_warns_does_not_run(traces: list[tuple[Trace, Any]]) -> None:
    jitpkg.compile(written)(torch.ones(2))
    trace, module = traces[0]
    assert Aside.of(replace(trace, repeats=False), module) is None


def test_large_inputs_are_not_taken_twice(traces: list[tuple[Trace, Any]]) -> None:
    jitpkg.compile(written)(torch.ones(1))
    aside = Aside.of(*traces[0])
    assert aside is not None
    large = torch.empty(()).expand(2**29)
    assert aside.timed([len], [large], time.perf_counter, 1.0, 1) is None


def test_rounds_end_with_the_budget(traces: list[tuple[Trace, Any]]) -> None:
    jitpkg.compile(written)(torch.ones(1))
    trace, module = traces[0]
    aside = Aside.of(trace, module)
    assert aside is not None
    ticks = iter(range(1000))
    took = aside.timed([module.forward], [torch.ones(1)], lambda: next(ticks), 5.0, 100)
    assert took == [[1, 1]]


def test_what_fails_aside_leaves_things_as_they_were(traces: list[tuple[Trace, Any]]) -> None:
    jitpkg.compile(drawn)(torch.ones(2))
    trace, module = traces[0]
    aside = Aside.of(trace, module)
    assert aside is not None

    def fails(*_: Any) -> None:
        torch.rand(3)
        raise ValueError("here")

    before = torch.random.get_rng_state()
    inputs = [i.example for i in trace.inputs]
    with pytest.raises(ValueError, match="here"):
        aside.timed([fails], inputs, time.perf_counter, 1.0, 1)
    assert torch.equal(torch.random.get_rng_state(), before)
