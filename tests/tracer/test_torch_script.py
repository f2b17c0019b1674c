"""Functions of TorchScript, scripted and traced, that compiled functions call."""

# TorchScript reads annotations: they must not be strings here.

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.testing.same import Comparison, call

Program = Callable[..., Any]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TorchScript is deprecated

    @torch.jit.script
    def swish(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
        return x.mul_(x.sigmoid()) if inplace else x.mul(x.sigmoid())

    @torch.jit.script
    def bias_gelu(y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        x = bias + y
        return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))

    @torch.jit.script
    def pooled(x: torch.Tensor) -> torch.Tensor:
        b, c = x.shape
        return x.view(b, c // 2, 2).sum(-1) / (b * 2 - 1 + c)

    @torch.jit.script
    def gated(x: torch.Tensor):  # type: ignore[no-untyped-def]
        a, b = x.chunk(2, dim=-1)
        return torch.nn.functional.softmax(a, dim=-1) * b, [a, b]

    @torch.jit.script
    def with_dtypes(
        x: torch.Tensor, scale: float, other: torch.Tensor | None = None
    ) -> torch.Tensor:
        y = x.to(torch.float64) * scale + torch.zeros([2, 4], dtype=torch.float64)
        if other is not None:
            y = y + other.double()
        return torch.cat([y, y], dim=0).contiguous(memory_format=torch.contiguous_format)

    @torch.jit.script
    def looping(x: torch.Tensor, count: int) -> torch.Tensor:
        for k in range(count):
            x = x + k
        return x

    @torch.jit.script
    def powers(x: torch.Tensor, k: int) -> torch.Tensor:
        return x * (k**2)

    @torch.jit.script
    def by_data(x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            x = x * 2
        return x

    @torch.jit.script
    def strict(x: torch.Tensor) -> torch.Tensor:
        if x.dim() != 2:
            raise ValueError("two dims are needed")
        return x + 1

    traced = torch.jit.trace(lambda x: (x.reshape(-1) * 2).sigmoid(), torch.ones(2, 2))
    traced_with_sizes = torch.jit.trace(lambda x: x.view(x.size(0), -1) * 2, torch.ones(2, 2))
    weighted = torch.jit.trace(torch.nn.Linear(4, 2).eval().forward, torch.ones(1, 4))


def activations(x: Any) -> Any:
    return swish(x) + bias_gelu(x, x[0]), swish(x, inplace=False)


def in_place(x: Any) -> Any:
    y = x + 1
    z = swish(y, True)
    return y, z, z is y


def of_an_argument(x: Any) -> Any:
    return swish(x, inplace=True) + 1


def sizes(x: Any) -> Any:
    return pooled(x * 2)


def several(x: Any) -> Any:
    product, parts = gated(x)
    return product, parts, len(parts)


def dtypes(x: Any) -> Any:
    return with_dtypes(x, 0.5), with_dtypes(x, 2.0, x), with_dtypes(x, other=x + 1, scale=1.5)


def of_traces(x: Any) -> Any:
    return traced(x) + 1


ONE_GRAPH: list[Program] = [activations, in_place, sizes, several, dtypes, of_traces]


def trace_with_sizes(x: Any) -> Any:
    return traced_with_sizes(x) + 1


def loops(x: Any) -> Any:
    return looping(x * 2, 3) + 1


def numbers(x: Any) -> Any:
    return powers(x.to(torch.int64), 3) + 1


def integer_for_float(x: Any) -> Any:
    return with_dtypes(x.to(torch.int64), 2) + 1


def data(x: Any) -> Any:
    return by_data(x + 1) * 2


def raises(x: Any) -> Any:
    return strict(x) + strict(x[0])


def handled(x: Any) -> Any:
    try:
        return strict(x[0])
    except Exception as error:
        return x, type(error).__name__


def wrong_arguments(x: Any) -> Any:
    try:
        return swish(x, 3)
    except Exception as error:
        return x, type(error).__name__


def asked(x: Any) -> Any:
    return x + 1, isinstance(swish, torch.jit.ScriptFunction), swish


LEFT: list[Program] = [
    of_an_argument,
    trace_with_sizes,
    loops,
    numbers,
    integer_for_float,
    data,
    raises,
    handled,
    wrong_arguments,
    asked,
]


@pytest.mark.parametrize("disturb", ["", "break"])
@pytest.mark.parametrize("program", [*ONE_GRAPH, *LEFT], ids=lambda program: program.__name__)
def test_as_eager_code(program: Program, disturb: str) -> None:
    Comparison(settings={"disturb": disturb}).assert_same(program, torch.randn(2, 4))


@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_one_graph(program: Program) -> None:
    jitpkg.compile(program, backend="eager", fullgraph=True)(torch.randn(2, 4))


@pytest.mark.parametrize("program", [activations, sizes, of_traces], ids=lambda p: p.__name__)
def test_with_kernels_and_gradients(program: Program) -> None:
    compiled = jitpkg.compile(program, fullgraph=True)
    given = torch.randn(2, 4, requires_grad=True)
    expected, found = (f(given) for f in (program, compiled))
    torch.testing.assert_close(found, expected)
    one, other = (x[0] if isinstance(x, tuple) else x for x in (expected, found))
    gradients = [torch.autograd.grad(y.sum(), given)[0] for y in (one, other)]
    torch.testing.assert_close(*gradients)


def test_sizes_that_vary() -> None:
    given = [call(torch.randn(n, 2 * m)) for n, m in ((2, 2), (3, 2), (4, 3), (5, 4))]
    Comparison().assert_same_calls(sizes, *given)
    compiled = jitpkg.compile(sizes, backend="eager", fullgraph=True, dynamic=True)
    found: list[jitpkg.events.Event] = []
    with jitpkg.events.STREAM.listening(found.append):
        for each in given:
            torch.testing.assert_close(compiled(*each.args), sizes(*each.args))
    assert sum(isinstance(event, jitpkg.events.GraphCompiled) for event in found) == 1


def test_without_gradients() -> None:
    def program(x: Any) -> Any:
        with torch.no_grad():
            y = swish(x)
        return y * bias_gelu(x, x)

    def formula(x: Any) -> Any:
        z = x + x
        gelu = z * 0.5 * (1.0 + torch.tanh(0.79788456 * z * (1 + 0.044715 * z * z)))
        return (x * x.sigmoid()).detach() * gelu

    compiled = jitpkg.compile(program, fullgraph=True)
    # What TorchScript itself gives as this gradient depends on how often a function has run
    # before, and where: it may be wrong by half, so the formula is what counts.
    for _ in range(2):
        given = torch.randn(2, 4, requires_grad=True)
        expected, found = (f(given) for f in (formula, compiled))
        torch.testing.assert_close(found, expected)
        gradients = [torch.autograd.grad(y.sum(), given)[0] for y in (expected, found)]
        torch.testing.assert_close(gradients[1], gradients[0])


def test_under_autocast() -> None:
    def program(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = bias_gelu(x @ x.T, x.sum())
        return y, y.dtype

    Comparison().assert_same(program, torch.randn(2, 4))


def test_a_weight_that_a_trace_holds() -> None:
    def program(x: Any) -> Any:
        return weighted(x) + 1

    Comparison().assert_same(program, torch.randn(3, 4))
