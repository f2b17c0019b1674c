"""`sum` and `math.prod` take each item before they ask for the next, or raise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.testing import Comparison, call

ITEMS: dict[str, Callable[[list[Any]], Any]] = {
    "none": lambda log: map(log.append, [1, 2, 3]),
    "text": lambda log: (log.append(k) or "a" for k in range(3)),
    "then none": lambda log: (log.append(k) or (k, None)[k == 1] for k in range(4)),
    "tuples": lambda log: (log.append(k) or (k,) for k in range(3)),
    "floats": lambda log: (log.append(k) or 0.1 for k in range(9)),
    "what is appended to": lambda log: map(log.append, log),
}
STARTS: dict[str, tuple[Any, ...]] = {"0": (), "text": ("",), "a tuple": ((),), "none": (None,)}


@pytest.mark.parametrize("items", ITEMS)
def test_a_product_stops_where_it_raises(items: str) -> None:
    def program(x: Tensor, log: list[Any]) -> Any:
        try:
            return x + 1, math.prod(ITEMS[items](log), start=0.5), log
        except TypeError as error:
            return x * 2, str(error), log

    Comparison().assert_same_calls(program, *[call(torch.ones(2), [7]) for _ in range(2)])


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("items", ITEMS)
def test_it_stops_where_it_raises(items: str, start: str) -> None:
    def program(x: Tensor, log: list[Any]) -> Any:
        try:
            return x + 1, sum(ITEMS[items](log), *STARTS[start]), log
        except TypeError as error:
            return x * 2, str(error), log

    Comparison().assert_same_calls(program, *[call(torch.ones(2), [7]) for _ in range(2)])
