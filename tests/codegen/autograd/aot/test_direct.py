"""Training graphs that are called without AOTAutograd's runtime: like eager code in each way."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg

both = pytest.mark.parametrize("backend", ["aot_eager", "jitpkg"])
Function = Callable[..., Any]


def leaf(*sizes: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=generator, dtype=torch.float64).requires_grad_()


def product(x: Tensor, y: Tensor) -> Tensor:
    return x.sin() * y


def several(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return x * y, x.exp(), x.argmax(), y.detach() * 2


def is_direct(result: Tensor) -> bool:
    return type(result.grad_fn).__name__ == "KernelsBackward"


@both
def test_simple_graphs_are_called_directly(backend: str) -> None:
    compiled = jitpkg.compile(product, backend=backend)
    assert is_direct(compiled(leaf(3, 4), leaf(3, 4, seed=1)))


GRADIENTS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": torch.cos,
    "expanded": lambda r: torch.ones((), dtype=r.dtype).expand_as(r),
    "transposed": lambda r: torch.randn(r.shape[::-1], dtype=r.dtype).t(),
    "a slice": lambda r: torch.randn(r.shape[0], 2 * r.shape[1], dtype=r.dtype)[:, ::2],
    "negated": lambda r: torch._neg_view(torch.randn(r.shape, dtype=r.dtype)),
}


@both
@pytest.mark.parametrize("kind", GRADIENTS)
def test_gradients_of_any_layout(kind: str, backend: str) -> None:
    x, y = leaf(3, 4), leaf(3, 4, seed=1)
    torch.manual_seed(0)
    gradient = GRADIENTS[kind](torch.ones(3, 4, dtype=torch.float64))
    expected = torch.autograd.grad(product(x, y), (x, y), gradient)
    result = jitpkg.compile(product, backend=backend)(x, y)
    assert is_direct(result)
    found = torch.autograd.grad(result, (x, y), gradient)
    torch.testing.assert_close(found, expected)


def gradients(function: Function, used: Sequence[int], *inputs: Tensor) -> list[Tensor | None]:
    """Of the sum of some results."""
    results = function(*inputs)
    total: Any = sum((results[k] * (k + 1)).sum() for k in used)
    return list(torch.autograd.grad(total, inputs, allow_unused=True))


@both
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_gradients_of_some_results(used: tuple[int, ...], backend: str) -> None:
    x, y = leaf(3, 4), leaf(3, 4, seed=1)
    compiled = jitpkg.compile(several, backend=backend)
    assert is_direct(compiled(x, y)[0])
    assert [r.requires_grad for r in compiled(x, y)] == [True, True, False, False]
    expected, found = gradients(several, used, x, y), gradients(compiled, used, x, y)
    assert [g is None for g in found] == [g is None for g in expected]
    torch.testing.assert_close(found, expected)


@both
def test_an_input_that_nothing_depends_on(backend: str) -> None:
    def ignoring(x: Tensor, y: Tensor) -> Tensor:
        return x.sin() + y.detach()

    x, y = leaf(3), leaf(3, seed=1)
    result = jitpkg.compile(ignoring, backend=backend)(x, y)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(result.sum(), (x, y))
    result = jitpkg.compile(ignoring, backend=backend)(x, y)
    result.sum().backward()
    assert x.grad is not None
    assert y.grad is None
    NoGradient.calls = 0
    result = jitpkg.compile(ignoring, backend=backend)(x, NoGradient.apply(y))
    result.sum().backward()
    assert NoGradient.calls == 0


@both
def test_an_input_without_gradient_and_the_same_input_twice(backend: str) -> None:
    x, y = leaf(3), leaf(3, seed=1).detach()
    compiled = jitpkg.compile(product, backend=backend)
    for inputs in ((x, y), (x, x)):
        expected = torch.autograd.grad(product(*inputs).sum(), x)
        torch.testing.assert_close(torch.autograd.grad(compiled(*inputs).sum(), x), expected)


class NoGradient(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> None:
        NoGradient.calls += 1


@both
def test_an_undefined_gradient_stays_undefined(backend: str) -> None:
    x, y = leaf(3), leaf(3, seed=1)
    result = jitpkg.compile(product, backend=backend)(x, y)
    NoGradient.apply(result).sum().backward()
    assert x.grad is None
    assert y.grad is None


@both
def test_a_graph_that_is_kept_runs_again_and_no_other(backend: str) -> None:
    x, y = leaf(3), leaf(3, seed=1)
    result = jitpkg.compile(product, backend=backend)(x, y).sum()
    first = torch.autograd.grad(result, (x, y), retain_graph=True)
    second = torch.autograd.grad(result, (x, y))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="a second time"):
        torch.autograd.grad(result, (x, y))


@both
def test_a_graph_that_saves_nothing_runs_backward_again(backend: str) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        return x.clone() - y.sum()

    results = []
    for f in (program, jitpkg.compile(program, backend=backend)):
        x, y = leaf(3), leaf(3, seed=1)
        result = f(x, y).sum()
        for _ in range(3):
            result.backward()
        results.append((x.grad, y.grad))
    torch.testing.assert_close(*results, rtol=0, atol=0)


@both
def test_what_was_saved_must_not_be_written_to(backend: str) -> None:
    x, y = leaf(3), leaf(3, seed=1)
    result = jitpkg.compile(product, backend=backend)(x, y).sum()
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


@both
def test_results_can_be_written_to(backend: str) -> None:
    x, y = leaf(3), leaf(3, seed=1)
    result = jitpkg.compile(product, backend=backend)(x, y)
    result.mul_(3)
    expected = torch.autograd.grad(product(x, y).mul(3).sum(), (x, y))
    torch.testing.assert_close(torch.autograd.grad(result.sum(), (x, y)), expected)


@both
def test_second_derivatives(backend: str) -> None:
    x, y = leaf(3), leaf(3, seed=1)
    found = []
    for function in (jitpkg.compile(product, backend=backend), product):
        first = torch.autograd.grad(function(x, y).sum(), (x, y), create_graph=True)
        found.append([*first, *torch.autograd.grad(first[0].exp().sum(), (x, y))])
    torch.testing.assert_close(*found)


@both
def test_without_grad_in_inference_and_under_autocast(backend: str) -> None:
    def scaled(x: Tensor, y: Tensor) -> Tensor:
        return (x @ y).sin()

    x, y = (leaf(4, 4, seed=k).detach().float().requires_grad_() for k in (0, 1))
    compiled = jitpkg.compile(scaled, backend=backend)
    assert compiled(x, y).requires_grad
    with torch.no_grad():
        assert not compiled(x, y).requires_grad
    with torch.inference_mode():
        assert compiled(x, y).is_inference()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = compiled(x, y)
        assert result.dtype is torch.bfloat16
        assert result.requires_grad
    assert is_direct(compiled(x, y))


@both
def test_under_transforms_and_hooks(backend: str) -> None:
    x, y = leaf(3, 4), leaf(3, 4, seed=1)
    compiled = jitpkg.compile(product, backend=backend)
    expected = product(x, y)
    compiled(x, y)
    torch.testing.assert_close(torch.func.vmap(compiled)(x, y), expected)
    tangents = torch.ones_like(x), torch.zeros_like(y)
    found = torch.func.jvp(compiled, (x, y), tangents)
    torch.testing.assert_close(found, torch.func.jvp(product, (x, y), tangents))
    seen: list[Tensor] = []

    def pack(saved: Tensor) -> Tensor:
        seen.append(saved)
        return saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        result = compiled(x, y)
    assert seen
    found = torch.autograd.grad(result.sum(), (x, y))
    torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), (x, y)))


@both
def test_what_was_saved_dies_with_the_graph(backend: str) -> None:
    x, y = leaf(64), leaf(64, seed=1)
    compiled = jitpkg.compile(lambda x, y: (x.sin() * y).exp(), backend=backend)
    result = compiled(x, y)
    saved = [weakref.ref(t) for t in result.grad_fn.saved_tensors]
    node = weakref.ref(result.grad_fn)
    result.sum().backward()
    del result
    gc.collect()
    assert node() is None
    alive = [ref() for ref in saved]
    assert all(each is None or each is x or each is y for each in alive)


@both
def test_backward_passes_in_other_threads(backend: str) -> None:
    compiled = jitpkg.compile(several, backend=backend)
    x, y = leaf(3, 4), leaf(3, 4, seed=1)
    compiled(x, y)
    sets = ((0,), (1,), (0, 1))
    expected = [gradients(several, used, x, y) for used in sets]
    wrong: list[str] = []

    def work(number: int) -> None:
        for k in range(20):
            which = (number + k) % len(sets)
            found = gradients(compiled, sets[which], x, y)
            try:
                torch.testing.assert_close(found, expected[which])
            except AssertionError as error:
                wrong.append(str(error))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


INDIRECT: dict[str, Function] = {
    "a view of an input": lambda x, y: (x.t(), x * y),
    "an input": lambda x, y: (x, x * y),
    "two views of one result": lambda x, y: (lambda z: (z, z[0]))(x * y),
    "one result twice": lambda x, y: (lambda z: (z, z))(x * y),
    "no gradient inside": lambda x, y: (_without_grad(x), x * y),
}


def _without_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x * 2


@both
@pytest.mark.parametrize("name", INDIRECT)
def test_other_graphs_take_the_long_way(name: str, backend: str) -> None:
    function = INDIRECT[name]
    x, y = leaf(3, 4), leaf(3, 4, seed=1)
    compiled = jitpkg.compile(function, backend=backend)
    results, expected = compiled(x, y), function(x, y)
    torch.testing.assert_close(results, expected)
    assert [r.requires_grad for r in results] == [e.requires_grad for e in expected]
    assert [r._is_view() for r in results] == [e._is_view() for e in expected]
    for result, wanted in zip(results, expected, strict=True):
        if result.requires_grad:
            found = torch.autograd.grad(result.sum(), x, retain_graph=True)
            torch.testing.assert_close(
                found, torch.autograd.grad(wanted.sum(), x, retain_graph=True)
            )
