"""`sum` of floats that vary: from Python 3.12 on it keeps what adding them rounds away."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from jitpkg.testing.same import Comparison, call

LOST = [
    (1e16, 1.0, -1e16),
    (0.1, 0.2, 0.3),
    (1e16, 3.0, -1e16),
    (1.0, 1e100, 1.0),
    (0.5, 0.25, 2.0),
]


def alone(x: Any, a: Any, b: Any, c: Any) -> Any:
    return x + 1, sum([a, b, c])


def begun(x: Any, a: Any, b: Any, c: Any) -> Any:
    return x + sum((a, b, c), 0.1), sum([0.1, b, 0.2, c], a)


def with_ints(x: Any, a: Any, b: Any, c: Any) -> Any:
    n = x.shape[0]
    return x, sum([n, a, n, b, 1, c]), sum([0.1, n, 0.2, n]), sum([n, n, 1])


def of_many(x: Any, a: Any, b: Any, c: Any) -> Any:
    return x * sum(k * a for k in (1, 2, 3)), sum([a] * 10), sum([True, a, b])


def of_tensors(x: Any, a: Any, b: Any, c: Any) -> Any:
    return sum([x, a, b, c]), sum([x.sum(), a], b)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", [alone, begun, with_ints, of_many, of_tensors])
def test_as_eager_code(program: Any, dynamic: bool | None) -> None:
    calls = [call(torch.ones(k + 2), *numbers) for k, numbers in enumerate(LOST)]
    Comparison(dynamic=dynamic).assert_same_calls(program, *calls)
