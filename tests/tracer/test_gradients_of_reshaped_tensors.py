"""Tensors whose sizes are changed in place after their gradient was assigned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.testing.same import Comparison

RESHAPING: dict[str, Callable[[Any], Any]] = {
    "squeeze_": lambda x: x.squeeze_(),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "t_": lambda x: x.t_(),
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", RESHAPING)
def test_as_eager_code(name: str, fails: bool) -> None:
    def program(x: Any) -> Any:
        x[:1] += 1
        x.grad = torch.zeros_like(x)
        RESHAPING[name](x)
        return x.mul_(torch.ones(7)) if fails else x * 2

    Comparison().assert_same(program, torch.ones(1, 3))
