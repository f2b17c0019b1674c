"""Random graphs that are trained, with views, writes and results that share memory."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jitpkg.testing import Comparison, call
from jitpkg.testing.strategies import shapes, tensors
from tests.codegen.examples import examples
from tests.codegen.test_random_graphs import HOW, Chain, chains, inputs_of_sizes
from tests.native.support import needs_llvm

pytestmark = needs_llvm

COMPARED = Comparison(
    backend="jitpkg",
    options={"backward": "own"},
    relative=1e-4,
    absolute=1e-5,
    ignore=HOW,
    settings={"never_worse": False},
)

trained = st.lists(
    tensors(dtype=torch.float64, shape=shapes(max_dims=3, min_size=1), requires_grad=True),
    min_size=1,
    max_size=3,
)


@examples(60)
@given(chains, trained)
def test_chains(chain: Chain, inputs: list[Tensor]) -> None:
    COMPARED.assert_same(chain.function(), *inputs)


@examples(20)
@given(chains, inputs_of_sizes())
def test_chains_of_sizes_that_vary(chain: Chain, inputs: list[list[Tensor]]) -> None:
    COMPARED.assert_same_calls(chain.function(), *(call(*given) for given in inputs))
