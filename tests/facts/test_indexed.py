"""How the result of indexing by tensors lies in memory, for any layouts of all of them."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jitpkg.facts.rows import ROWS

INDEX = torch.ops.aten.index.Tensor

LENGTHS = st.lists(st.sampled_from([1, 1, 2, 3]), max_size=3)


def laid_out(draw: st.DrawFn, size: list[int]) -> torch.Tensor:
    """Zeros with dims in any order, with gaps, and perhaps one element for a whole dim."""
    order = draw(st.permutations(range(len(size))))
    gaps = [draw(st.sampled_from([1, 1, 2])) for _ in size]
    made = torch.zeros([size[k] * gaps[k] for k in order])
    made = made.permute([order.index(k) for k in range(len(size))])
    made = made[tuple(slice(None, None, gap) for gap in gaps)]
    repeated = draw(st.sampled_from([None, None, *range(len(size))]))
    return made if repeated is None else made.narrow(repeated, 0, 1).expand(size)


@st.composite
def indexings(draw: st.DrawFn) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    size = draw(st.lists(st.sampled_from([1, 1, 2, 3, 4]), min_size=1, max_size=4))
    found = draw(LENGTHS)
    indices: list[torch.Tensor | None] = []
    for _ in size:
        if draw(st.booleans()):
            own = [draw(st.sampled_from([n, n, 1])) for n in found[draw(st.sampled_from([0, 1])) :]]
            dtype = draw(st.sampled_from([torch.int64, torch.int32]))
            indices.append(laid_out(draw, own).to(dtype))
        else:
            indices.append(None)
    if all(index is None for index in indices):
        indices[-1] = laid_out(draw, found).to(torch.int64)
    return laid_out(draw, size), indices


@settings(max_examples=2000, deadline=None, derandomize=True)
@given(indexings())
def test_the_row_lays_results_out_as_torch_does(
    indexing: tuple[torch.Tensor, list[torch.Tensor | None]],
) -> None:
    x, indices = indexing
    real = INDEX(x, indices)
    made = ROWS["aten::index"](
        INDEX, (like(x), [None if index is None else like(index) for index in indices]), {}
    )
    assert (made.shape, made.stride()) == (real.shape, real.stride())


def like(tensor: torch.Tensor) -> Any:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
