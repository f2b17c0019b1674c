"""Floats that vary, as tensors without dims: bit for bit what eager code makes of the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import jitpkg
from jitpkg import config, events
from tests.codegen.examples import examples

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, s: x + s,
    "add first": lambda x, s: s + x,
    "sub": lambda x, s: x - s,
    "sub first": lambda x, s: s - x,
    "mul": lambda x, s: x * s,
    "div": lambda x, s: x / s,
    "several": lambda x, s: (x * s + x) * s - s,
    "method": lambda x, s: torch.mul(x, s).add(s).div(s),
    "written": lambda x, s: x.clone().mul_(s).sub_(s),
    "divided": lambda x, s: s / x,
    "compared": lambda x, s: (x > s, x.clamp(min=s)),
    "bounded": lambda x, s: torch.where(x > 0, x * s, s),
}

NUMBERS = st.floats(-1e4, 1e4) | st.sampled_from([0.0, -0.0, 1.0, 1 / 3, 1e-30])
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16])


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("op", OPS)
@examples(4)
@given(numbers=st.lists(NUMBERS, min_size=4, max_size=6, unique=True), dtype=DTYPES)
def test_bits(op: str, backend: str, numbers: list[float], dtype: torch.dtype) -> None:
    f = OPS[op]
    compiled = jitpkg.compile(f, backend=backend)
    x = torch.linspace(-3, 3, 37).to(dtype)
    for number in numbers:
        expected, found = f(x, number), compiled(x, number)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("op", ["add", "add first", "sub", "sub first", "mul", "div", "several"])
@examples(4)
@given(number=NUMBERS, dtype=DTYPES)
def test_tensors_without_dims(op: str, number: float, dtype: torch.dtype) -> None:
    """ATen's products and quotients do not round them to a narrow dtype; its sums do."""
    f = OPS[op]
    x, s = torch.linspace(-3, 3, 37).to(dtype), torch.tensor(number, dtype=torch.float64)
    found = jitpkg.compile(f, backend="jitpkg")(x, s)
    torch.testing.assert_close(found, f(x, s), rtol=0, atol=0, equal_nan=True)


@examples(5)
@given(numbers=st.lists(st.floats(-4, 4), min_size=4, max_size=6, unique=True))
def test_gradients(numbers: list[float]) -> None:
    weight = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()

    def loss(x: torch.Tensor, rate: float) -> torch.Tensor:
        return ((x @ weight) * rate - rate).square().sum()

    heard: list[Any] = []
    compiled = jitpkg.compile(loss, backend="jitpkg")
    with events.STREAM.listening(heard.append):
        for number in numbers:
            x = torch.ones(2, 3)
            (expected,) = torch.autograd.grad(loss(x, number), weight)
            (found,) = torch.autograd.grad(compiled(x, number), weight)
            torch.testing.assert_close(found, expected)
    assert sum(isinstance(event, events.Fused) for event in heard) <= 4  # two halves, twice


def test_a_default_dtype_and_a_device_context() -> None:
    """The tensor that stands for a float lies where the others do, and is of float64."""
    compiled = jitpkg.compile(lambda x, s: x * s, backend="jitpkg")
    x = torch.ones(3)
    with config.patch(recompile_limit=20):
        for number in (0.1, 0.2, 0.3):
            torch.set_default_dtype(torch.float64)
            try:
                assert torch.equal(compiled(x, number), x * number)
            finally:
                torch.set_default_dtype(torch.float32)
            with torch.device("meta"):
                assert torch.equal(compiled(x, number), x * number)
            assert torch.equal(compiled(x, number), x * number)


@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor])
def test_tensors_of_numbers(make: Callable[..., Any]) -> None:
    """Also by keyword: all of the function is in its graph."""

    def function(x: torch.Tensor, number: float) -> tuple[torch.Tensor, ...]:
        return x + make(data=number), x + make(number), make(number, dtype=torch.float64)

    x, compiled = torch.arange(3.0), jitpkg.compile(function)
    for number in (0.1, 0.7, 1 / 3, -0.0):
        for found, wanted in zip(compiled(x, number), function(x, number), strict=True):
            assert found.dtype == wanted.dtype and torch.equal(found, wanted)
    assert jitpkg.explain(function)(x, 0.1).op_count == 5


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor, torch.scalar_tensor])
def test_nobody_has_written_to_them(make: Callable[..., Any], backend: str) -> None:
    def function(x: torch.Tensor, number: float) -> torch.Tensor:
        return make(number)

    compiled = jitpkg.compile(function, backend=backend)
    for number in (0.5, 1.5, 2.5, 3.5):
        assert compiled(torch.ones(2), number)._version == 0
