"""Numbers that are too large for the class of a tensor: many ops raise, and others do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import jitpkg

Program = Callable[[Any, Any], Any]
MASK = torch.tensor([True, False, True])
FIRST = torch.tensor([0])

PROGRAMS: dict[str, Program] = {
    "fill_": lambda x, v: x.clone().fill_(v),
    "fill_ of a scalar": lambda x, v: x.sum().fill_(v),
    "full": lambda x, v: torch.full((2,), v, dtype=x.dtype),
    "full_like": lambda x, v: torch.full_like(x, v),
    "new_full": lambda x, v: x.new_full((2,), v),
    "masked_fill": lambda x, v: x.masked_fill(MASK, v),
    "clamp": lambda x, v: x.clamp(v),
    "clamp_min": lambda x, v: x.clamp_min(v),
    "where": lambda x, v: torch.where(MASK, x, v),
    "index_fill": lambda x, v: x.index_fill(0, FIRST, v),
    "scatter": lambda x, v: x.scatter(0, FIRST, v),
    "pow": lambda x, v: x**v,
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v),
    "threshold": lambda x, v: F.threshold(x, v, v),
    "leaky_relu": lambda x, v: F.leaky_relu(x, v),
    "lerp": lambda x, v: torch.lerp(x, x, v),
    "assigned": lambda x, v: x.clone().__setitem__(0, v),
    "added": lambda x, v: x + v,
    "multiplied": lambda x, v: x * v,
    "divided": lambda x, v: x / v,
    "compared": lambda x, v: x > v,
    "remainder": lambda x, v: torch.fmod(x, v),
}
LARGE = {torch.float16: (1e10, -65505.0, 100_000), torch.float32: (1e39, -1e300)}


def outcome(function: Program, x: torch.Tensor, v: float) -> Any:
    try:
        return function(x, v)
    except Exception as error:
        return type(error), str(error)


def assert_same(function: Program, compiled: Program, x: torch.Tensor, v: float) -> None:
    expected, found = outcome(function, x, v), outcome(compiled, x, v)
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, equal_nan=True)
    else:
        assert found == expected


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("dtype", LARGE)
@pytest.mark.parametrize("name", PROGRAMS)
def test_constants(name: str, dtype: torch.dtype, backend: str) -> None:
    for v in (*LARGE[dtype], torch.inf, -torch.inf, 2.5):
        function = lambda x, _, v=v: PROGRAMS[name](x, v)  # noqa: E731
        assert_same(
            function, jitpkg.compile(function, backend=backend), torch.ones(3, dtype=dtype), v
        )


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("dtype", LARGE)
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_that_vary(name: str, dtype: torch.dtype, backend: str) -> None:
    compiled = jitpkg.compile(PROGRAMS[name], backend=backend)
    for v in (1.5, 2.5, 3.5, *LARGE[dtype], 4.5, torch.inf):
        assert_same(PROGRAMS[name], compiled, torch.ones(3, dtype=dtype), v)


def test_numbers_that_fit_need_no_second_graph() -> None:
    compiled = jitpkg.compile(PROGRAMS["masked_fill"], fullgraph=True)
    compiled(torch.ones(3), 1.5)
    compiled(torch.ones(3), 2.5)
    found: list[jitpkg.events.Event] = []
    with jitpkg.events.STREAM.listening(found.append):
        for v in (-1e9, 0.0, 1e38, 7.0):
            assert_same(PROGRAMS["masked_fill"], compiled, torch.ones(3), v)
    assert not any(isinstance(event, jitpkg.events.GraphCompiled) for event in found)
