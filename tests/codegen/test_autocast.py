"""Autocast, inside of compiled functions and around them: the dtypes and the rounding of eager
code, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import jitpkg
from jitpkg.testing import Comparison, call

BACKENDS = ["jitpkg", "aot_eager", "eager"]
LAYER = torch.nn.TransformerEncoderLayer(3, 1, 8, batch_first=True).eval()
HOW = ["grad_fn", "version", "view", "idle strides"]


def same(backend: str) -> Comparison:
    return Comparison(backend=backend, ignore=HOW, relative=1e-6, absolute=1e-6)


def autocast(enabled: bool = True, **settings: Any) -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled, **settings)


def products(a: torch.Tensor, w: torch.Tensor) -> Any:
    h = torch.relu(a @ w) @ w
    b = a[None]
    return h, torch.bmm(b, w[None]), torch.addmm(w[0], a, w), torch.einsum("ij,jk->ik", a, w)


def of_both_policies(a: torch.Tensor, w: torch.Tensor) -> Any:
    h = F.linear(a, w, w[0])
    attended = F.scaled_dot_product_attention(h[None], h[None], h[None])
    return F.softmax(h, -1), attended, F.layer_norm(h, (8,)), F.mse_loss(h, a), h.exp().prod(1)


def joined(a: torch.Tensor, w: torch.Tensor) -> Any:
    h = a @ w
    return torch.cat([h, a]), torch.stack([h, a]), h + a, torch.addcmul(h, a, h)


def used_twice(a: torch.Tensor, w: torch.Tensor) -> Any:
    """What a parameter is cast to is kept, and its gradients are summed up as that."""
    return a @ w, a @ w, w @ w, (a * 2) @ w, w.to(torch.bfloat16) + 1


def islands(a: torch.Tensor, w: torch.Tensor) -> Any:
    h = a @ w
    with autocast(enabled=False):
        h = h.float() @ w
    with torch.autocast("cpu", dtype=torch.float16):
        h = h @ h.t()
    with autocast(cache_enabled=False):
        return h, a @ w, a @ w


PROGRAMS = [products, of_both_policies, joined, used_twice, islands]


def arguments(requires_grad: bool) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    a, w = torch.randn(6, 8), torch.randn(8, 8)
    return a.requires_grad_(requires_grad), w.requires_grad_(requires_grad)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_inside(f: Callable[..., Any], backend: str, requires_grad: bool) -> None:
    def program(a: torch.Tensor, w: torch.Tensor) -> Any:
        before = a @ w
        with autocast():
            made = f(a, w)
        return before, made, a @ w

    same(backend).assert_same(program, *arguments(requires_grad))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_around(f: Callable[..., Any], backend: str, requires_grad: bool) -> None:
    with autocast():
        same(backend).assert_same(f, *arguments(requires_grad))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_graph_that_ends_inside(backend: str, requires_grad: bool) -> None:
    def program(a: torch.Tensor, w: torch.Tensor) -> Any:
        with autocast():
            h = a @ w
            jitpkg.graph_break()
            h = (h * 2).relu()
        return h, a * 2

    same(backend).assert_same(program, *arguments(requires_grad))


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary(backend: str) -> None:
    def program(a: torch.Tensor, w: torch.Tensor) -> Any:
        with autocast():
            return a @ w, torch.softmax(a @ w, -1)

    w = torch.randn(8, 8, requires_grad=True)
    same(backend).assert_same_calls(program, *(call(torch.randn(n, 8), w) for n in (3, 4, 5)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_leaf_and_what_is_none(backend: str) -> None:
    """A graph that was compiled for a leaf gets what was computed, of which no cast is kept."""

    def program(w: torch.Tensor) -> Any:
        with autocast():
            return w @ w, w @ w, w @ w

    def gradient(f: Callable[..., Any], w: torch.Tensor, *, leaf: bool) -> torch.Tensor:
        w = w.detach().requires_grad_()
        sum(x.sum() for x in f(w if leaf else w * 1)).backward()
        assert w.grad is not None
        return w.grad

    torch.manual_seed(0)
    compiled, w = jitpkg.compile(program, backend=backend), torch.randn(8, 8)
    for leaf in (True, False, True):
        torch.testing.assert_close(
            gradient(compiled, w, leaf=leaf), gradient(program, w, leaf=leaf), rtol=0, atol=0
        )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_a_backward_pass_under_autocast(backend: str, forward: bool, kept: bool) -> None:
    """It casts what eager code casts there, whatever the forward pass was under."""

    def program(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with autocast(enabled=False):
            return (a @ w).sin() @ w

    def gradients(f: Callable[..., Any], *, under: bool) -> tuple[torch.Tensor, ...]:
        given = arguments(True)
        with autocast(enabled=forward):
            made = f(*given)
        with autocast(enabled=under):
            return torch.autograd.grad(made.sum(), given)

    if kept:
        gradients(jitpkg.compile(program, backend=backend), under=False)
    compiled = jitpkg.compile(program, backend=backend)
    for under in (True, False, True):
        found, expected = gradients(compiled, under=under), gradients(program, under=under)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.bilinear(x, x, x.reshape(1, 3, 3).expand(2, 3, 3)),
        lambda x: F.affine_grid(x[None, :2], [1, 1, 4, 4], align_corners=False),
        torch.linalg.pinv,
        torch.pinverse,
        lambda x: x.pinverse(),
        LAYER,
    ],
    ids="bilinear affine_grid linalg_pinv pinverse method layer".split(),
)
def test_ops_that_autocast_casts_inside_of(
    backend: str, inside: bool, function: Callable[..., Any]
) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        with autocast() if inside else nullcontext():
            return function(x)

    x = torch.linspace(-1, 1, 9).reshape(3, 3)
    with torch.no_grad(), nullcontext() if inside else autocast():
        found, expected = jitpkg.compile(program, backend=backend)(x), program(x)
    assert found.dtype is expected.dtype
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.matrix_exp,
        torch.matrix_exp,
        lambda x: x.roll(1, 0),
        lambda x: torch.fft.fftshift(x),
        lambda x: torch.isin(x, x.flatten()),
        torch.Tensor.unique_consecutive,
    ],
    ids="linalg_matrix_exp matrix_exp roll fftshift isin unique_consecutive".split(),
)
def test_ops_that_join_tensors_inside(
    backend: str, dtype: torch.dtype, function: Callable[..., Any]
) -> None:
    def outcome(program: Callable[..., Any]) -> Any:
        try:
            with torch.no_grad(), autocast():
                return program(torch.linspace(-1, 1, 9).reshape(3, 3).to(dtype))
        except RuntimeError as error:
            return str(error)

    found, expected = outcome(jitpkg.compile(function, backend=backend)), outcome(function)
    assert type(found) is type(expected)
    assert (
        found == expected
        if isinstance(expected, str)
        else torch.equal(found.float(), expected.float())
    )
