"""Kernels on a GPU, where one is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import jitpkg
from tests.codegen.cache.graphs.support import Process
from tests.codegen.test_own import CASES, COLUMNS, ROWS, with_gradients

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="it needs a GPU")

DTYPES = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 4e-2}


def inputs_of(name: str, dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(0)
    every = [torch.randn(ROWS, COLUMNS), *CASES[name][1]()]
    return [x.to("cuda", dtype if x.is_floating_point() else x.dtype) for x in every]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_inference(name: str, dtype: torch.dtype, mode: str) -> None:
    function, off = CASES[name][0], DTYPES[dtype]
    fast = jitpkg.compile(function, backend="jitpkg", mode=mode)
    for k in range(5):  # a CUDA graph is recorded at the third
        inputs = [x + k if x.is_floating_point() else x for x in inputs_of(name, dtype)]
        torch.testing.assert_close(fast(*inputs), function(*inputs), rtol=off, atol=off)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("name", CASES)
def test_training(name: str, mode: str) -> None:
    function, inputs = CASES[name][0], inputs_of(name, torch.float32)
    fast = jitpkg.compile(function, backend="jitpkg", mode=mode)
    for _ in range(5):
        got, want = with_gradients(fast, inputs), with_gradients(function, inputs)
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)


def chain(x: Tensor) -> Any:
    return (x.sin() * 2).exp() - x, x.sum(-1)


def check(function: Callable[..., Any], fast: Callable[..., Any], x: Tensor) -> None:
    torch.testing.assert_close(fast(x), function(x), rtol=1e-4, atol=1e-4)


def test_pointers_that_are_no_multiples_of_16() -> None:
    fast = jitpkg.compile(chain, backend="jitpkg")
    memory = torch.randn(64 * 64 + 1, device="cuda")
    for start in (0, 1, 0):
        check(chain, fast, memory[start : start + 64 * 64].view(64, 64))


def test_on_the_current_stream() -> None:
    fast = jitpkg.compile(chain, backend="jitpkg")
    x = torch.randn(4096, 4096, device="cuda")
    check(chain, fast, x)
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(20):
            x = fast(x.cos())[0].tanh()
        want = x.double().sum()
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.isfinite(want)
    check(chain, fast, x)


def test_sizes_that_vary_and_nothing_at_all() -> None:
    fast = jitpkg.compile(chain, backend="jitpkg")
    for size in ((4, 5), (7, 64), (130, 33), (0, 5), (5, 0), (1, 1)):
        check(chain, fast, torch.randn(size, device="cuda"))


def test_statistics_that_are_updated_after_they_were_used() -> None:
    def twice(x: Tensor, w: Tensor, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        used = functional.batch_norm(x, mean, var, w, training=False)
        return used, functional.batch_norm(x, mean, var, w, training=True, momentum=0.5)

    gradients = []
    with torch.backends.cudnn.flags(enabled=False):
        for function in (jitpkg.compile(twice, backend="jitpkg"), twice):
            torch.manual_seed(0)
            x, w, mean, var = (torch.rand(n, device="cuda") for n in ((8, 4), 4, 4, 4))
            results = function(x.requires_grad_(), w.requires_grad_(), mean, var)
            found = torch.autograd.grad(sum(r.sin().sum() for r in results), (x, w))
            gradients.append([*found, mean, var])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def test_numbers_in_main_memory() -> None:
    def scaled(x: Tensor, by: Tensor) -> Tensor:
        return (x * by).sin() + by

    fast = jitpkg.compile(scaled, backend="jitpkg")
    x, by = torch.randn(8, 8, device="cuda"), torch.tensor(2.5)
    torch.testing.assert_close(fast(x, by), scaled(x, by))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="it needs two GPUs")
def test_on_the_device_of_the_tensors() -> None:
    fast = jitpkg.compile(chain, backend="jitpkg")
    for device in ("cuda:1", "cuda:0"):
        check(chain, fast, torch.randn(64, 64, device=device))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_later_process_finds_the_graph(process: Process, mode: str, requires_grad: bool) -> None:
    def normed(x: Tensor, w: Tensor) -> Tensor:
        return functional.layer_norm((x @ w).relu(), (8,)).softmax(-1)

    x = torch.randn(16, 8, device="cuda", requires_grad=requires_grad)
    w = torch.randn(8, 8, device="cuda", requires_grad=requires_grad)
    for found in (False, True):
        fast = process.compiled(normed, mode=mode)
        for _ in range(5):
            results = [fast(x, w), normed(x, w)]
            if requires_grad:
                results += [torch.autograd.grad(r.sin().sum(), w)[0] for r in results]
            torch.testing.assert_close(results[::2], results[1::2], rtol=1e-3, atol=1e-4)
        assert bool(process.made) is not found


@pytest.mark.parametrize("dynamic", [False, True])
def test_random_numbers_are_eager_s(dynamic: bool) -> None:
    def dropped(x: Tensor) -> Tensor:
        return functional.dropout(x.exp(), 0.5) + torch.rand_like(x)

    fast = jitpkg.compile(dropped, backend="jitpkg", dynamic=dynamic)
    for size in (100, 1000):
        x = torch.randn(size, device="cuda")
        results = []
        for function in (fast, dropped):
            torch.manual_seed(0)
            results.append([function(x), torch.rand(3, device="cuda")])
        torch.testing.assert_close(*results)
