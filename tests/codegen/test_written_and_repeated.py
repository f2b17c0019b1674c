"""An input that is written in place, and of which a larger result is made: each element once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import jitpkg

LARGER: dict[str, Callable[[Tensor], Tensor]] = {
    "repeat": lambda x: x.repeat(3, 1),
    "expand": lambda x: x.expand(3, x.shape[-1]) + 1,
    "rows": lambda x: x + torch.arange(3.0)[:, None],
    "columns": lambda x: x[:, None] * torch.ones(4),
    "outer": lambda x: torch.outer(x, x),
    "tile": lambda x: x.tile(2),
    "stack": lambda x: torch.stack([x, x + 1]),
    "sum": lambda x: (x + torch.ones(3, 1)).sum(0),
    "same": lambda x: x + 1,
    "number": lambda x: x.sum() + x,
}
WRITES: dict[str, Callable[[Tensor], object]] = {
    "mul": lambda x: x.mul_(x),
    "add": lambda x: x.add_(1),
    "part": lambda x: x[1:].mul_(2),
    "two": lambda x: x.mul_(2).add_(x),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("larger", LARGER)
def test_each_element_is_written_once(larger: str, write: str, dynamic: bool) -> None:
    def program(x: Tensor) -> Tensor:
        WRITES[write](x)
        return LARGER[larger](x)

    compiled = jitpkg.compile(program, backend="jitpkg", dynamic=dynamic)
    for size in (5, 8):
        x, y = torch.arange(1.0, size + 1), torch.arange(1.0, size + 1)
        found, wanted = compiled(x), program(y)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(x, y)
