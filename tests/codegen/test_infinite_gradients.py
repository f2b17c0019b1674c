"""Derivatives where something is infinite: computed in the order in which ATen computes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.testing import Comparison


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf"), -0.0, 3e38])
def test_of_softmax(dim: int, dtype: torch.dtype, special: float) -> None:
    def program(gradient: Tensor, y: Tensor) -> Any:
        return torch.ops.aten._softmax_backward_data(gradient, y, dim, dtype)

    plain = torch.full((4, 4), 0.5, dtype=dtype)
    one = plain.clone()
    one[1, 2] = special
    comparison = Comparison(backend="jitpkg", relative=1e-2)
    for given in ((plain, one), (one, plain), (one, one)):
        comparison.assert_same(program, *given)
