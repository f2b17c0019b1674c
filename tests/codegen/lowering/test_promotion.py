"""The common dtype of operands is what `torch.result_type` says, for all pairs of them."""

import itertools
from dataclasses import dataclass

import pytest
import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.lowering.promotion import promoted

DTYPES = sorted(ops.EVERY, key=str)
NUMBERS = [True, 2, 2.5]


@dataclass(frozen=True)
class Sized:
    dtype: torch.dtype
    rank: int

    @property
    def real(self) -> torch.Tensor:
        return torch.zeros((1,) * self.rank, dtype=self.dtype)


TENSORS = [Sized(dtype, rank) for dtype in DTYPES for rank in (0, 1)]


@pytest.mark.parametrize("first", TENSORS, ids=str)
def test_pairs(first: Sized) -> None:
    for second in TENSORS:
        assert promoted([first, second]) is torch.result_type(first.real, second.real), second
    for number in NUMBERS:
        assert promoted([first, number]) is torch.result_type(first.real, number), number
        assert promoted([number, first]) is torch.result_type(number, first.real), number


def test_three_at_once() -> None:
    """As `torch.where` would say it of one more operand: all categories together."""
    for one, other, number in itertools.product(TENSORS[::3], TENSORS[::2], NUMBERS):
        if one.rank == other.rank:
            common = torch.promote_types(one.dtype, other.dtype)
            expected = torch.result_type(Sized(common, one.rank).real, number)
            assert promoted([one, other, number]) is expected
