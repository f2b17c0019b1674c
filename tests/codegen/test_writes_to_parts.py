"""Writes to a part of an input, whatever its layout, and whatever it is a view of."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from jitpkg.testing import Comparison

INPUTS = {
    "dense": lambda: torch.ones(4, 3),
    "transposed": lambda: torch.ones(3, 4).T,
    "rows that overlap": lambda: torch.ones(8).as_strided((4, 3), (1, 1)),
    "rows that overlap in part": lambda: torch.ones(12).as_strided((4, 3), (2, 1)),
    "a row, expanded": lambda: torch.ones(1, 3).expand(4, 3),
    "a column, expanded": lambda: torch.ones(4, 1).expand(4, 3),
    "no elements": lambda: torch.ones(4, 3)[:, :0].as_strided((4, 0), (1, 1)),
    "windows": lambda: torch.arange(6.0).unfold(0, 3, 1),
    "leaf": lambda: torch.ones(4, 3, requires_grad=True),
    "view of a leaf": lambda: torch.ones(6, 3, requires_grad=True)[1:5],
    "view of a detached leaf": lambda: torch.ones(6, 3).requires_grad_().detach()[1:5],
    "view of a product": lambda: (torch.ones(6, 3, requires_grad=True) * 2)[1:5],
}


def first(x: Tensor) -> None:
    x[0].add_(1)


def column(x: Tensor) -> None:
    x.select(1, 0).mul_(2) if x.numel() else x.mul_(2)


def twice(x: Tensor) -> None:
    x[:2].add_(1)
    x[1:3].mul_(3)


def diagonal(x: Tensor) -> None:
    x.diagonal().copy_(x.sum())


def whole(x: Tensor) -> None:
    x.add_(1)


def of_windows(x: Tensor) -> None:
    x.reshape(-1)[: x.numel() // 2].as_strided((2, 1), (1, 1)).fill_(4)


def none(x: Tensor) -> None:
    x[:0].zero_()


@pytest.mark.parametrize("backend", ["aot_eager", "jitpkg"])
@pytest.mark.parametrize("layout", INPUTS)
@pytest.mark.parametrize("write", [first, column, twice, diagonal, whole, of_windows, none])
@pytest.mark.parametrize("grad", [False, True])
def test_as_eager(write: Callable[[Tensor], None], layout: str, backend: str, grad: bool) -> None:
    def program(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        with torch.set_grad_enabled(grad):
            write(x)
        return (x * weight).sum(), x.clone()

    weight = torch.full((1,), 3.0, requires_grad=grad)
    Comparison(backend=backend, ignore=("version", "grad_fn", "view", "traceback")).assert_same(
        program, INPUTS[layout](), weight
    )
