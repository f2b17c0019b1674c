"""Arithmetic on bfloat16: all of its values, NaNs of all payloads too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import jitpkg
from tests.codegen.cpu.support import needs_llvm

pytestmark = needs_llvm

EVERY = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
OTHERS = torch.cat([EVERY.roll(n).flip(0) for n in (0, 4099, 21001, 32749)])
"""Beside each value four others."""


def every() -> Tensor:
    return EVERY.repeat(4)


EXACT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda x, y: x + y,
    "difference": lambda x, y: x - y,
    "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / y,
    "root": lambda x, y: x.sqrt(),
    "doubled": lambda x, y: (x * 2 + y) * 4,
    "halved": lambda x, y: x * 0.5 + y,
    "number": lambda x, y: x * 1.2999999523162842 - 0.1,
    "signs": lambda x, y: (-x).abs().copysign(y) * y,
    "larger": lambda x, y: torch.maximum(x, y) + torch.minimum(x, -y),
    "chosen": lambda x, y: torch.where(x > y, x * y, -y) + 1.0,
    "whole": lambda x, y: x.floor() + y.round() - x.ceil() * y.trunc(),
    "relu": lambda x, y: torch.relu(x * y - x),
    "nan": lambda x, y: x.masked_fill(x > 1, float("nan")) * y,
    "wide": lambda x, y: (x.float() * 1.1 + y.float()).to(torch.bfloat16),
    "whole numbers": lambda x, y: y + torch.arange(len(x)).to(torch.bfloat16) * x,
    "running": lambda x, y: x + y.reshape(-1, 8).clamp(-9, 9).cumsum(1).reshape(-1),
    "long": lambda x, y: ((x + y) * y - x * 3.0) / (y - 1.5) + (x - y) * (x + 0.1),
}


@pytest.mark.parametrize("name", EXACT)
def test_arithmetic_is_rounded_as_by_aten(name: str) -> None:
    x, y = every(), OTHERS
    function = EXACT[name]
    found, wanted = jitpkg.compile(function, backend="jitpkg")(x, y), function(x, y)
    assert torch.equal(found.isnan(), wanted.isnan())
    same = found.view(torch.int16) == wanted.view(torch.int16)  # signs of zeros too
    assert (same | wanted.isnan()).all()


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    **{name: getattr(torch, name) for name in ("exp", "tanh", "erf", "log", "sinh", "cosh")},
    **{name: getattr(torch, name) for name in ("sin", "log1p", "exp2", "rsqrt", "reciprocal")},
    "sigmoid": torch.sigmoid,
    "gelu": functional.gelu,
    "gelu, tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_within_a_step_of_aten(name: str) -> None:
    function, x = FUNCTIONS[name], every()
    found = jitpkg.compile(lambda x: function(x), backend="jitpkg")(x)
    exact = function(x.double())
    near = _are_near(found, exact.to(x.dtype))
    assert near.double().mean() > 0.98
    near |= _are_near(found, function(x))  # ATen loses subnormals, and what overflows on the way
    near |= (found - exact).abs() < 1e-6  # where gelu takes the difference of nearly equal numbers
    assert near.all()


def _are_near(a: Tensor, b: Tensor) -> Tensor:
    steps = (_ordered(a) - _ordered(b)).abs()
    return torch.where(a.isnan() | b.isnan(), a.isnan() == b.isnan(), steps <= 1)


def _ordered(x: Tensor) -> Tensor:
    """Numbers such that neighbouring values have neighbouring ones."""
    bits = x.view(torch.int16).to(torch.int32)
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)


def test_nans_of_float32_with_a_full_low_half_stay_nans() -> None:
    bits = [0x7FFFFFFF, -1, 0x7F800001, -0x7FFFFF, 0x7FC0FFFF, 0x7FFF8000, 0x7FBFFFFF]
    x = torch.tensor(bits * 9, dtype=torch.int32).view(torch.float32)
    for function in (
        lambda x: x.to(torch.bfloat16),
        lambda x: (x * 2 - x).to(torch.bfloat16),
        lambda x: x.amax().to(torch.bfloat16),
        lambda x: torch.where(x > 1, 1.0, x).to(torch.bfloat16),
    ):
        assert jitpkg.compile(function, backend="jitpkg")(x).isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [300, 40_009, 140_003, (1 << 22) + 1037])
def test_any_number_of_vectors_side_by_side(count: int, dtype: torch.dtype) -> None:
    """There are the more of them the longer a tensor is."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.erf(torch.tanh(x * 1.25 + y) - y * 0.5)
        return x

    x, y = torch.linspace(-3, 3, count).to(dtype), torch.linspace(2, -1, count).to(dtype)
    found, wanted = jitpkg.compile(function, backend="jitpkg")(x, y), function(x, y)
    torch.testing.assert_close(
        found, wanted, rtol=1e-5 if dtype is torch.float32 else 0.02, atol=1e-6
    )
