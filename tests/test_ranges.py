"""Graphs and kernels have names in what torch's profilers record."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

import jitpkg
from jitpkg import config, ranges
from tests.native.support import needs_llvm

X = torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.fixture(autouse=True)
def _kernels() -> Iterator[None]:
    ranges._FUNCTIONS.put_back()
    with config.patch(backend="jitpkg"):
        yield


def recorded(call: Callable[[], object]) -> Counter[str]:
    """The names of our ranges, and how often each was recorded."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        call()
    names = (event.name for event in found.events() or ())
    return Counter(name for name in names if name.startswith("jitpkg"))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear(x).tanh().softmax(-1)
        return made


@needs_llvm
def test_forward_and_backward() -> None:
    model = jitpkg.compile(Net())

    def step() -> None:
        model(X).square().sum().backward()

    step()
    found = recorded(step)
    assert found["jitpkg Net#0"] == 1
    kernels = {name for name in found if "::" in name}
    assert "jitpkg::tanh_softmax" in kernels
    assert any("softmax_backward" in name for name in kernels)
    assert recorded(step) == found


def test_graphs_of_other_backends_tell_their_place() -> None:
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    compiled = jitpkg.compile(doubled, backend="eager")
    compiled(X)
    (name,) = recorded(lambda: compiled(X))
    line = doubled.__code__.co_firstlineno
    assert name == f"jitpkg {doubled.__qualname__}#0 (test_ranges.py:{line})"


@needs_llvm
def test_what_is_compiled_under_a_profiler() -> None:
    compiled = jitpkg.compile(lambda x: x.exp() + 1, name="f")
    found = recorded(lambda: [compiled(X) for _ in range(3)])
    assert found["jitpkg f#0"] == 3
    assert found["jitpkg::exp_add"] in (2, 3)


@needs_llvm
def test_kernels_are_called_without_a_detour_again() -> None:
    compiled = jitpkg.compile(lambda x: x.cos() - 1, name="g")
    compiled(X)
    functions = ranges._FUNCTIONS

    def held() -> list[object]:
        every = [*functions._watched, *functions._others]
        return [value for function in every for value in function.__defaults__ or ()]

    assert not any(isinstance(value, ranges._Watched) for value in held())
    before = recorded(lambda: compiled(X))
    assert before["jitpkg::cos_sub"] == 1
    assert any(isinstance(value, ranges._Watched) for value in held())
    torch.testing.assert_close(compiled(X), X.cos() - 1)
    assert not any(isinstance(value, ranges._Watched) for value in held())
    assert recorded(lambda: compiled(X)) == before


@needs_llvm
def test_ranges_of_the_program_stay_around_them() -> None:
    compiled = jitpkg.compile(Net())
    compiled(X)
    with profile(activities=[ProfilerActivity.CPU]) as found, record_function("mine"):
        compiled(X)
    events = {event.name: event for event in found.events() or ()}
    assert events["jitpkg Net#0"].cpu_parent is events["mine"]
    kernel = events["jitpkg::tanh_softmax"]
    parents = []
    while (kernel := kernel.cpu_parent) is not None:
        parents.append(kernel.name)
    assert parents[-2:] == ["jitpkg Net#0", "mine"]


def test_a_graph_that_raises() -> None:
    compiled = jitpkg.compile(lambda x, y: (x.sin() @ y) + 1, backend="eager")
    compiled(X, X.T)

    def fails() -> None:
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            compiled(X, X)

    recorded(fails)
    torch.testing.assert_close(compiled(X, X.T), (X.sin() @ X.T) + 1)


@needs_llvm
def test_threads_that_call_while_profilers_start_and_end() -> None:
    compiled = jitpkg.compile(lambda x: x.exp().sum(-1) * 2)
    wanted = X.exp().sum(-1) * 2
    compiled(X)
    ends = threading.Event()
    failures: list[Any] = []

    def calls() -> None:
        while not ends.is_set():
            if not torch.allclose(compiled(X), wanted):
                failures.append("differs")

    threads = [threading.Thread(target=calls) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        recorded(lambda: [compiled(X) for _ in range(5)])
    ends.set()
    for thread in threads:
        thread.join()
    assert not failures


@needs_llvm
def test_kernels_are_timed() -> None:
    before = jitpkg.compile(lambda x: x.exp() * 3, name="before")
    before(X)
    functions = ranges._FUNCTIONS
    try:
        times = ranges.time_kernels()
        after = jitpkg.compile(lambda x: (x.exp() - 3, x.sum()), name="after")
        for _ in range(3):
            torch.testing.assert_close(before(X), X.exp() * 3)
            torch.testing.assert_close(after(X), (X.exp() - 3, X.sum()))
        found = recorded(lambda: (before(X), after(X)))
        assert found["jitpkg::exp_mul"] == 1
        assert ranges.time_kernels() is times
    finally:
        functions.times = None
        functions.put_back()
    by_graph = {graph for graph, _ in times}
    assert {"before_0", "after_0"} <= by_graph
    (exp,) = (each for (graph, name), each in times.items() if name == "exp_mul")
    assert exp.calls == 4
    assert 0 < exp.seconds < 10
    before(X)
    assert exp.calls == 4


def test_kernels_that_cannot_be_timed_stop_no_other() -> None:
    def graph(x: int, double_: Any = lambda x: 2 * x) -> Any:
        return double_(x)

    def other(x: int, triple_: Any = lambda x: 3 * x) -> Any:
        return triple_(x)

    assert graph.__defaults__ is not None
    assert other.__defaults__ is not None
    try:
        times = ranges.time_kernels()
        ranges.calls_kernels(graph, graph.__defaults__)
        ranges.calls_kernels(other, other.__defaults__, can_be_timed=False)
        assert [graph(1), other(1), graph(1), other(1)] == [2, 3, 2, 3]
        assert [each.calls for each in times.values() if each.calls] == [2]
    finally:
        ranges._FUNCTIONS.times = None
        ranges._FUNCTIONS.put_back()
    held = [*graph.__defaults__, *other.__defaults__]
    assert not any(isinstance(value, ranges._Watched) for value in held)


def test_generated_code_says_so() -> None:
    compiled = jitpkg.compile(lambda x: x + 1, backend="eager", name="h")
    compiled(X)
    (function,) = jitpkg.stats(compiled).functions
    assert "if profiler['_is_profiler_enabled']: " in function.entries[0].source
