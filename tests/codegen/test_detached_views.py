"""Results that are detached from what other results show require no grad, as in eager code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.testing import Comparison, call

RETURN: dict[str, Callable[[Tensor], Any]] = {
    "itself": lambda y: (y, y.detach()),
    "a part": lambda y: (y, y[1].detach()),
    "a part of it detached": lambda y: (y, y.detach()[1]),
    "a view": lambda y: (lambda v: (v, v.detach()))(y[1]),
    "a part of a view": lambda y: (lambda v: (v, v[1:].detach()))(y[1]),
    "beside a view": lambda y: (y[0], y[1].detach()),
    "one of several views": lambda y: (lambda a, b: (a, b, b.detach()))(*y.unbind(0)),
    "nothing else": lambda y: (y[0].detach(), y.sum()),
}


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("size", [2, 0])
@pytest.mark.parametrize("name", RETURN)
def test_as_eager(name: str, size: int, backend: str) -> None:
    def program(x: Tensor) -> Any:
        return RETURN[name](torch.vstack([x * 2, x]))

    given = [call(torch.arange(1.0, size + 1, requires_grad=True)) for _ in range(2)]
    comparison = Comparison(backend=backend, ignore=("grad_fn", "view", "version"))
    comparison.assert_same_calls(program, *given)
