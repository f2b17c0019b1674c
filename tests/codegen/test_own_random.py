"""Random programs through lowering, fusion and kernels, against eager."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from torch import Tensor

from jitpkg.codegen.backend import own
from jitpkg.testing import Comparison
from jitpkg.testing.strategies import aliasing_tensors, dtypes
from tests.codegen.aten.support import HOW
from tests.codegen.aten.test_random_programs import Program, programs
from tests.codegen.examples import examples

INPUTS = aliasing_tensors(
    min_size=1, max_size=3, dtype=dtypes([torch.float32, torch.float64, torch.int64])
)


def check(program: Program, inputs: list[Tensor]) -> None:
    inputs = [x.detach() for x in inputs]
    Comparison(backend=own, ignore=HOW, backward=False, relative=1e-5, absolute=1e-5).assert_same(
        program.function(), *inputs
    )


@examples(100)
@given(programs, INPUTS)
def test_programs(program: Program, inputs: list[Tensor]) -> None:
    check(program, inputs)


@pytest.mark.usefixtures("by_triton")
@examples(50)
@given(programs, INPUTS)
def test_programs_by_triton(program: Program, inputs: list[Tensor]) -> None:
    check(program, inputs)
