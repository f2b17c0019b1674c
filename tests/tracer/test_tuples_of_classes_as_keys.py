"""Dicts of which keys are tuples with classes or functions in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributions import Normal, kl_divergence

import jitpkg
from jitpkg.testing.same import Comparison, call

Program = Callable[..., Any]


class A:
    pass


class B(A):
    pass


def walk() -> None:
    pass


TABLE: dict[Any, Any] = {(A, A): 2, (A, B): 3, ("a", int): 4, ((A, 1), walk): 5, (1, 2): 6}


def found(x: Any) -> Any:
    return x * TABLE[A, B] + TABLE["a", int] + TABLE[(A, 1), walk] + TABLE[1, 2]


def missing(x: Any) -> Any:
    return x + ((B, A) in TABLE) + TABLE.get((B, B), 7)


def walked(x: Any) -> Any:
    return [x * value for key, value in TABLE.items() if key[0] is A], list(TABLE)


def stored(x: Any) -> Any:
    memory: dict[Any, Any] = {}
    memory[type(x), A] = x + 1
    return memory[torch.Tensor, A], memory


def remembered(x: Any, memory: dict[Any, Any]) -> Any:
    key = A, B
    if key not in memory:
        memory[key] = len(memory)
    return x + memory[key]


PROGRAMS: list[Program] = [found, missing, walked, stored]


@pytest.mark.parametrize("disturb", ["", "break"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_code(program: Program, disturb: str) -> None:
    Comparison(settings={"disturb": disturb}).assert_same(program, torch.ones(3))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program: Program) -> None:
    jitpkg.compile(program, backend="eager", fullgraph=True)(torch.ones(3))


def test_what_is_remembered() -> None:
    memory: dict[Any, Any] = {"first": 1}
    Comparison().assert_same_calls(
        remembered,
        *[call(torch.ones(3), memory), call(torch.ones(3), {}), call(torch.ones(2), memory)],
    )


def test_a_table_that_changes() -> None:
    table: dict[Any, Any] = {(A, B): 1}

    def program(x: Any) -> Any:
        return x + table[A, B]

    compiled = jitpkg.compile(program, backend="eager")
    x = torch.zeros(1)
    for value in (1, 2, 3):
        table[A, B] = value
        assert compiled(x).item() == value
    del table[A, B]
    with pytest.raises(KeyError):
        compiled(x)
    table[A, B] = 4
    assert compiled(x).item() == 4


def test_divergences() -> None:
    def program(x: Any) -> Any:
        return kl_divergence(Normal(x, x.exp()), Normal(x * 0, x.exp() + 1))

    Comparison().assert_same(program, torch.ones(3))
    compiled = jitpkg.compile(program, backend="eager", fullgraph=True)
    compiled(torch.ones(3))
    compiled(torch.ones(3))
