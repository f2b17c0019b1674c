"""Functions that are made in the trace, and code that asks what they are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.testing.same import Comparison

Program = Callable[..., Any]


def without_gradients(x: Any) -> Any:
    @torch.no_grad()
    def double(y: Any) -> Any:
        return y * 2

    return double(x) + x


def with_gradients(x: Any) -> Any:
    @torch.no_grad()
    def outer(y: Any) -> Any:
        @torch.enable_grad()
        def inner(z: Any) -> Any:
            return z * 3

        return inner(y) + y

    return outer(x) * x


def asked(x: Any) -> Any:
    def plain(y: Any, /, z: Any = 3, *, w: Any = 4) -> Any:
        local = y + z
        return local * w

    def generator() -> Any:
        yield x

    code = plain.__code__
    kinds = inspect.isgeneratorfunction(plain), inspect.isgeneratorfunction(generator)
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    return plain(x), kinds, counts, list(code.co_varnames), code.co_name, code.co_flags & 32


def same_code(x: Any) -> Any:
    made = [lambda y, k=k: y * k for k in range(2)]
    return made[1](x), made[0].__code__ is made[1].__code__, made[0] is made[1]


def wrapped(x: Any) -> Any:
    def double(y: Any) -> Any:
        """Twice."""
        return y * 2

    @functools.wraps(double)
    def around(*args: Any) -> Any:
        return double(*args) + 1

    return around(x), around.__wrapped__.__code__.co_name, around.__name__, around.__doc__


PROGRAMS: list[Program] = [without_gradients, with_gradients, asked, same_code, wrapped]


@pytest.mark.parametrize("disturb", ["", "break"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_code(program: Program, disturb: str) -> None:
    for x in (torch.ones(3), torch.ones(3, requires_grad=True)):
        Comparison(settings={"disturb": disturb}).assert_same(program, x)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program: Program) -> None:
    jitpkg.compile(program, backend="eager", fullgraph=True)(torch.ones(3))


def test_the_code_that_is_returned_is_the_functions_own() -> None:
    def program(x: Any) -> Any:
        def double(y: Any) -> Any:
            return y * 2

        return x + 1, double.__code__

    _, code = jitpkg.compile(program)(torch.ones(3))
    assert code.co_name == "double"
    assert code is program(torch.ones(3))[1]
