"""Autocast that a graph enters and leaves, or that is on where it is called: its casts are ops, and
AOTAutograd is not asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import jitpkg
from jitpkg import events
from jitpkg.facts.casting import state


def declined(call: Callable[[], Any]) -> list[str]:
    """What of a call's graphs went another way than kernels, and why."""
    heard: list[str] = []

    def listen(event: events.Event) -> None:
        match event:
            case events.Declined(why=why):
                heard.append(why)

    with events.STREAM.listening(listen):
        call()
    return heard


def inside(x: Tensor, weight: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = F.linear(x, weight)
        h = F.linear(F.gelu(h), weight)
        attended = F.scaled_dot_product_attention(h[None], h[None], h[None])
        with torch.autocast("cpu", enabled=False):
            wide = h.float() @ weight
        return attended, F.softmax(h, -1), torch.einsum("ij,kj->ik", h, wide), h.sum()


def switched_off(x: Tensor, weight: Tensor) -> Any:
    with torch.autocast("cpu", enabled=False):
        return x @ weight


def by_halves(x: Tensor, weight: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.float16):
        return (x @ weight).relu()


def twice(x: Tensor, weight: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ weight
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return a, weight @ a.t()


def plain(x: Tensor, weight: Tensor) -> Any:
    h = F.layer_norm(F.linear(x, weight), (8,))
    return F.softmax(h @ weight, -1), weight.exp().sum()


PROGRAMS = [inside, switched_off, by_halves, twice, plain]
AROUND: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "nothing": nullcontext,
    "bfloat16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "off": lambda: torch.autocast("cpu", enabled=False),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager_code_without_a_detour(
    program: Callable[..., Any], trains: bool, around: str
) -> None:
    def run(function: Callable[..., Any]) -> list[Tensor]:
        torch.manual_seed(0)
        x, weight = torch.randn(6, 8), torch.randn(8, 8).requires_grad_(trains)
        with AROUND[around]():
            here = state()
            results = function(x, weight)
            assert state() == here
        every = list(results) if isinstance(results, tuple) else [results]
        if trains:
            sum(each.float().sum() for each in every).backward()  # type: ignore[union-attr]
            assert weight.grad is not None
            every.append(weight.grad)
        return every

    compiled = jitpkg.compile(program, backend="jitpkg", fullgraph=True)
    found: list[Tensor] = []
    before = state()
    assert declined(lambda: found.extend(run(compiled))) == []
    assert state() == before
    for a, b in zip(found, run(program), strict=True):
        assert a.dtype is b.dtype
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("zero", [False, True])
def test_a_whole_step(zero: bool) -> None:
    """One graph of kernels: nothing is cut around the backward pass."""

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
        if zero:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if not zero:
            optimizer.zero_grad()
        return loss

    def run(function: Callable[..., Tensor]) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        x, y = torch.randn(6, 8), torch.randint(4, (6,))
        losses = [function(model, optimizer, x, y).detach() for _ in range(5)]
        return [*losses, *(p.detach() for p in model.parameters())]

    found: list[Tensor] = []
    compiled = jitpkg.compile(step, backend="jitpkg", fullgraph=True)
    assert declined(lambda: found.extend(run(compiled))) == []
    for a, b in zip(found, run(step), strict=True):
        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)


def test_what_is_left_entered_goes_another_way() -> None:
    """And leaves autocast as eager code does."""

    def program(x: Tensor) -> Tensor:
        torch.set_autocast_enabled("cpu", True)
        return x @ x

    try:
        before = torch.is_autocast_enabled("cpu")
        with torch.no_grad():
            found = jitpkg.compile(program, backend="jitpkg")(torch.ones(3, 3))
        assert torch.is_autocast_enabled("cpu") is not before
    finally:
        torch.set_autocast_enabled("cpu", False)
    assert found.dtype is torch.get_autocast_dtype("cpu")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
def test_the_dtype_is_that_of_the_process(backend: str) -> None:
    """Where the graph does not set it; and it is put back as it was."""

    def entered(x: Tensor) -> Tensor:
        torch.set_autocast_enabled("cpu", True)
        y = x @ x
        torch.set_autocast_enabled("cpu", False)
        return y

    def inside(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x

    before, x = torch.get_autocast_dtype("cpu"), torch.randn(4, 4)
    try:
        for program in (entered, inside):
            compiled = jitpkg.compile(program, backend=backend)
            for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
                torch.set_autocast_dtype("cpu", dtype)
                found = compiled(x)
                assert torch.get_autocast_dtype("cpu") is dtype
                assert found.dtype is program(x).dtype
    finally:
        torch.set_autocast_dtype("cpu", before)


def test_functions_that_cast_inside_are_not_taken_as_a_whole() -> None:
    def program(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.linalg.matrix_power(x, 3), torch.tensordot(x, x, 1)  # type: ignore[return-value]

    x = torch.randn(4, 4)
    found = jitpkg.compile(program, backend="jitpkg")(x)
    for a, b in zip(found, program(x), strict=True):
        assert a.dtype is b.dtype
        torch.testing.assert_close(a, b)


def test_nothing_of_torch_s_compiler_is_asked() -> None:
    """In a process of its own: neither FakeTensor nor AOTAutograd is imported."""
    program = """
import sys
import torch
import torch.nn.functional as F
import jitpkg

def program(x, weight):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = F.gelu(F.linear(x, weight))
        return F.layer_norm(h, (8,)).softmax(-1), (h @ weight).float()

weight = torch.randn(8, 8, requires_grad=True)
a, b = jitpkg.compile(program, backend="jitpkg", fullgraph=True)(torch.randn(4, 8), weight)
(a.float().sum() + b.sum()).backward()
print("jitpkg.facts.fake" in sys.modules, "torch._functorch.aot_autograd" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("False False\n", 0), done.stderr


@pytest.mark.parametrize("name", ["sgn", "sign", "ceil", "floor", "round", "trunc"])
def test_gradients_that_are_nothing_are_added(name: str) -> None:
    """Torch's formula gives a tensor without memory for them."""
    function = getattr(torch, name)

    def program(x: Tensor) -> Any:
        return function(x), function(x) * 2

    x = torch.randn(20, 20, requires_grad=True)
    a, b = jitpkg.compile(program, backend="jitpkg")(x)
    (found,) = torch.autograd.grad(a.sum() + b.sum(), x)
    assert torch.equal(found, torch.zeros_like(x))


AROUND_A_MODEL = """
import sys, torch, jitpkg
from torch import nn
from jitpkg import events

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
heard = []
with events.STREAM.listening(heard.append):
    compiled = jitpkg.compile(model, backend="jitpkg")
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = compiled(torch.randn(6, 8)).float().square().mean()
        loss.backward()
print(sum(isinstance(event, events.KernelCompiled) and event.seconds > 0 for event in heard))
print([name for name in ("sympy", "torch._functorch.aot_autograd") if name in sys.modules])
"""


def test_it_is_kept_and_no_compiler_of_torch_is_imported(tmp_path: Path) -> None:
    made = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", AROUND_A_MODEL],
            env={**os.environ, "JITPKG_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        kernels, imported = done.stdout.splitlines()
        assert imported == "[]"
        made.append(int(kernels))
    assert made[0] > 0
    assert made[1] == 0


OF_VARYING_BATCHES = """
import sys, torch, jitpkg
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)
)
compiled = jitpkg.compile(model, backend="jitpkg")
for k in range(4):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = compiled(torch.randn(4 + k, 3, 6, 6)).float().square().mean()
    loss.backward()
print([name for name in ("sympy", "jitpkg.facts.fake") if name in sys.modules])
"""


def test_batch_norm_and_varying_batches_import_no_compiler() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OF_VARYING_BATCHES], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
