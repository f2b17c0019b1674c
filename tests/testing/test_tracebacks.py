"""Which frames of a traceback are the program's, and so compared."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.testing import Comparison, NotTheSame


def going_back_twice(x: torch.Tensor) -> None:
    y = x.sin() * x
    jitpkg.graph_break()
    for _ in range(2):
        loss = (y * y.cos()).sum()
        jitpkg.graph_break()
        loss.backward()


PASSES: list[int] = []


class Doubled(torch.autograd.Function):
    """A node of the program's own, whose frames are its: it counts, and so is in no graph."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        PASSES.append(1)
        return gradient * 2 + 0 * x


def through_a_node_of_its_own(x: torch.Tensor) -> None:
    y = Doubled.apply(x)
    jitpkg.graph_break()
    for _ in range(2):
        (y * y.cos()).sum().backward()


@pytest.mark.parametrize("function", [going_back_twice, through_a_node_of_its_own])
@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
def test_a_backward_pass_of_a_graph_that_fails(function: Callable[..., None], backend: str) -> None:
    x = torch.randn(3, requires_grad=True)
    compared = Comparison(backend=backend, ignore=["version"], relative=1e-6, absolute=1e-6)
    compared.assert_same(function, x)


double: Callable[[torch.Tensor], torch.Tensor] = torch.sin


def with_a_node(x: torch.Tensor) -> None:
    y = double(x).sum()
    y.backward()
    y.backward()


def of_its_own(function: Any) -> Any:
    """The same lines, with a node of the program's own."""
    return types.FunctionType(function.__code__, globals() | {"double": Doubled.apply})


def test_frames_of_a_node_of_the_program_are_compared() -> None:
    x = torch.randn(3, requires_grad=True)
    with pytest.raises(NotTheSame, match=r"function\.py:\d+, in apply"):
        Comparison(compile=of_its_own, calls=1).assert_same(with_a_node, x)
