"""`copy_` of a number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.testing import Comparison, call

DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool)


def program(x: Tensor, number: Any) -> Tensor:
    x[..., :1].copy_(number)
    return x.clone().copy_(number) + x


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers(dtype: torch.dtype, backend: str, *, dynamic: bool) -> None:
    settings = {"strict": True, "never_worse": False}
    comparison = Comparison(backend=backend, dynamic=dynamic, settings=settings)
    for numbers in ((3, 4, 0), (1.7, 2.3, -0.0), (True, False)):
        if dtype is torch.uint8 and isinstance(numbers[1], float):
            numbers = (1.7, 2.3)
        x = torch.ones(2, 5).to(dtype)
        comparison.assert_same_calls(program, *(call(x, number) for number in numbers))
