"""Frozensets as keys of dicts and as elements of sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.testing.same import Comparison, call

Program = Callable[..., Any]


class A:
    pass


TABLE: dict[Any, Any] = {frozenset([1, 2]): 2, frozenset(["a", A]): 3, ("t", frozenset()): 4}


def new_keys(x: Any) -> Any:
    table = {frozenset([1, 2]): x, frozenset([3]): 2 * x}
    table[frozenset([2, 1])] = x + 5
    return table[frozenset([1, 2])], len(table), frozenset([4]) in table, table


def existing_keys(x: Any) -> Any:
    return x * TABLE[frozenset([2, 1])] + TABLE[frozenset([A, "a"])] + TABLE["t", frozenset()]


def missing(x: Any) -> Any:
    return x + (frozenset([1]) in TABLE) + TABLE.get(frozenset([A]), 7)


def walked(x: Any) -> Any:
    return [x * value for key, value in TABLE.items() if 1 in key], list(TABLE)


def of_frozensets(x: Any) -> Any:
    parts = {frozenset([1]), frozenset([1]), frozenset([frozenset([1])])}
    return x + len(parts), frozenset([frozenset([1])]) in parts, parts


def of_tensors(x: Any) -> Any:
    y = x + 1
    table = {frozenset([x, y]): 3, frozenset([x]): 4}
    return x * table[frozenset([y, x])] + table[frozenset([x])]


def equal_but_not_same(x: Any) -> Any:
    return {frozenset([1]): x, frozenset([True]): x + 1, frozenset([1.0]): x + 2}


def of_a_list(x: Any) -> Any:
    try:
        return {frozenset([[]]): x}
    except TypeError as error:
        return x + 1, str(error)


def given(x: Any, key: Any, memory: dict[Any, Any]) -> Any:
    if key not in memory:
        memory[key] = len(memory)
    return x + memory[key]


PROGRAMS: list[Program] = [
    new_keys,
    existing_keys,
    missing,
    walked,
    of_frozensets,
    of_tensors,
    equal_but_not_same,
    of_a_list,
]


@pytest.mark.parametrize("disturb", ["", "break"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_code(program: Program, disturb: str) -> None:
    Comparison(settings={"disturb": disturb}).assert_same(program, torch.ones(3))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program: Program) -> None:
    jitpkg.compile(program, backend="eager", fullgraph=True)(torch.ones(3))


def test_what_is_given() -> None:
    keys = ([1], [1, "a"], [9], ["a", 1], [True], [], [frozenset([2])], [A])
    known: dict[Any, Any] = {frozenset([9]): 40}
    calls = [call(torch.ones(3), frozenset(key), known) for key in keys]
    Comparison().assert_same_calls(given, *calls)
    Comparison().assert_same_calls(given, *[call(torch.ones(3), frozenset(k), {}) for k in keys])


def test_another_frozenset_of_equal_elements_needs_no_entry() -> None:
    compiled = jitpkg.compile(given, backend="eager", fullgraph=True)
    found: list[jitpkg.events.Event] = []
    with jitpkg.events.STREAM.listening(found.append):
        for _ in range(3):
            compiled(torch.ones(3), frozenset([1, 2]), {})
    assert sum(isinstance(event, jitpkg.events.GraphCompiled) for event in found) == 1
