"""Graphs that are not differentiated, where only AOTAutograd can make them functional.

So it is for all tensors on GPUs; here it is forced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.codegen import backend
from tests.codegen.cache.graphs.support import Process, same
from tests.codegen.cache.graphs.test_graphs import arguments, draws, pointwise, pooled, rows

Program = Callable[..., Any]


def viewed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return (x + y).t(), (x @ y.t()).reshape(-1)


def without_grad(x: Tensor, y: Tensor) -> Tensor:
    return x.detach() * y


def writes(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    return x + y


def returns_a_view(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x[1:], x * y


DIRECT: Sequence[Program] = (pointwise, rows, draws, pooled, viewed, without_grad)
OTHERS: Sequence[Program] = (writes, returns_a_view)


def outcome(function: Program) -> list[Any]:
    """All that can be seen of a call; inference tensors have no version."""
    torch.manual_seed(0)
    given = arguments()
    result = function(*given)
    results = result if isinstance(result, tuple) else (result,)
    seen: list[Any] = [*results, *given, torch.rand(1)]
    for value in results:
        shared = [x.untyped_storage()._cdata == value.untyped_storage()._cdata for x in given]
        seen += [shared, value.stride(), value.requires_grad, value.is_inference()]
    return seen


@pytest.fixture
def through_aot(each_process: Process, monkeypatch: pytest.MonkeyPatch) -> Process:
    monkeypatch.setattr(backend, "_prepares", lambda maker: False)
    return each_process


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("program", [*DIRECT, *OTHERS])
def test_a_graph_is_made_functional_once_for_all_processes(
    through_aot: Process, program: Program, mode: Callable[[], Any]
) -> None:
    for found in (False, True, True):
        compiled = through_aot.compiled(program)
        with mode():
            for _ in range(2):
                same(outcome(compiled), outcome(program))
        assert bool(through_aot.made) is not (found and program in DIRECT)


def test_a_graph_that_may_be_differentiated_is_another_one(through_aot: Process) -> None:
    x, y = arguments()
    with torch.no_grad():
        through_aot.compiled(pointwise)(x.requires_grad_(), y)
    compiled = through_aot.compiled(pointwise)
    result = compiled(x, y)
    assert through_aot.made
    assert result.requires_grad
    through_aot.compiled(without_grad)(x, y)
    result = through_aot.compiled(without_grad)(x, y)
    assert not result.requires_grad
    assert result.grad_fn is None


def test_a_failed_call_draws_nothing(through_aot: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """The original draws the numbers again."""

    def fails(x: Tensor, y: Tensor) -> Tensor:
        drawn = torch.rand(3)
        return x[(y * 1e9).long()] + drawn.sum()

    for _ in range(2):
        compiled = through_aot.compiled(fails)
        states = []
        for function in (fails, compiled):
            torch.manual_seed(3)
            with pytest.raises(IndexError):
                function(*arguments())
            states.append(torch.rand(2))
        torch.testing.assert_close(*states)
