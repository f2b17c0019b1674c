"""Kernels that users wrote themselves, in functions that are traced."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import jitpkg

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

pytestmark = pytest.mark.usefixtures("by_triton")


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask) + tl.load(y_ptr + at, mask), mask)


def add(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(out.numel(), 64),)](x, y, out, out.numel(), BLOCK=64)
    return out


def launched(x: Tensor) -> Tensor:
    y = x.sin() * 2
    return add(y, x + 1).softmax(-1)


def in_a_loop(x: Tensor) -> Tensor:
    for k in range(3):
        x = add(x, x * k)
    return x.exp()


@torch.library.triton_op("jitpkg_tests::added", mutates_args={})
def added(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(add_kernel)[(triton.cdiv(out.numel(), 64),)](
        x, y, out, out.numel(), BLOCK=64
    )
    return out


def as_an_op(x: Tensor) -> Tensor:
    return added(x.cos(), x) * 2


def wraps() -> bool:
    try:
        torch.library.wrap_triton(add_kernel)
    except RuntimeError:  # torch 2.11
        return False
    return True


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("f", [launched, in_a_loop, as_an_op])
def test_like_eager(f: object, backend: str) -> None:
    assert callable(f)
    if f is as_an_op and not wraps():
        pytest.skip("this PyTorch does not wrap kernels that are interpreted")
    fast = jitpkg.compile(f, backend=backend)
    for size in ((5, 7), (5, 7), (3, 100)):
        x = torch.randn(size)
        torch.testing.assert_close(fast(x), f(x))
