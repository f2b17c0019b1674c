"""Cells of recurrent layers, where the batch varies: two graphs serve all sizes, bit for bit."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from tests.varying.test_varying import graphs, same

SIZES = (5, 8, 9, 12, 7)

CELLS = {
    "GRUCell": lambda bias: nn.GRUCell(3, 4, bias=bias),
    "LSTMCell": lambda bias: nn.LSTMCell(3, 4, bias=bias),
    "RNNCell": lambda bias: nn.RNNCell(3, 4, bias=bias),
    "RNNCell of relu": lambda bias: nn.RNNCell(3, 4, bias=bias, nonlinearity="relu"),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_a_batch_that_varies(cell: Callable[[bool], nn.Module], bias: bool) -> None:
    torch.manual_seed(0)
    module = cell(bias)

    def steps(x: torch.Tensor) -> Any:
        state = None
        for part in x:
            state = module(part, state)
        return state

    calls = [(torch.randn(2, n, 3),) for n in SIZES]
    assert graphs(steps, calls) == 2


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_gradients(cell: Callable[[bool], nn.Module]) -> None:
    torch.manual_seed(0)
    module = cell(True)
    compiled = jitpkg.compile(module, backend="eager")
    for n in SIZES:
        found = []
        for f in (module, compiled):
            torch.manual_seed(n)
            x = torch.randn(n, 3, requires_grad=True)
            out = f(x)
            loss = sum(t.sin().sum() for t in out) if isinstance(out, tuple) else out.sin().sum()
            found.append(torch.autograd.grad(loss, [x, *module.parameters()]))
        assert same(*found)


def step(cell: Any, x: torch.Tensor, hx: torch.Tensor) -> torch.Tensor:
    return cell(x, hx) + 1


def test_a_state_of_another_batch_raises_as_ever() -> None:
    """Arithmetic would broadcast a state of one example."""
    cell = nn.GRUCell(3, 4)
    compiled = jitpkg.compile(step, backend="eager")
    for n in (5, 8, 9):
        compiled(cell, torch.randn(n, 3), torch.randn(n, 4))
    for f in (step, compiled):
        with pytest.raises(RuntimeError, match=r"[Ii]nput batch size"):
            f(cell, torch.randn(6, 3), torch.randn(1, 4))
        with pytest.raises(RuntimeError, match="input_size: got 2"):
            f(cell, torch.randn(6, 2), torch.randn(6, 4))


def test_by_kernels() -> None:
    pytest.importorskip("llvmlite")
    torch.manual_seed(0)
    cell = nn.LSTMCell(3, 4)
    compiled = jitpkg.compile(cell, backend="jitpkg")
    for n in SIZES:
        x = torch.randn(n, 3)
        for a, b in zip(cell(x), compiled(x), strict=True):
            torch.testing.assert_close(a, b)
