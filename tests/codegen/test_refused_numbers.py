"""Numbers that an integer dtype cannot hold are refused, or changed, as in eager code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.testing import Comparison, call
from tests.native.support import needs_llvm

FILLING: dict[str, Callable[[Tensor, float], Any]] = {
    "fill_": lambda x, n: x.fill_(n),
    "setitem": lambda x, n: x.__setitem__(slice(None), n),
    "mask": lambda x, n: x.__setitem__(x > 0, n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([0]), n),
    "scatter": lambda x, n: x.scatter(0, torch.tensor([0]), n),
    "full_like": lambda x, n: torch.full_like(x, n),
    "new_full": lambda x, n: x.new_full((2,), n),
    "full": lambda x, n: torch.full((2,), n, dtype=x.dtype),
    "pad": lambda x, n: torch.nn.functional.pad(x, (1, 1), value=n),
}


@needs_llvm
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64])
@pytest.mark.parametrize("name", FILLING)
def test_as_eager(name: str, dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    numbers = [-0.5, info.min - 0.5, info.max + 0.5, info.max + 1.0, 2.0**64, -1, -300, 300, -1.9]
    comparison = Comparison(
        backend="jitpkg", ignore=("grad_fn", "version", "view", "traceback"), backward=False
    )
    for number in [*numbers, float("nan"), float("inf"), 0.5]:

        def program(x: Tensor, number: float = number) -> Any:
            return FILLING[name](x, number)

        comparison.assert_same_calls(program, call(torch.ones(2, dtype=dtype)))
