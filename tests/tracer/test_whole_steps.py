"""Whole training steps as one graph: loss, `backward()`, clipping and an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import jitpkg
from tests.tracer.test_backward import BACKENDS, leaf


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.out = nn.Linear(64, 5)
        self.unused = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.norm(self.conv(x)))
        return self.out(F.max_pool2d(hidden, 1).flatten(1))


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("name", "zero"),
    [
        *((name, "none last") for name in OPTIMIZERS),
        *(("AdamW", zero) for zero in ("none first", "zeros")),
    ],
)
def test_whole_steps(name: str, zero: str, backend: str) -> None:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
        if zero != "none last":
            optimizer.zero_grad(set_to_none=zero != "zeros")
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if zero == "none last":
            optimizer.zero_grad()
        return loss

    def run(function: Callable[..., Tensor]) -> list[Any]:
        torch.manual_seed(0)
        model = Net()
        optimizer = OPTIMIZERS[name](model.parameters())
        seen: list[Any] = []
        for _ in range(4):
            x, y = torch.randn(6, 1, 6, 6), torch.randint(5, (6,))
            seen.append(function(model, optimizer, x, y).detach())
        seen += [None if p.grad is None else p.grad for p in model.parameters()]
        return [*seen, *(value.clone() for value in model.state_dict().values())]

    expected = run(step)
    found = run(jitpkg.compile(step, backend=backend, fullgraph=True))
    for a, b in zip(found, expected, strict=True):
        if backend == "eager":
            assert (a is None) is (b is None)
            assert a is None or torch.equal(a, b)
        elif b is None:
            assert a is None
        else:
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_one_graph_of_kernels() -> None:
    """Gradients that nobody sees are in no memory: the kernel that uses them computes them."""

    def step(p: Tensor, x: Tensor) -> Tensor:
        loss = (p * x).exp().sum()
        loss.backward()
        with torch.no_grad():
            p.sub_(p.grad, alpha=0.1)
        p.grad = None
        return loss

    explained = jitpkg.explain(step, backend="jitpkg")(leaf(5), torch.ones(5))
    assert explained.graph_break_count == 0
    assert "calls of ATen" not in str(explained)
