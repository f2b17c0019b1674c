"""Functions that raise for some numbers, whether or not what they give is used."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.testing import Comparison, call
from jitpkg.tracer import numbers

X = torch.ones(2)
OPERATORS = {
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "d": lambda a, b: "%d" % a,  # noqa: UP031
    "c": lambda a, b: f"{a:c}",
}
FUNCTIONS = sorted(
    (f for f in numbers.HANDLED if f not in (min, max) and f not in vars(operator).values()),
    key=lambda f: str(f.__name__),
)
TWO = {math.pow, math.fmod, math.atan2, math.hypot, math.copysign, math.gcd}
WHOLE = {math.isqrt, math.gcd}


def _applied(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    if function in TWO:
        return lambda a, b: function(a, b)
    return lambda a, b: function(a)


def _unused(x: torch.Tensor, a: Any, b: Any, compute: Callable[[Any, Any], Any]) -> Any:
    compute(a, b)
    return x + 1


def _caught(x: torch.Tensor, a: Any, b: Any, compute: Callable[[Any, Any], Any]) -> Any:
    try:
        found = compute(a, b)
    except (ArithmeticError, ValueError) as error:
        return x - 1, str(error)
    return x + 1, bool(x.shape[0] == 0 and found)


CASES = {**OPERATORS, **{f.__name__: _applied(f) for f in FUNCTIONS}}
FLOATS = (
    (1.5, 2.0),
    (2.5, 3.0),
    (0.0, 0.0),
    (-1.0, 0.5),
    (math.inf, 1.0),
    (1e300, 1e10),
    (-3.0, -1.0),
)
INTS = ((2, 3), (5, 4), (0, 0), (-1, -1), (3, 0), (-4, 5))


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_raises_for_some_numbers(name: str) -> None:
    for values in (FLOATS, INTS):
        if values is FLOATS and (name in ("<<", ">>", "c") or getattr(math, name, 0) in WHOLE):
            continue
        calls = [call(X, *each, CASES[name]) for each in (*values, values[0])]
        Comparison(dynamic=True).assert_same_calls(_caught, *calls)


def test_what_nothing_catches() -> None:
    for values in (FLOATS, INTS):
        calls = [call(X, *each, OPERATORS["/"]) for each in values]
        Comparison().assert_same_calls(_unused, *calls)
