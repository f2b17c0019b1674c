"""What has elements is computed beside what has none, and is written all the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.testing import Comparison, call
from tests.native.support import needs_llvm

Tensor = torch.Tensor

PROGRAMS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "read by it": lambda x, none: (y := x.exp(), none * y),
    "read by both": lambda x, none: (none * x.exp(), x.exp() + 1),
    "folded by it": lambda x, none: (y := x.sum(-1, keepdim=True), none * y),
    "a fold of it": lambda x, none: ((none * x).sum(0) + x, x * 2),
    "a row of it": lambda x, none: (y := x.softmax(-1), none - y, y.mean()),
    "a single one": lambda x, none: (y := x.mean(), none + y),
    "many": lambda x, none: (y := x.pow(x), none.pow(y), (none * y).sum(0), y.pow(2.5)),
}
SIZES = [((10, 5), (0, 10, 5)), ((10, 5), (2, 0, 10, 5)), ((1, 5), (0, 5)), ((5,), (0, 1))]


@needs_llvm
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("name", "sizes"), list(itertools.product(PROGRAMS, SIZES)), ids=str)
def test_both_are_written(
    name: str, sizes: tuple[tuple[int, ...], tuple[int, ...]], dtype: torch.dtype, grad: bool
) -> None:
    def operands() -> list[Tensor]:
        full = torch.arange(1.0, 1 + torch.Size(sizes[0]).numel()).view(sizes[0]) / 8
        return [x.to(dtype).requires_grad_(grad) for x in (full, torch.ones(sizes[1]))]

    ignored = ("grad_fn", "view", "version", "idle strides")
    Comparison(
        backend="jitpkg", dynamic=False, ignore=ignored, relative=0.02, absolute=0.02
    ).assert_same_calls(PROGRAMS[name], call(*operands()))


SHORTER: dict[str, Callable[[Tensor], Any]] = {
    "products": lambda x: (y := x[0].exp(), x[2:] * y),
    "sums": lambda x: (y := x[0].exp(), (x[2:] * y).sum(0), x[2:].sum(1) * 2),
    "means": lambda x: (x[2:].mean(0) + x[0], x[2:].mean(1), x[0] * 2),
    "rows": lambda x: (y := x[:2].softmax(-1), x[2:].softmax(-1), x[2:] - y[0]),
    "joined": lambda x: (torch.cat([x[2:] * 2, x[:1].exp()]), x[2:] + 1, x[0] + 1),
    "ends": lambda x: (x[2:].exp(), x[: x.shape[0] - 2] * x[0], x[-1] * 3),
    "norms": lambda x: (torch.nn.functional.layer_norm(x[2:], (5,)), x[0] + x[2:].sum()),
    "products of matrices": lambda x: (x[2:] @ x[:5].T[:5], x[0].exp()),
}


@needs_llvm
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", SHORTER)
def test_a_length_that_becomes_0(name: str, dynamic: bool | None, grad: bool) -> None:
    calls = [
        call((torch.arange(5.0 * n).view(n, 5) / 16).requires_grad_(grad))
        for n in (5, 6, 7, 2, 8, 3, 2)
    ]
    ignored = ("grad_fn", "view", "version", "idle strides", "storage offset", "memory")
    Comparison(
        backend="jitpkg", dynamic=dynamic, ignore=ignored, relative=1e-4, absolute=1e-4
    ).assert_same_calls(SHORTER[name], *calls)
