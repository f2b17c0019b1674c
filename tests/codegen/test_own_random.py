"""Random programs through lowering, fusion and kernels, against eager."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import Tensor

from jitpkg.codegen.own import own
from jitpkg.testing import Comparison
from jitpkg.testing.strategies import aliasing_tensors, dtypes
from tests.codegen.aten.support import HOW
from tests.codegen.aten.test_random_programs import Program, programs

MANY = int(os.environ.get("JITPKG_TEST_EXAMPLES", "0"))


@pytest.mark.timeout(120 + 5 * MANY)
@settings(
    max_examples=MANY or 100,
    deadline=None,
    derandomize=not MANY,
    suppress_health_check=list(HealthCheck),
)
@given(
    programs,
    aliasing_tensors(
        min_size=1, max_size=3, dtype=dtypes([torch.float32, torch.float64, torch.int64])
    ),
)
def test_programs(program: Program, inputs: list[Tensor]) -> None:
    inputs = [x.detach() for x in inputs]
    Comparison(backend=own, ignore=HOW, backward=False, relative=1e-5, absolute=1e-5).assert_same(
        program.function(), *inputs
    )
