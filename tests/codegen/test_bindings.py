"""The functions that stand for overloads call just these, and return what they return."""

from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from jitpkg.codegen.graph.bindings import BINDINGS

A, B = torch.randn(2, 3), torch.randn(3, 4)
BATCH = torch.randn(2, 3, 3)
ROW = torch.randn(4)

CALLS: dict[str, tuple[Any, ...]] = {
    "aten.addmm.default": (ROW, A, B),
    "aten.baddbmm.default": (BATCH, BATCH, BATCH),
    "aten.bmm.default": (BATCH, BATCH),
    "aten.convolution.default": (
        *(torch.randn(1, 2, 5, 5), torch.randn(4, 2, 3, 3), ROW),
        *([1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ),
    "aten.embedding.default": (A, torch.tensor([1, 0]), -1, False, False),
    "aten.expand.default": (torch.randn(2, 1), [2, 3]),
    "aten.mm.default": (A, B),
    "aten.permute.default": (BATCH, [2, 0, 1]),
    "aten.select.int": (A, 1, 2),
    "aten.squeeze.dim": (torch.randn(2, 1), 1),
    "aten.squeeze.dims": (torch.randn(1, 2, 1), [0, 2]),
    "aten.t.default": (A,),
    "aten.transpose.int": (BATCH, 0, 2),
    "aten.unsqueeze.default": (A, 1),
    "aten.view.default": (A, [3, -1]),
}


class Calls(TorchDispatchMode):
    """Notes which overloads are called."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[OpOverload] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        self.made.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("overload", BINDINGS, ids=str)
def test_binding(overload: OpOverload) -> None:
    args = CALLS[str(overload)]
    with Calls() as calls:
        found = BINDINGS[overload](*args)
    assert calls.made == [overload]
    wanted = overload(*args)
    assert torch.equal(found, wanted)
    assert found.stride() == wanted.stride()
