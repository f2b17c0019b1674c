"""`torch.autograd.Function`: one op of a graph, with the program's derivative."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function

import jitpkg
from tests.tracer.derivatives import (
    BACKENDS,
    PROGRAMS,
    Dropped,
    Exp,
    Program,
    Reversed,
    Same,
    Silu,
    alike,
    leaf,
    seen,
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager_code(name: str, backend: str) -> None:
    program = PROGRAMS[name]
    compiled = jitpkg.compile(program, backend=backend, fullgraph=True)
    for x in (leaf(5, 4), leaf(5, 4, seed=1), leaf(5, 4, grad=False), leaf(3, 4, seed=2)):
        alike(seen(compiled, x), seen(program, x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_varying_sizes(backend: str) -> None:
    def program(x: Tensor) -> Tensor:
        return Silu.apply(x * x.shape[0]) + Exp.apply(x)

    compiled = jitpkg.compile(program, backend=backend, fullgraph=True, dynamic=True)
    for n in (5, 3, 8):
        alike(seen(compiled, leaf(n, 4)), seen(program, leaf(n, 4)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers(backend: str) -> None:
    def program(x: Tensor) -> Tensor:
        return Dropped.apply(x) + torch.rand(4)

    compiled = jitpkg.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        alike(seen(compiled, leaf(5, 4)), seen(program, leaf(5, 4)))


def test_kernels_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's own derivative is fused like any other."""
    explained = jitpkg.explain(lambda x: Silu.apply(x * 2) + 1, backend="jitpkg")(leaf(5, 4))
    assert not explained.not_recorded
    assert any("sigmoid" in kernel.name for kernel in explained.kernels)


# What may change


BY = 2.0


class Global(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * BY

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * math.pi


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_forward_reads_is_guarded(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = jitpkg.compile(lambda x: Global.apply(x), backend=backend)
    for by in (2.0, 5.0, 2.0):
        monkeypatch.setitem(globals(), "BY", by)
        alike(seen(compiled, leaf(5, 4)), seen(Global.apply, leaf(5, 4)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["forward", "backward"])
def test_replaced_methods(backend: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAMS["saves its argument"]
    compiled = jitpkg.compile(program, backend=backend, fullgraph=True)
    alike(seen(compiled, leaf(5, 4)), seen(program, leaf(5, 4)))

    def other(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 11

    monkeypatch.setattr(Silu, method, staticmethod(other))
    alike(seen(compiled, leaf(5, 4)), seen(program, leaf(5, 4)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cls", [Reversed, Same])
def test_views(cls: type[Function], backend: str) -> None:
    """What comes back shares the memory of what was given, and torch lets nobody write to it."""
    given = (0.5,) if cls is Reversed else ()

    def returned(x: Tensor) -> Any:
        y = x * 2
        return y, cls.apply(y, *given)

    compiled = jitpkg.compile(returned, backend=backend)
    for program in (returned, compiled):
        y, view = program(leaf(5, 4))
        assert y.data_ptr() == view.data_ptr()
        assert view._base is y
    alike(seen(compiled, leaf(5, 4)), seen(returned, leaf(5, 4)))

    def written(x: Tensor) -> Any:
        return cls.apply(x * 2, *given).mul_(3)

    for program in (written, jitpkg.compile(written, backend=backend)):
        with pytest.raises(RuntimeError, match="view and is being modified inplace"):
            program(leaf(5, 4))

    def written_behind(x: Tensor) -> Any:
        y = x * 2
        view = cls.apply(y, *given)
        y.mul_(3)
        return view.sin()

    outcomes = []
    for program in (written_behind, jitpkg.compile(written_behind, backend=backend)):
        try:
            outcomes.append(seen(program, leaf(5, 4)))
        except RuntimeError as error:
            outcomes.append([str(error)])
    if isinstance(outcomes[0][0], str):
        assert outcomes[0] == outcomes[1]
    else:
        alike(outcomes[1], outcomes[0])


# Among what else training does


class Mixed(Function):
    """As `torch.amp` has one written."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x @ x.t()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return (grad + grad.t()) @ x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inside", [False, True])
def test_autocast(backend: str, inside: bool) -> None:
    def program(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=inside):
            return Mixed.apply(x).float() @ x

    compiled = jitpkg.compile(program, backend=backend)
    for around in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=around):
            found, wanted = seen(compiled, leaf(5, 4)), seen(program, leaf(5, 4))
        for a, b in zip(found, wanted, strict=True):
            if isinstance(b, Tensor):
                torch.testing.assert_close(a, b, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives(backend: str) -> None:
    def penalty(program: Program, x: Tensor) -> Any:
        (g,) = torch.autograd.grad(program(x).sum(), x, create_graph=True)
        return torch.autograd.grad(g.sin().sum(), x)

    def program(x: Tensor) -> Tensor:
        return Silu.apply(x * 2).sin()

    compiled = jitpkg.compile(program, backend=backend, fullgraph=True)
    if backend == "aot_eager":
        pytest.skip("its own runtime refuses them")
    x = leaf(5, 4)
    alike(list(penalty(compiled, x)), list(penalty(program, x)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_again_and_hooks(backend: str) -> None:
    def twice(program: Program, x: Tensor) -> list[Tensor]:
        x.register_hook(lambda grad: grad * 2)
        loss = program(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        assert x.grad is not None
        return [x.grad]

    program = PROGRAMS["among others"]
    compiled = jitpkg.compile(program, backend=backend, fullgraph=True)
    alike(list(twice(compiled, leaf(5, 4))), list(twice(program, leaf(5, 4))))


@pytest.mark.parametrize("backend", BACKENDS)
def test_inference(backend: str) -> None:
    """Forward is traced like any function: nothing is called as a whole."""
    program = PROGRAMS["saves its argument"]
    explained = jitpkg.explain(program, backend=backend)
    with torch.inference_mode():
        found = explained(leaf(5, 4))
        assert torch.allclose(found.result, program(leaf(5, 4)))
    assert [op.__name__ if callable(op) else op for op in found.ops_per_graph[0]][1:] == [
        *("sigmoid", "mul", "add"),
    ]


@pytest.mark.parametrize("grad", [False, True])
def test_what_returns_its_argument_returns_another_object(grad: bool) -> None:
    compiled = jitpkg.compile(lambda x: Same.apply(x))
    for _ in range(2):
        x = leaf(3, grad=grad)
        found = compiled(x)
        assert found is not x
        assert found.data_ptr() == x.data_ptr()
        with torch.no_grad():
            assert compiled(x) is not x


class Table:
    """With data that a program may change at any time."""

    scale = 2.0


class Scaled(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Table) -> Tensor:
        return x * table.scale

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * Table().scale, None


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_backward_reads_of_a_class_may_have_changed(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward has read the same."""

    def program(x: Tensor) -> Tensor:
        return Scaled.apply(x * 2, Table())

    def gradient(function: Program) -> list[float]:
        found = []
        x = leaf(3)
        for scale in (2.0, 3.0):
            monkeypatch.setattr(Table, "scale", 2.0)
            result = function(x).sum()
            monkeypatch.setattr(Table, "scale", scale)
            (grad,) = torch.autograd.grad(result, x)
            found += grad.tolist()
        return found

    assert gradient(jitpkg.compile(program, backend=backend)) == gradient(program)
