"""A function that is made anew for each call is known by its code, as long as nobody asks which it
is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.events import STREAM, Event, GraphCompiled

Given = Callable[[Any], Any] | None


def is_none(x: Any, g: Given) -> Any:
    return x * 2 if g is None else g(x) * 2


def equals_none(x: Any, g: Given) -> Any:
    return x * 2 if g == None else g(x) * 2  # noqa: E711


def true(x: Any, g: Given) -> Any:
    return g(x) * 2 if g else x * 2


def is_another_thing(x: Any, g: Any) -> Any:
    return x * 2 if g is x or g == () or g is ... else g(x) * 2


def among_others(x: Any, g: Any) -> Any:
    return x * 2 if g in (None, "none", 3) else g(x) * 2


def is_itself(x: Any, g: Any) -> Any:
    return x * 2 if g is KNOWN else g(x) * 2


def is_made_inside(x: Any, g: Any) -> Any:
    def other(y: Any) -> Any:
        return y

    return other(x) if g is other else g(x) * 2


def KNOWN(x: Any) -> Any:
    return x


def _graphs(program: Any, functions: list[Any]) -> int:
    compiled, found = jitpkg.compile(program, backend="eager", fullgraph=True), list[Event]()
    with STREAM.listening(found.append):
        for function in functions:
            x = torch.arange(3.0)
            assert torch.equal(compiled(x, function), program(x, function))
    return len([event for event in found if isinstance(event, GraphCompiled)])


def _closures() -> list[Any]:
    def made(k: Any) -> Any:
        return lambda x: x + k

    return [made(torch.tensor(float(k))) for k in range(4)]


@pytest.mark.parametrize(
    "program",
    [is_none, equals_none, true, is_another_thing, among_others, is_made_inside],
    ids=lambda program: program.__name__,
)
def test_one_entry_for_all_closures(program: Any) -> None:
    assert _graphs(program, _closures()) == 1


@pytest.mark.parametrize("program", [is_none, equals_none, true, among_others])
def test_none_is_another(program: Any) -> None:
    assert _graphs(program, [*_closures(), None, *_closures(), None]) == 2


def test_which_function_it_is_counts_where_it_is_asked() -> None:
    first, second, *_ = _closures()
    assert _graphs(is_itself, [first, KNOWN, second, KNOWN, first]) >= 2
