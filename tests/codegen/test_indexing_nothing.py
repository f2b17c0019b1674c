"""Indices that are known, into tensors without elements, of which nothing is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from jitpkg.testing import Comparison, call
from tests.native.support import needs_llvm


def _first(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x, dtype=torch.long)


FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "getitem": lambda x: x[_first(x)],
    "gather": lambda x: x.gather(0, _first(x)),
    "index_select": lambda x: x.index_select(0, _first(x)),
    "take_along_dim": lambda x: torch.take_along_dim(x, _first(x), 0),
    "embedding": lambda x: F.embedding(_first(x), x[:, None] * 1),
    "scatter": lambda x: x.scatter(0, _first(x), 1.0),
    "scatter_add": lambda x: x.scatter_add(0, _first(x), x),
    "index_add": lambda x: x.index_add(0, _first(x), x),
    "index_fill": lambda x: x.index_fill(0, _first(x), 1.0),
    "index_put": lambda x: x.index_put((_first(x),), x),
    "index_copy": lambda x: x.index_copy(0, _first(x), x),
}


@needs_llvm
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_is_taken_of_nothing(name: str, dynamic: bool | None) -> None:
    calls = [call(torch.arange(float(n))) for n in (0, 2, 3, 0)]
    Comparison(backend="jitpkg", dynamic=dynamic).assert_same_calls(FUNCTIONS[name], *calls)


WRITES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "setitem": lambda x, i: x.__setitem__(i, 1),
    "index_put": lambda x, i: x.index_put((i,), torch.tensor(1.0)),
    "accumulate": lambda x, i: x.index_put((i,), torch.tensor(0.0), accumulate=True),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "index_copy": lambda x, i: x.index_copy(0, i, torch.ones(i.shape)),
    "index_add": lambda x, i: x.index_add(0, i, torch.zeros(i.shape)),
    "scatter": lambda x, i: x.scatter(0, i, 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i, torch.zeros(i.shape)),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i, torch.ones(i.shape), "prod"),
}


@needs_llvm
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", WRITES)
def test_nothing_is_written_at_a_known_place(name: str, dynamic: bool | None) -> None:
    def write(x: torch.Tensor, i: torch.Tensor) -> Any:
        return WRITES[name](x, i % 1)

    calls = [call(torch.tensor([-0.0]), torch.arange(n)) for n in (0, 2, 0)]
    Comparison(backend="jitpkg", dynamic=dynamic).assert_same_calls(write, *calls)


@needs_llvm
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_constants_without_elements_that_have_strides(dtype: torch.dtype) -> None:
    def program(x: torch.Tensor) -> Any:
        x.fill_(0)
        x[::2] = 0
        parts = torch.full((0, 4), 2, dtype=dtype)[:, ::2] * 2
        return (
            x,
            parts,
            torch.zeros(0, dtype=dtype)[::2] + x,
            torch.tensor([], dtype=dtype)[::2] + x,
        )

    Comparison(backend="jitpkg").assert_same(program, torch.arange(0).to(dtype))
