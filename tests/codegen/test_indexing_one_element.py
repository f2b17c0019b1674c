"""An index into what has one element only raises where it is outside: it does not matter else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from jitpkg.testing import Comparison

OF_NO_DIMS = torch.tensor(1.5)
ONE, ONE_BY_ONE = torch.tensor([1.5]), torch.tensor([[1.5]])
INDEXING: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Tensor]] = {
    "take of no dims": (torch.take, OF_NO_DIMS),
    "take": (torch.take, ONE),
    "take of a matrix": (torch.take, ONE_BY_ONE),
    "index_select of no dims": (lambda x, at: x.index_select(0, at), OF_NO_DIMS),
    "index_select": (lambda x, at: x.index_select(0, at), ONE),
    "gather of no dims": (lambda x, at: x.gather(0, at[0]), OF_NO_DIMS),
    "gather": (lambda x, at: x.gather(0, at), ONE),
    "take_along_dim": (lambda x, at: torch.take_along_dim(x, at, 0), ONE),
    "getitem": (lambda x, at: x[at], ONE),
    "getitem of a matrix": (lambda x, at: x[at, at], ONE_BY_ONE),
    "embedding": (lambda x, at: F.embedding(at, x), ONE_BY_ONE),
    "index_put": (lambda x, at: x.index_put((at,), x[0]), ONE),
    "index_add": (lambda x, at: x.index_add(0, at, x), ONE),
    "index_fill": (lambda x, at: x.index_fill(0, at, 2), ONE),
    "index_copy": (lambda x, at: x.index_copy(0, at, x * 2), ONE),
    "scatter": (lambda x, at: x.scatter(0, at, 2.0), ONE),
    "scatter_add": (lambda x, at: x.scatter_add(0, at, x), ONE),
    "put": (lambda x, at: x.put(at, x * 2), ONE),
    "put of no dims": (lambda x, at: x.put(at, x[None]), OF_NO_DIMS),
    "nll_loss": (F.nll_loss, ONE_BY_ONE),
    "nll_loss of each": (lambda x, at: F.nll_loss(x, at, reduction="none"), ONE_BY_ONE),
    "cross_entropy": (F.cross_entropy, ONE_BY_ONE),
    "one_hot": (lambda x, at: F.one_hot(at, 1), ONE),
    "multi_margin_loss": (lambda x, at: F.multi_margin_loss(x, at), ONE_BY_ONE),
}


@pytest.mark.parametrize("at", [0, 1, -2, -100])
@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", INDEXING)
def test_as_eager(name: str, trained: bool, at: int) -> None:
    op, x = INDEXING[name]

    def program(x: Tensor, at: Tensor) -> Any:
        return op(x, at) * 2

    comparison = Comparison(backend="jitpkg", ignore=("traceback", "grad_fn", "version"))
    comparison.assert_same(program, x.clone().requires_grad_(trained), torch.tensor([at]))


SAME: dict[str, Callable[[Tensor], Tensor]] = {
    "filled": lambda x: torch.full_like(x, 2.0) + 1,
    "rows": lambda x: x[:1].exp().expand(x.shape) * 2,
}
"""Tensors of which all elements are the same, along a dim at least."""


@pytest.mark.parametrize("name", [name for name in INDEXING if "no dims" not in name])
@pytest.mark.parametrize("make", SAME)
def test_into_elements_that_are_all_the_same(make: str, name: str) -> None:
    op, one = INDEXING[name]
    same = SAME[make]

    def program(x: Tensor, at: Tensor) -> Any:
        return op(same(x), at) * 2

    x = torch.linspace(1, 2, 3 ** one.dim()).view((3,) * one.dim())
    x.requires_grad_(name in ("getitem", "embedding", "nll_loss"))
    ignore = ("traceback", "grad_fn", "version", "view")
    comparison = Comparison(backend="jitpkg", ignore=ignore, relative=1e-5)
    for index in (2, 3):
        at = torch.full((3 if "loss" in name or "entropy" in name else 1,), index)
        comparison.assert_same(program, x, at)
