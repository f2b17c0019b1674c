"""`jitpkg.stats`: what is compiled now, in numbers and words."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import jitpkg
from jitpkg import config
from jitpkg.errors import InvalidArgument


@pytest.fixture(autouse=True)
def _nothing_else() -> Iterator[None]:
    jitpkg.reset()
    with config.patch(count_calls=True, backend="jitpkg"):
        yield


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up(x).relu()
        if hidden.shape[0] == 1:
            print("one")
        made: Tensor = self.down(hidden)
        return made


def test_of_a_function() -> None:
    @jitpkg.jit
    def f(x: Tensor) -> Tensor:
        return x.sin() + 1

    assert str(jitpkg.stats(f)) == "Nothing is compiled now."
    for _ in range(3):
        f(torch.ones(3))
    f(torch.ones(3, dtype=torch.float64))
    found = jitpkg.stats(f)
    (function,) = found.functions
    assert function.name.endswith("f")
    assert function.where.startswith("test_statistics.py:")
    first, second = function.entries
    assert (first.op_count, first.calls, second.calls) == (2, 3, 1)
    assert first.assumptions == ("x: float32[3]",)
    assert set(first.assumptions) < {*first.assumptions, *first.guards}
    assert "def entry" in first.source
    assert found.calls == 4
    assert found.graph_count == 2
    assert found.graph_break_count == 0
    assert "2 graphs" in repr(found)
    assert "#1: 2 ops, ran 1 time, compiled in" in str(found)


def test_seconds_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase, and together what the compilation took from begin to end."""
    took: list[float] = []

    def note(event: Any) -> None:
        if isinstance(event, jitpkg.events.CompileEnded):
            took.append(event.seconds)

    model = Model()
    compiled = jitpkg.compile(model)
    with jitpkg.events.STREAM.listening(note):
        compiled(torch.ones(3, 4))
    found = jitpkg.stats(model)
    assert set(found.seconds) == {"tracing", "backend", "code", "other"}
    assert all(each > 0 for each in found.seconds.values())
    assert sum(found.seconds.values()) == pytest.approx(sum(took), rel=0.05)


def test_of_a_model_with_a_graph_break(capsys: pytest.CaptureFixture[str]) -> None:
    model = Model()
    compiled = jitpkg.compile(model)
    for n in (3, 1, 1):
        compiled(torch.ones(n, 4))
    found = jitpkg.stats(model)
    assert found == jitpkg.stats(compiled) == jitpkg.stats(Model)
    assert [each.name for each in found.functions] == ["Model", "Model.forward"]
    (graph_break,) = found.functions[0].graph_breaks
    assert graph_break.reason.code == "B106"
    assert found.graph_break_count == 1
    text = str(found)
    assert "ends in a graph break at" in text
    assert "passed 2" in text
    assert "Model: 2 entries, 1 graph break" in text


@pytest.mark.parametrize("in_place", [False, True])
def test_other_models_are_left_out(in_place: bool) -> None:
    class Other(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.exp()

    model, other = Model(), Other()
    compiled = [(jitpkg.jit if in_place else jitpkg.compile)(each) for each in (model, other)]
    for each in compiled:
        each(torch.ones(2, 4))
    assert [each.name for each in jitpkg.stats(model).functions] == ["Model"]
    assert jitpkg.stats(other).functions[0].name.endswith("Other")
    assert len(jitpkg.stats().functions) == 2
    assert jitpkg.stats(nn.Linear(2, 2)).functions == ()


def test_of_methods_and_objects() -> None:
    class Thing:
        def __call__(self, x: Tensor) -> Tensor:
            return self.method(x) + 1

        def method(self, x: Tensor) -> Tensor:
            return x.sin()

    thing = Thing()
    compiled = jitpkg.compile(thing)
    compiled(torch.ones(2))
    assert jitpkg.stats(compiled).graph_count == jitpkg.stats(thing).graph_count == 1
    method = jitpkg.compile(thing.method)
    method(torch.ones(2))
    assert jitpkg.stats(thing.method).graph_count == 1
    assert jitpkg.stats().graph_count == 2


def test_calls_that_are_not_counted() -> None:
    with config.patch(count_calls=False):
        f = jitpkg.compile(lambda x: x * 2)
        f(torch.ones(3))
        found = jitpkg.stats()
    assert found.calls is None
    assert found.entries[0].calls is None
    assert "ran" not in str(found)


def test_in_a_notebook() -> None:
    f = jitpkg.compile(lambda x: x * 2)
    f(torch.ones(3))
    page = jitpkg.stats()._repr_html_()
    assert "<details><summary><code>" in page
    assert "&lt;lambda&gt;" in page
    assert "<lambda>" not in page


def test_nothing_that_is_dropped_is_shown() -> None:
    f = jitpkg.compile(lambda x: x * 2)
    f(torch.ones(3))
    assert jitpkg.stats().functions
    jitpkg.reset()
    assert not jitpkg.stats().functions
    f(torch.ones(3))
    assert jitpkg.stats().functions
    del f
    gc.collect()
    assert not jitpkg.stats().functions


@pytest.mark.parametrize("given", [3, "model", [1]])
def test_what_it_is_not_given(given: object) -> None:
    with pytest.raises(InvalidArgument, match="a function, method, class or module"):
        jitpkg.stats(given)
