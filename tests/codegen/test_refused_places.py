"""What eager code refuses because of a place or a size: indices into dims of length 1, parts that
are not as large as what they are put into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from jitpkg.testing import Comparison, call
from tests.native.support import needs_llvm

Tensor = torch.Tensor

READS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "gather": lambda x, i: x.gather(1, i[:, None].expand(2, 1)) + 1,
    "of a sum": lambda x, i: (x + 1).gather(1, i[:, None].expand(2, 1)),
    "index_select": lambda x, i: x.index_select(1, i) + 1,
    "getitem": lambda x, i: x[:, i] + 1,
    "of what is expanded": lambda x, i: x.expand(2, 2)[:, i + 1] + 1,
    "of what is everywhere the same": lambda x, i: torch.ones(1)[i] + x,
    "of products": lambda x, i: torch.arange(1)[i] * 0 + x,
    "put": lambda x, i: x.clone().index_fill_(1, i, 2) + 1,
    "scatter": lambda x, i: x.scatter(1, i[:, None], 2.0) + 1,
    "embedding": lambda x, i: F.embedding(i, x.t()) + 1,
}

PARTS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "select": lambda x, part: torch.select_scatter(x, part, 0, 1),
    "select of nothing": lambda x, part: torch.select_scatter(x[:, :0], part[:0], 1, 2),
    "select of a scalar": lambda x, part: torch.select_scatter(x[0, 0], part[0], 0, 0),
    "slice": lambda x, part: torch.slice_scatter(x, part[None], 0, 1, 2),
    "slice of a scalar": lambda x, part: torch.slice_scatter(x[0, 0], part, 0, 0, 1),
    "diagonal": lambda x, part: torch.diagonal_scatter(x, part),
    "diagonal above": lambda x, part: torch.diagonal_scatter(x, part, 1),
    "diagonal below": lambda x, part: torch.diagonal_scatter(x, part, -1),
    "dims more": lambda x, part: torch.diagonal_scatter(x, part[None]),
}


@needs_llvm
@pytest.mark.parametrize("name", READS)
def test_an_index_outside_of_one_element(name: str) -> None:
    calls = [call(torch.ones(2, 1), torch.tensor([0, k])) for k in (0, 1)]
    Comparison(backend="jitpkg").assert_same_calls(READS[name], *calls)


@needs_llvm
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_other_sizes(name: str) -> None:
    calls = [call(torch.arange(12.0).view(3, 4), torch.ones(n)) for n in (1, 2, 3, 4)]
    Comparison(backend="jitpkg", dynamic=False).assert_same_calls(PARTS[name], *calls)
