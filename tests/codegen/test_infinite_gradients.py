"""Derivatives where something is infinite: computed in the order in which ATen computes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.testing import Comparison

SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 1e-40, -1.0, 3e38, 0.5, 2.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, 1])
def test_of_softmax(dim: int, dtype: torch.dtype) -> None:
    def program(gradient: Tensor, y: Tensor) -> Any:
        return torch.ops.aten._softmax_backward_data(gradient, y, dim, dtype)

    rows = [SPECIAL[k:] + SPECIAL[:k] for k in range(len(SPECIAL))]
    gradient = torch.tensor([[row[k % 3] if k > 5 else 0.5 for k in range(9)] for row in rows])
    y = torch.tensor(rows[3:] + rows[:3])
    comparison = Comparison(backend="jitpkg", relative=1e-2)
    comparison.assert_same(program, gradient.to(dtype), y.to(dtype))
    comparison.assert_same(program, y.to(dtype), torch.full((9, 9), 0.5, dtype=dtype))
