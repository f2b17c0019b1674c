"""Tensors made in sizes that vary: what the rest of the program is told of their sizes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.testing import Comparison, call

MADE: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "new_full": lambda x, n: x.new_full((n,), 0),
    "new_full of a list": lambda x, n: x.new_full(size=[n, 2], fill_value=1.5),
    "new_full of a size": lambda x, n: x.new_full(x.shape, n),
    "new_zeros": lambda x, n: x.new_zeros((n,)),
    "new_ones": lambda x, n: x.new_ones(n, 2),
    "new_empty": lambda x, n: x.new_empty((n,)),
    "new_empty_strided": lambda x, n: x.new_empty_strided((n,), (1,)),
    "full": lambda x, n: torch.full((n,), n),
    "full of a size": lambda x, n: torch.full(x.shape, 2.5),
    "zeros": lambda x, n: torch.zeros(n, 2),
    "ones": lambda x, n: torch.ones([2, n]).t(),
    "empty": lambda x, n: torch.empty(n),
    "rand": lambda x, n: torch.rand((n, 1)),
    "randint": lambda x, n: torch.randint(0, 2, (n,)),
    "arange": lambda x, n: torch.arange(n),
    "linspace": lambda x, n: torch.linspace(0, 1, n),
    "eye": lambda x, n: torch.eye(n),
    "expand": lambda x, n: torch.ones(1).expand(n),
    "repeat": lambda x, n: torch.ones(1).repeat(n),
    "tile": lambda x, n: torch.ones(1).tile((n,)),
    "narrow": lambda x, n: torch.ones(20).narrow(0, 1, n),
    "slice": lambda x, n: torch.ones(20)[:n],
    "pad": lambda x, n: torch.nn.functional.pad(torch.ones(1), (0, n)),
    "unfold": lambda x, n: torch.ones(20).unfold(0, n, 1),
    "view": lambda x, n: torch.ones(20 * n).view(n, 20),
}
"""Of a tensor and its first size."""


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", MADE)
def test_sizes_of_what_is_made(name: str, backend: str) -> None:
    make = MADE[name]

    def program(x: torch.Tensor) -> Any:
        y = make(x, x.shape[0])
        z = make(y, y.shape[0])
        return y.shape, len(z), z.numel(), torch.zeros_like(z), len(z.unbind())

    calls = [call(torch.zeros(n)) for n in (3, 2, 5)]
    Comparison(dynamic=True, backend=backend).assert_same_calls(program, *calls)
