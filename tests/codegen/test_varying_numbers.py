"""Python numbers that vary, as arguments of ops: each has the kind of number that it has in eager
code, which decides the dtype of a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.testing import Comparison, call

PROGRAMS: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "full": lambda x, n: (x + 1, torch.full((2,), n)),
    "full of a size": lambda x, n: torch.full((2,), x.shape[0]),
    "full as a float": lambda x, n: torch.full((2,), n, dtype=torch.float32),
    "full_like": lambda x, n: torch.full_like(x, n),
    "new_full": lambda x, n: x.new_full((2,), n),
    "scalar_tensor": lambda x, n: torch.scalar_tensor(n),
    "fill": lambda x, n: torch.fill(x, n),
    "where": lambda x, n: torch.where(x > 0, n, 0),
    "arange": lambda x, n: torch.arange(n),
    "alpha of a sum": lambda x, n: torch.add(x, x, alpha=n),
    "alpha of a narrow sum": lambda x, n: torch.add(x.bfloat16(), x.bfloat16(), alpha=n),
    "alpha of a sum of integers": lambda x, n: torch.sub(x.long(), x.long(), alpha=n),
    "value of addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "remainder": lambda x, n: (x % n, x.long() % n, n % (x + 1)),
    "power": lambda x, n: (x**n, x.long() ** n, n**x),
    "clamp": lambda x, n: (x.clamp(0, n), x.long().clamp(max=n)),
    "division": lambda x, n: (x / n, x // n, x.long() / n, x.long() // n, n / (x + 1)),
    "comparison": lambda x, n: (x > n, x.long() == n),
    "masked_fill": lambda x, n: (x.masked_fill(x > 0, n), x.long().masked_fill(x > 0, n)),
    "one_hot": lambda x, n: torch.nn.functional.one_hot(x.long() * 0, n),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_numbers_that_vary(program: str, backend: str, dynamic: bool | None) -> None:
    ignored = ("grad_fn", "version", "view", "idle strides")
    same = Comparison(backend=backend, dynamic=dynamic, ignore=ignored, relative=1e-6)
    same.assert_same_calls(PROGRAMS[program], *(call(torch.arange(3.0), n) for n in (2, 3, 4, 5)))
