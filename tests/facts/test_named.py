"""A trace asks for a call's facts by the names that rows know: FakeTensor, which imports torch's
compiler, is left alone for methods, operators and data that rows answer."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jitpkg.facts import meta
from jitpkg.facts.answers import Facts
from jitpkg.testing.same import Comparison
from tests.facts.test_rows import BINARY, UNARY, agree

METHODS = sorted({*UNARY, *BINARY, *meta.METHODS} & set(dir(torch.Tensor)))

OPERATORS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name)
    for name in """
        abs add and_ eq floordiv ge gt iadd imul inv isub itruediv le lt matmul mod mul ne neg or_
        pow sub truediv xor
    """.split()
}

REFLECTED: dict[str, Callable[[Any], Any]] = {
    "2 + x": lambda x: 2 + x,
    "2 - x": lambda x: 2 - x,
    "2 * x": lambda x: 2 * x,
    "2 / x": lambda x: 2 / x,
    "2 // x": lambda x: 2 // x,
    "2 ** x": lambda x: 2**x,
    "2 % x": lambda x: 2 % x,
    "x[0]": lambda x: x[0],
    "x @ x": lambda x: x @ x,
    "-x": lambda x: -x,
}

FIRST = torch.tensor([0.5, 1.5, 2.0])


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Facts, call: Any, *rest: Any) -> Any:
        raise AssertionError(f"FakeTensor is asked for {getattr(call, '__name__', call)}")

    monkeypatch.setattr(Facts, "_by_fake_tensors", refused)


def _operands(call: Callable[..., Any]) -> tuple[Any, ...]:
    """What a function takes: the first of a few that do."""
    whole, few = FIRST.long(), FIRST.clone()
    some = [(few,), (whole,), (few, few + 1), (few, 2), (whole, whole), (few, 0), (few, 0, 5.0)]
    return next(args for args in some if _takes(call, *args))


def _takes(call: Callable[..., Any], *args: Any) -> bool:
    copies = [each.clone() if isinstance(each, torch.Tensor) else each for each in args]
    try:
        return call(*copies) is not NotImplemented
    except (TypeError, RuntimeError, IndexError):
        return False


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    def program(*args: Any) -> Any:
        return getattr(args[0] * 1, name)(*args[1:])

    Comparison().assert_same(program, *_operands(program))


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    function = OPERATORS[name]

    def program(*args: Any) -> Any:
        return function(args[0] * 1, *args[1:])

    Comparison().assert_same(program, *_operands(program))


@pytest.mark.parametrize("text", REFLECTED)
def test_operators_of_syntax(text: str) -> None:
    Comparison().assert_same(REFLECTED[text], FIRST.clone())


# Data

NUMBERS = st.one_of(
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(width=32),
    st.complex_numbers(max_magnitude=1e6, width=64),
)


def _nested(depth: int) -> st.SearchStrategy[Any]:
    """Lists of one length at each depth, and some that are not."""
    if not depth:
        return NUMBERS
    return st.lists(_nested(depth - 1), max_size=3) | st.tuples(*[_nested(depth - 1)] * 2)


DTYPES = (None, torch.float16, torch.float32, torch.float64, torch.int32, torch.int64, torch.bool)


@given(
    data=st.integers(0, 2).flatmap(_nested),
    dtype=st.sampled_from(DTYPES),
    name=st.sampled_from(["tensor", "as_tensor"]),
)
def test_data(data: Any, dtype: torch.dtype | None, name: str) -> None:
    agree(name, getattr(torch, name), data, dtype=dtype)


@pytest.mark.parametrize("data", [3, 2.5, True, 1j, [], [1, 2], (1.0, 2), [[1, 2], [3, 4]], [True]])
def test_usual_data_is_answered(data: Any) -> None:
    assert agree("tensor", torch.tensor, data)
    assert agree("as_tensor", torch.as_tensor, data)
    assert agree("tensor", torch.tensor, data, dtype=torch.complex64)


def test_data_that_is_a_tensor_is_asked_elsewhere() -> None:
    assert not agree("as_tensor", torch.as_tensor, torch.ones(2))
