"""Ops in contexts in which they were once wrong: found by `make opinfo ARGS="--contexts all"`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from jitpkg.testing import Comparison, call

BACKENDS = ["jitpkg", "aot_eager", "eager"]
HOW = ["grad_fn", "version", "view"]

Make = Callable[[], tuple[Any, ...]]
PROGRAMS: dict[str, tuple[Callable[..., Any], Make]] = {}


def program(*make: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = (function, lambda: tuple(made() for made in make))
        return function

    return keep


def plain(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(shape)


def leaf(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(shape).requires_grad_()


def channels_last(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.empty(shape, memory_format=torch.channels_last).fill_(0.5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name: str, backend: str) -> None:
    function, make = PROGRAMS[name]
    torch.manual_seed(0)
    same = Comparison(backend=backend, ignore=HOW, relative=1e-5, absolute=1e-6)
    same.assert_same(function, *make())


# Beside gradients


@program(leaf(3, 4), lambda: torch.tensor([1, 3, 0]))
def one_hot(x: torch.Tensor, at: torch.Tensor) -> Any:
    return (x * F.one_hot(at, 4)).sum()


@program(leaf(3, 4), lambda: torch.tensor([1, 7, 0]))
def one_hot_out_of_range(x: torch.Tensor, at: torch.Tensor) -> Any:
    return (x * F.one_hot(at, 4)).sum()


@program(leaf(2), plain(3, 4))
def results_of_several_parts(w: torch.Tensor, x: torch.Tensor) -> Any:
    """Each call has tensors of its own."""
    return w * 2, [(torch.sort(x), torch.topk(x, 2), torch.var_mean(x), x.unbind()) for _ in "12"]


# Layouts


@program(channels_last(2, 1, 4, 4))
def zeros_like_gray_images(x: torch.Tensor) -> Any:
    return torch.zeros_like(x), torch.zeros_like(x) + 0, x.clone(), x.double(), F.relu6(x)


@program(lambda: torch.randn(1, 10, 10).transpose(0, 1), lambda: torch.randn(10, 5).t())
def broadcast_in_another_order(x: torch.Tensor, y: torch.Tensor) -> Any:
    y = y.t()[:, :1]
    return torch.heaviside(x, y), torch.copysign(x, y), torch.hypot(x, y)


@program(lambda: torch.randn(4, 1)[:, 0:1], lambda: torch.randn(5)[::5])
def one_element(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x.clone(), y.clone(), x.isinf(), 2 - y, y.sort(), y.flip(0), y.isposinf()


# Writes


@program(plain(5, 5, 5), plain(5), lambda: torch.rand(5))
def batch_norm_of_turned(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> Any:
    x = x.transpose(0, 2)
    return torch._native_batch_norm_legit(x, None, None, mean, var, True, 0.5, 0.6)


@program(plain(3), lambda: torch.empty(0), lambda: torch.empty(0))
def out_that_is_resized(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
    return torch.dot(x, x, out=a), torch.add(x, x, out=b)


@program(plain(4, 4))
def unsafe_views(x: torch.Tensor) -> Any:
    parts = torch.unsafe_chunk(x, 2)
    parts[0].add_(1)
    return parts, x.unsafe_split(2), x


# Others


@program(plain(2, 1), plain(3))
def sizes_are_sizes(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.broadcast_shapes(x.shape, y.shape), x + 1


@program(lambda: torch.zeros(0, 2), lambda: torch.zeros(0, dtype=torch.int64))
def take_of_nothing(x: torch.Tensor, at: torch.Tensor) -> Any:
    return torch.take(x, at)


@program(lambda: torch.zeros(37), lambda: -torch.zeros(37))
def ties_of_zeros(p: torch.Tensor, n: torch.Tensor) -> Any:
    every = [p, n]
    clamped = [(x.clamp(0.0, 6.0), x.clamp(min=-0.0), x.clamp(max=-0.0)) for x in every]
    return clamped, [F.relu6(x) for x in every], torch.fmin(p, n), torch.fmax(n, p)


@program(lambda: torch.tensor([torch.inf, -torch.inf, 3e38, -3e38, 1.6e38, 0.5]))
def gelu_of_the_largest(x: torch.Tensor) -> Any:
    """oneDNN, which eager code calls for some layouts, makes NaN of infinity."""
    return [F.gelu(v) for v in (x, x[::2], x[:1], x.view(2, 3).t(), x.bfloat16(), x.double())]


@program(lambda: torch.tensor([torch.inf, 3e38, 0.5, -0.5]).requires_grad_())
def gradient_of_gelu_of_the_largest(x: torch.Tensor) -> Any:
    return F.gelu(x)[1:]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fill", [True, False])
def test_what_is_empty_is_filled_where_that_is_asked_for(backend: str, fill: bool) -> None:
    def empty(x: torch.Tensor) -> Any:
        made = torch.empty(4), torch.empty_like(x), x.new_empty(2), torch.empty_strided((2,), (1,))
        ints = torch.empty(2, dtype=torch.int64)
        return [m.isnan() for m in made] if fill else x * 2, ints == ints.max(), x + made[0] * 0

    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = fill
    try:
        same = Comparison(backend=backend, ignore=[*HOW, *([] if fill else ["values"])])
        same.assert_same(empty, torch.ones(4))
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = before


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_a_gradient_depends_on(backend: str) -> None:
    def pooled(x: torch.Tensor, at: torch.Tensor, g: torch.Tensor) -> Any:
        op = torch.ops.aten.max_pool2d_with_indices_backward
        return op(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, at)

    def arguments(n: int) -> Any:
        x = torch.randn(2, 3, 2 * n, 4)
        made, at = F.max_pool2d(x, 2, return_indices=True)
        return call(x, at, torch.ones_like(made))

    same = Comparison(backend=backend, ignore=HOW, settings={"strict": True})
    same.assert_same_calls(pooled, *map(arguments, (3, 4, 5)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_to_tensors_of_inference_mode(backend: str) -> None:
    def normalized(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> Any:
        return torch.native_batch_norm(x, None, None, mean, var, True, 0.5, 1e-5)

    def raising(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> Any:
        return x * 2, mean.add_(1)

    with torch.inference_mode():
        given = torch.randn(4, 3), torch.zeros(3), torch.ones(3)
    same = Comparison(backend=backend, ignore=HOW, relative=1e-5, absolute=1e-6)
    same.assert_same(normalized, *given)
    same.assert_same(raising, *given)
    with torch.inference_mode():
        same.assert_same(normalized, *given)
        same.assert_same(raising, *given)
