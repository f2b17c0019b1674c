"""Strides of dims of length 1, too: images of one channel or of one pixel lie in order and with
their channels innermost at once, and eager code goes by which of the two the strides say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import jitpkg

FUNCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "avg_pool2d": lambda x: functional.avg_pool2d(x, 1),
        "max_pool2d": lambda x: functional.max_pool2d(x, 1),
        "adaptive_avg_pool2d": lambda x: functional.adaptive_avg_pool2d(x, 2),
        "adaptive_max_pool2d": lambda x: functional.adaptive_max_pool2d(x, 2),
        "nearest": lambda x: functional.interpolate(x, scale_factor=2.0),
        "bilinear": lambda x: functional.interpolate(x, scale_factor=2.0, mode="bilinear"),
        "pad": lambda x: functional.pad(x, (1, 1)),
        "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
        "group_norm": lambda x: functional.group_norm(x, 1),
        "stack, innermost": lambda x: torch.stack([x], -1),
        "stack": lambda x: torch.stack([x, x]),
        "cat": lambda x: torch.cat([x, x], 1),
        "softmax": lambda x: x.softmax(1),
        "sum": lambda x: x.sum(1, keepdim=True),
        "add": lambda x: x + x.contiguous(),
        "lp_pool2d": lambda x: functional.lp_pool2d(x, 2, 1),
    }
)
SIZES = ((1, 1, 4, 4), (2, 3, 4, 4), (2, 3, 1, 1), (1, 3, 4, 1))


def images(size: tuple[int, int, int, int]) -> list[Tensor]:
    """Of different strides each."""
    n, c, h, w = size
    memory = torch.randn(n * c * h * w)
    every = [
        memory.view(size),
        memory.view(n, h, w, c).permute(0, 3, 1, 2),
        memory.as_strided(size, (h * w * c, 1, w * c, c)),
        memory.view(c, n, h, w).transpose(0, 1),
        memory.view(n, c, w, h).transpose(2, 3),
    ]
    return list({x.stride(): x for x in every}.values())


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_strides(name: str, trained: bool) -> None:
    function = FUNCTIONS[name]
    for x in (x for size in SIZES for x in images(size)):
        x = x.detach().requires_grad_(trained)
        try:
            expected = function(x)
        except (RuntimeError, ValueError):  # one value of each channel has no variance
            continue
        fast = jitpkg.compile(function, backend="jitpkg", dynamic=False)
        assert fast(x).stride() == expected.stride(), (x.shape, x.stride())
