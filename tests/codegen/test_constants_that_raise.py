"""Constant folding computes what it can; what raises is left to the call."""

import torch
from torch import fx

from jitpkg.codegen.aten.passes.constants import fold_constants
from jitpkg.facts.tensor import facts_of


def test_what_raises_is_not_folded() -> None:
    graph = fx.Graph()
    full = graph.call_function(torch.ops.aten.full.default, ([2], -1.5), {"dtype": torch.uint8})
    full.meta["facts"] = facts_of(torch.zeros(2, dtype=torch.uint8))
    graph.output(full)
    assert fold_constants(graph) == 0
    assert full.target is torch.ops.aten.full.default
