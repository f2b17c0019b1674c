"""Gradients that eager code refuses to compute, as formulas of torch's own write in place to what
is of another size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F

from jitpkg.testing import Comparison, call
from tests.native.support import needs_llvm

Tensor = torch.Tensor
Sizes = tuple[int, ...]

IGNORED = ("grad_fn", "version", "view", "warnings")
BACKENDS = ("eager", "aot_eager", "jitpkg")
GRADS = [g for g in itertools.product([False, True], repeat=3) if any(g)]


def compare(
    function: Callable[..., Tensor], sizes: Sequence[Sizes], grads: Sequence[bool], backend: str
) -> None:
    made = [torch.full(size, 0.5, requires_grad=g) for size, g in zip(sizes, grads, strict=True)]
    Comparison(backend=backend, ignore=IGNORED).assert_same_calls(function, call(*made))


def clamped(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.clamp(x, low, high)


@needs_llvm
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grads", GRADS, ids=str)
@pytest.mark.parametrize(
    "sizes", [[(1,), (0,), (1,)], [(1,), (2,), (1,)], [(3,), (2, 3), (1,)], [(2, 3), (3,), (1,)]]
)
def test_bounds_of_other_sizes(sizes: list[Sizes], grads: Sequence[bool], backend: str) -> None:
    compare(clamped, sizes, grads, backend)


def soft_margin(x: Tensor, y: Tensor) -> Tensor:
    return F.soft_margin_loss(x, y)


def mse(x: Tensor, y: Tensor) -> Tensor:
    return torch._C._nn.mse_loss(x, y)


def huber(x: Tensor, y: Tensor) -> Tensor:
    return torch._C._nn.huber_loss(x, y)


def smooth(x: Tensor, y: Tensor) -> Tensor:
    return torch._C._nn.smooth_l1_loss(x, y)


@needs_llvm
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grads", [(True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("sizes", [[(1,), (2,)], [(2,), (1,)], [(1,), (0,)]], ids=str)
@pytest.mark.parametrize("loss", [soft_margin, mse, huber, smooth])
def test_targets_of_other_sizes(
    loss: Callable[..., Tensor], sizes: list[Sizes], grads: Sequence[bool], backend: str
) -> None:
    compare(loss, sizes, grads, backend)
