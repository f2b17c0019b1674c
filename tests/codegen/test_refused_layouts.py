"""What eager code refuses, going backward, for how a tensor lies in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import jitpkg

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "in order": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(2, 3),
    "a slice": lambda x: torch.cat([x, x])[::2],
}


def outcome(function: Callable[[Tensor, Tensor], Tensor], layout: str) -> Tensor | str | None:
    torch.manual_seed(0)
    leaf = torch.randn(2, 3, 4, 4)
    x = LAYOUTS[layout](leaf).detach().requires_grad_()
    try:
        function(x, torch.randint(3, (2, 4, 4))).sum().backward()
    except RuntimeError as error:
        return str(error)
    return x.grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("loss", [functional.nll_loss, functional.cross_entropy])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_loss_of_images(
    layout: str, loss: Callable[..., Tensor], reduction: str, backend: str
) -> None:
    def direct(x: Tensor, target: Tensor) -> Tensor:
        return loss(x, target, reduction=reduction)

    def of_a_result(x: Tensor, target: Tensor) -> Tensor:
        return loss(x.exp() * 2, target, reduction=reduction)

    for f in (direct, of_a_result):
        found, expected = outcome(jitpkg.compile(f, backend=backend), layout), outcome(f, layout)
        if isinstance(expected, Tensor):
            torch.testing.assert_close(found, expected)
        else:
            assert found == expected
