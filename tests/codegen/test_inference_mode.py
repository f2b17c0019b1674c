"""What autograd knows of results of inference mode: a view of what requires grad requires grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import jitpkg

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "reshape": lambda x: x.reshape(-1),
    "view": lambda x: x.view(-1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "movedim": lambda x: x.movedim(0, 1),
    "moveaxis": lambda x: x.moveaxis(0, 1),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "split": lambda x: x.split(1)[0],
    "unsafe_split": lambda x: x.unsafe_split(1)[0],
    "tensor_split": lambda x: x.tensor_split(2)[0],
    "hsplit": lambda x: x.hsplit(1)[0],
    "expand_as": lambda x: x.expand_as(x),
    "broadcast_to": lambda x: x.broadcast_to(2, 3, 4),
    "T": lambda x: x.T,
    "mH": lambda x: x.mH,
    "atleast_3d": torch.atleast_3d,
    "einsum": lambda x: torch.einsum("ij->ji", x),
    "unflatten": lambda x: x.unflatten(0, (1, 3)),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[0], indexing="ij")[0],
    "detach": lambda x: x.detach(),
    "contiguous": lambda x: x.contiguous(),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "product": lambda x: x @ x.t(),
    "sum": lambda x: x + 1,
}


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_inference_mode(name: str, backend: str) -> None:
    function = FUNCTIONS[name]

    def inside(x: Tensor) -> Any:
        with torch.inference_mode():
            y = function(x)
            return y, y.requires_grad, y.is_leaf, y.is_inference()

    compiled = jitpkg.compile(inside, backend=backend)
    leaf = torch.randn(3, 4, requires_grad=True)
    for x in (leaf, leaf * 1, leaf.detach()):
        (wanted, *facts), (found, *known) = inside(x), compiled(x)
        assert known == facts
        assert [found.requires_grad, found.is_leaf, found.is_inference()] == facts
        assert torch.equal(found, wanted)
