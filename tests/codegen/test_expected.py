"""Ops of which something wrong is known: kernels never read memory that is not as they think."""

from __future__ import annotations

from operator import getitem
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import jitpkg
from jitpkg import config, events
from jitpkg.codegen.kernels.compile import compile_graph
from jitpkg.codegen.kernels.expected import as_laid_out
from jitpkg.codegen.kernels.reference import Interpreted
from jitpkg.errors import InternalError
from jitpkg.facts.tensor import facts_of


def graph_with(wrong: Tensor) -> torch.fx.Graph:
    """`frexp(x).mantissa + 1`, where frexp is known to return what `wrong` is."""
    aten = torch.ops.aten
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["facts"] = facts_of(torch.ones(4, 3))
    pair = graph.call_function(aten.frexp.Tensor, (x,))
    pair.meta["facts"] = (facts_of(wrong), facts_of(torch.ones(4, 3, dtype=torch.int32)))
    values = graph.call_function(getitem, (pair, 0))
    values.meta["facts"] = facts_of(wrong)
    made = graph.call_function(aten.add.Tensor, (values, 1))
    made.meta["facts"] = facts_of(torch.ones_like(wrong))
    graph.output((made,))
    return graph


@pytest.mark.parametrize(
    "wrong",
    [
        torch.ones(4, 3, dtype=torch.float64),
        torch.ones(3, 4),
        torch.ones(3, 4).t(),
    ],
    ids=["dtype", "sizes", "strides"],
)
def test_a_call_that_returns_something_else(wrong: Tensor) -> None:
    run = compile_graph("wrong", graph_with(wrong), Interpreted()).function
    with pytest.raises(InternalError, match="was known of it"):
        run(torch.ones(4, 3))


def test_a_call_that_returns_what_is_known() -> None:
    x = torch.randn(4, 3)
    (made,) = compile_graph("right", graph_with(torch.ones(4, 3)), Interpreted()).function(x)
    assert torch.equal(made, x.frexp().mantissa + 1)


def test_sizes_that_vary_are_not_looked_at() -> None:
    assert as_laid_out("op", torch.float32, (None, 4), (None, 1))(torch.ones(7, 4)).shape[0] == 7
    with pytest.raises(InternalError):
        as_laid_out("op", torch.float32, (None, 4), (None, 1))(torch.ones(7, 5))
    traced: list[events.Traced] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Traced):
            traced.append(event)

    def f(x: Tensor) -> Tensor:
        return torch.frexp(x * 2).mantissa + 1

    compiled = jitpkg.compile(f, backend="jitpkg", dynamic=True)
    with events.STREAM.listening(listen):
        for size in (3, 5, 7):
            x = torch.randn(size, 4)
            torch.testing.assert_close(compiled(x), f(x))
    assert len(traced) == 1


def test_the_original_code_runs(recwarn: pytest.WarningsRecorder) -> None:
    @torch.library.custom_op("jitpkg_tests::of_two_minds", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return x.double()

    @op.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    def f(x: Tensor) -> Tensor:
        return op(x * 2).abs() + 1

    x = torch.randn(5)
    with config.patch(strict=False, suppress_errors=True):
        made = jitpkg.compile(f, backend="jitpkg")(x)
    assert made.dtype is torch.float64
    assert torch.equal(made, f(x))


@pytest.mark.parametrize("parameters", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("grad", [False, True])
def test_statistics_of_narrow_dtypes(parameters: torch.dtype, grad: bool) -> None:
    """FakeTensor takes the new running mean and variance for float32 ones."""

    def f(x: Tensor, mean: Tensor, variance: Tensor, w: Tensor, b: Tensor) -> Any:
        return F.batch_norm(x, mean, variance, w, b, training=True, momentum=0.25)

    def args() -> list[Tensor]:
        torch.manual_seed(0)
        x = torch.randn(6, 3, 4).bfloat16().requires_grad_(grad)
        return [x, *(torch.rand(3).to(parameters) + 1 for _ in range(4))]

    expected, found = args(), args()
    wanted = f(*expected)
    made = jitpkg.compile(f, backend="jitpkg")(*found)
    torch.testing.assert_close(made, wanted)
    torch.testing.assert_close(found[1:], expected[1:])
    if grad:
        made.sum().backward()
        wanted.sum().backward()
        torch.testing.assert_close(found[0].grad, expected[0].grad, atol=1e-2, rtol=1e-2)
