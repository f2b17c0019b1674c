"""Inputs that are written to, and whose sizes or strides are changed in place, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from jitpkg.testing import Comparison, call

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda x: x[:3],
    "with gaps": lambda x: x[:, ::2],
    "rows": lambda x: x[::2],
    "transposed": lambda x: x.t()[1:],
}
CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "squeeze_": lambda x: x.unsqueeze_(0).squeeze_(0),
}


def masked(x: Tensor) -> None:
    x[x > 3] = 0


def added(x: Tensor) -> None:
    x += 1


def sorted_(x: Tensor) -> None:
    x.copy_(x.sort().values)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("write", [masked, added, sorted_])
def test_what_lies_around_is_left(
    write: Callable[[Tensor], None], change: str, layout: str, backend: str
) -> None:
    def program(x: Tensor, around: Tensor) -> Tensor:
        write(x)
        CHANGES[change](x)
        write(x)
        return x * 2

    around = torch.arange(16.0).view(4, 4)
    x = LAYOUTS[layout](around)
    how = Comparison(backend=backend, ignore=("version", "view", "idle strides"))
    how.assert_same_calls(program, call(x, around), call(x, around))
