"""Identity of tuples: there is one empty one."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
from torch import Tensor, ones

from jitpkg.testing import Comparison, call

Nothing = namedtuple("Nothing", [])


def made(x: Tensor, *rest: Any) -> Any:
    empty = ()
    return (
        x + 1,
        tuple(rest[:0]) is rest,
        rest is empty,
        tuple(a for a in rest) is rest,
        empty is rest[1:],
        (lambda *a: a)() is tuple(list(rest)[:0]),
        Nothing() is empty,
    )


def given(x: Tensor, *rest: Any) -> Any:
    return x + 1, rest[0] is rest[1:], rest[0] is tuple(a for a in rest[0]), rest[0] is Nothing()


@pytest.mark.parametrize("rest", [(), (1,), (1, 2)])
def test_of_tuples_that_are_made(rest: tuple[Any, ...]) -> None:
    Comparison(backend="eager").assert_same_calls(made, call(ones(2), *rest), call(ones(2), *rest))


@pytest.mark.parametrize("rest", [(), (1,), Nothing()])
def test_of_tuples_that_are_given(rest: Any) -> None:
    Comparison(backend="eager").assert_same_calls(given, call(ones(2), rest), call(ones(2), rest))
