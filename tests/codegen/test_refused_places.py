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


SOURCES = [(2, 3), (1, 3), (2, 1), (2, 2), (1, 4), (3, 3), (0, 3), (2, 0), (3,), (1, 2, 3)]


@needs_llvm
@pytest.mark.parametrize("sizes", SOURCES, ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_sources_of_other_sizes(sizes: tuple[int, ...], dim: int) -> None:
    """What torch answers without data is not all that its kernel refuses."""

    def added(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
        return x.index_add(dim, index, source) + 1

    given = call(torch.arange(6.0).view(2, 3), torch.tensor([0, 1]), torch.ones(sizes))
    Comparison(backend="jitpkg", dynamic=False).assert_same_calls(added, given)


SHOWN: dict[str, Callable[[Tensor], Any]] = {
    "nothing": lambda x: torch.ones(0).as_strided((2,), (0,)),
    "more": lambda x: (x * 2).as_strided((3,), (1,)),
    "more of a part": lambda x: (x * 2)[:1].as_strided((3,), (1,)),
    "as much as a part is of": lambda x: (x * 2)[:1].as_strided((2,), (1,)),
    "less": lambda x: (x * 2).as_strided((1, 2), (1, 0), 1),
    "behind": lambda x: (x * 2).as_strided((1,), (1,), 2),
    "of an input": lambda x: x.as_strided((3,), (1,)),
    "a larger one": lambda x: (x * 2).as_strided((x.shape[0] + 1,), (1,)),
    "in place": lambda x: (x * 2).as_strided_((3,), (1,)),
    "copy": lambda x: torch.as_strided_copy(x * 2, (3,), (1,)),
    "scatter": lambda x: torch.as_strided_scatter(x * 2, torch.ones(3), (3,), (1,)),
}


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("uses", [False, True])
def test_memory_that_may_not_be_there(name: str, *, dynamic: bool, uses: bool) -> None:
    def program(x: Tensor) -> Any:
        shown = SHOWN[name](x)
        return shown + 1 if uses else x + 1

    comparison = Comparison(backend="jitpkg", dynamic=dynamic)
    comparison.assert_same_calls(program, *(call(torch.ones(n)) for n in (2, 3)))
