"""Results that are written to `out=`, of the right size or of another one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.testing import Comparison

aten = torch.ops.aten
OPS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "add": lambda x, out: torch.add(x, 1, out=out),
    "cumsum": lambda x, out: torch.cumsum(x, 0, out=out),
    "mm": lambda x, out: torch.mm(x, x, out=out),
    "sort": lambda x, out: torch.sort(x, out=(out, torch.empty(0, dtype=torch.int64))),
    "slice_scatter": lambda x, out: torch.slice_scatter(x, x + 1, out=out),
    "roll": lambda x, out: aten.roll.out(x, [1], out=out),
    "select_scatter": lambda x, out: aten.select_scatter.out(x, x[0] + 1, 0, 1, out=out),
    "constant_pad_nd": lambda x, out: aten.constant_pad_nd.out(x, [0, 0], 1.0, out=out),
    "new_empty": lambda x, out: aten.fill.Scalar_out(x, 3, out=out),
}


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("size", [(3, 3), (0,), (9,)])
@pytest.mark.parametrize("name", OPS)
def test_as_eager(name: str, size: tuple[int, ...], own: bool, backend: str) -> None:
    op = OPS[name]

    def program(x: Tensor, out: Tensor) -> Any:
        out = out * 1 if own else out
        op(x, out)
        return out * 2, out

    comparison = Comparison(backend=backend, ignore=("version",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        comparison.assert_same(program, torch.arange(9.0).view(3, 3), torch.zeros(size))


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
def test_of_a_norm_with_statistics(backend: str) -> None:
    def program(x: Tensor, mean: Tensor, scale: Tensor, out: tuple[Tensor, ...]) -> Any:
        return torch._native_batch_norm_legit(x, None, None, mean, scale, True, 0.5, 0.1, out=out)

    x = torch.arange(24.0).view(4, 3, 2).sin()
    given = torch.zeros(3), torch.ones(3)
    out = torch.zeros(4, 3, 2), torch.zeros(3), torch.zeros(3)
    Comparison(backend=backend, ignore=("version",)).assert_same(program, x, *given, out)
