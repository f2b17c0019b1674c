"""`interpolate` by factors: elements come from where ATen's kernels take them."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.nn import functional

import jitpkg
from tests.codegen.examples import examples
from tests.portions import share

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
FACTORS = st.sampled_from([0.5, 1.0, 1.1, 1.25, 1.3, 1.9, 2.0, 2.1, 2.3, 2.5, 3.3, 1, 2, 3])


@st.composite
def resized(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The size of an image, and arguments of `interpolate`."""
    rank = draw(st.integers(1, 3))
    size = tuple(draw(st.integers(2, 11 if rank > 1 else 200)) for _ in range(rank))
    mode = draw(st.sampled_from(["nearest", "nearest-exact", LINEAR[rank]]))
    named: dict[str, Any] = {"mode": mode}
    if draw(st.booleans()):
        named["scale_factor"] = draw(FACTORS)
    else:
        kind = draw(st.sampled_from([list, tuple]))
        named["scale_factor"] = kind(draw(FACTORS) for _ in range(rank))
    if mode == LINEAR[rank]:
        named["align_corners"] = draw(st.sampled_from([None, True, False]))
    if draw(st.booleans()):
        named["recompute_scale_factor"] = draw(st.booleans())
    return size, named


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@given(case=resized(), requires_grad=st.booleans(), dynamic=st.sampled_from([None, True]))
@examples(share(40, 2))
def test_factors(
    backend: str, case: tuple[Any, dict[str, Any]], requires_grad: bool, dynamic: bool | None
) -> None:
    size, named = case
    x = torch.randn(2, 2, *size, requires_grad=requires_grad)

    def double(x: Tensor) -> Tensor:
        return functional.interpolate(x, **named) * 2

    want = double(x)
    got = jitpkg.compile(double, backend=backend, dynamic=dynamic)(x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)  # weights are rounded
    if requires_grad:
        weights = torch.randn(want.shape)
        gradients = [torch.autograd.grad((made * weights).sum(), x)[0] for made in (got, want)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["aot_eager", "jitpkg"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_sizes_that_vary(backend: str, mode: str) -> None:
    """From 10 elements on, 1.1 times as many are more."""

    def longer(x: Tensor) -> Tensor:
        return functional.interpolate(x, scale_factor=1.1, mode=mode) + 1

    compiled = jitpkg.compile(longer, backend=backend, dynamic=True)
    for n in (7, 9, 10, 12, 23, 8):
        x = torch.randn(1, 2, n, 5, requires_grad=True)
        torch.testing.assert_close(compiled(x), longer(x))


def test_arguments_in_any_order() -> None:
    x = torch.randn(1, 2, 3, requires_grad=True)
    for function in (
        lambda x: functional.interpolate(scale_factor=1.3, input=x),
        lambda x: functional.interpolate(x, None, [1.3], "nearest"),
        lambda x: torch._C._nn.upsample_nearest1d(x, None, [1.3]),
        lambda x: torch._C._nn.upsample_linear1d(x, None, False, (1.3,)),
        lambda x: functional.interpolate(x, size=4),
    ):
        compiled = jitpkg.compile(function, backend="aot_eager")
        torch.testing.assert_close(compiled(x), function(x))
