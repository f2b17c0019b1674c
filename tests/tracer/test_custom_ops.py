"""Ops that a program defines with `torch.library`, called as what the decorator has made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from tests.tracer import custom_ops

Program = Callable[..., Any]


def functional(x: Any) -> Any:
    return custom_ops.twice(x + 1) * 3


def by_name(x: Any) -> Any:
    return torch.ops.jitpkg_custom_ops.twice(x) + custom_ops.twice(x=x)


def differentiable(x: Any) -> Any:
    return custom_ops.cube(x, 0.5).sum() + custom_ops.cube(x.sin(), factor=2.0).mean()


def several(x: Any) -> Any:
    a, b = custom_ops.pair(x, [1, 2])
    return a + b, a, b


def in_place(x: Any) -> Any:
    y = x + 1
    custom_ops.double_in_place(y)
    return y, y * 2


def of_an_argument(x: Any) -> Any:
    custom_ops.double_in_place(x)
    return x + 1


def unknown(x: Any) -> Any:
    return custom_ops.without_fake(x * 2) + 1


def wrong(x: Any) -> Any:
    try:
        return custom_ops.twice(x, x)  # type: ignore[call-arg]
    except (RuntimeError, TypeError):
        return x


ONE_GRAPH: list[Program] = [functional, by_name, differentiable, several, in_place]


def assert_same(program: Program, compiled: Program, *given: torch.Tensor) -> None:
    """By hand: `Comparison` looks into ops, of which torch notes that they were called."""
    for x in given:
        mine, its = (x.detach().clone().requires_grad_(x.requires_grad) for _ in range(2))
        expected, found = program(its), compiled(mine)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(mine, its)
        if x.requires_grad:
            expected.backward()
            found.backward()
            torch.testing.assert_close(mine.grad, its.grad)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("disturb", ["", "break"])
@pytest.mark.parametrize(
    "program", [*ONE_GRAPH, of_an_argument, unknown, wrong], ids=lambda program: program.__name__
)
def test_as_eager_code(program: Program, disturb: str, backend: str) -> None:
    with jitpkg.config.patch(disturb=disturb):
        compiled = jitpkg.compile(program, backend=backend)
        assert_same(program, compiled, torch.randn(3, 4), torch.randn(3, 4))


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_gradients(backend: str) -> None:
    compiled = jitpkg.compile(differentiable, backend=backend, fullgraph=True)
    assert_same(differentiable, compiled, *torch.randn(2, 3, 4, requires_grad=True))


@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_one_graph(program: Program) -> None:
    compiled = jitpkg.compile(program, backend="eager", fullgraph=True)
    compiled(torch.randn(3, 4))


def test_the_op_runs_once_in_each_call() -> None:
    compiled = jitpkg.compile(functional, fullgraph=True)
    compiled(torch.ones(3))
    custom_ops.calls.clear()
    compiled(torch.ones(3))
    assert custom_ops.calls == ["twice"]


@pytest.mark.parametrize("program", [functional, several], ids=lambda program: program.__name__)
def test_sizes_that_vary(program: Program) -> None:
    compiled = jitpkg.compile(program, fullgraph=True)
    assert_same(program, compiled, *(torch.randn(n, 4) for n in (3, 5, 7, 1)))
