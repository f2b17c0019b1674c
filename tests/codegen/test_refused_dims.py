"""A dim that a tensor has not is refused, whether or not anything uses what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.testing import Comparison, call

ALONG: dict[str, Callable[[Tensor, int], Any]] = {
    "softmax": torch.softmax,
    "log_softmax": torch.log_softmax,
    "sort": lambda x, dim: x.sort(dim),
    "stable sort": lambda x, dim: x.sort(dim=dim, stable=True),
    "argsort": torch.argsort,
    "topk": lambda x, dim: x.topk(1, dim),
    "cumsum": torch.cumsum,
    "cumprod": torch.cumprod,
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "argmin": torch.argmin,
    "max": torch.max,
    "var": torch.var,
    "all": torch.all,
    "cat": lambda x, dim: torch.cat([x, x], dim),
    "stack": lambda x, dim: torch.stack([x, x], dim),
    "select": lambda x, dim: x.select(dim, 0),
    "unsqueeze": torch.unsqueeze,
    "flip": lambda x, dim: x.flip(dim),
    "roll": lambda x, dim: x.roll(1, dim),
}


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("name", ALONG)
def test_out_of_range(name: str, backend: str) -> None:
    def unused(x: Tensor, dim: int) -> Tensor:
        ALONG[name](x, dim)
        return x + 1

    def used(x: Tensor, dim: int) -> Any:
        return ALONG[name](x, dim)

    comparison = Comparison(backend=backend, ignore=("traceback",), dynamic=False)
    for rank in (0, 1, 2):
        x = torch.ones((3,) * rank)
        for program in (unused, used):
            comparison.assert_same_calls(program, *(call(x, dim) for dim in (1, -2, 2, -3)))
