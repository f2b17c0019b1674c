"""Which items a comparison of sequences asks, in which order, is seen where they hear of it."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

from jitpkg.testing import Comparison, call

X = torch.ones(2)


class Heard:
    def __eq__(self, other: object) -> bool:
        print("eq", other)
        return True

    def __lt__(self, other: object) -> bool:
        print("lt", other)
        return True

    __hash__ = None  # type: ignore[assignment]


def tuples(x: torch.Tensor) -> Any:
    return x + 1, (Heard(),) == (1, 2), (Heard(), 2, 3) != (1, 2), (1, 2) == (Heard(),)  # noqa: SIM300


def lists(x: torch.Tensor) -> Any:
    return x + 1, [Heard()] == [1, 2], [Heard()] != [1], [Heard(), 1] < [1]


def others(x: torch.Tensor) -> Any:
    queues = collections.deque([Heard()]), collections.deque([1, 2])
    return x + 1, queues[0] == queues[1], {"a": Heard()} == {"a": 1, "b": 2}, x.shape == (2, 3)


def ambiguous(x: torch.Tensor) -> Any:
    try:
        return (x,) == (1, 2)
    except RuntimeError as error:
        return x + 1, str(error)


@pytest.mark.parametrize("function", [tuples, lists, others, ambiguous])
def test_items_that_hear_of_it(function: Any) -> None:
    Comparison().assert_same_calls(function, call(X), call(X))
