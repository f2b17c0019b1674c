"""`torch.autograd.Function`: what is one op of a graph, and what is called for real."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

import jitpkg
from jitpkg.tracer import reasons

BACKENDS = ("eager", "aot_eager", "jitpkg")
Program = Callable[..., Any]


def leaf(*size: int, seed: int = 0, grad: bool = True) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator).requires_grad_(grad)


class Silu(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s)) * 2  # to be told apart


class Exp(Function):
    """Keeps its result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return grad * result * 3


class Scaled(Function):
    """With `setup_context`, and an argument that is no tensor."""

    @staticmethod
    def forward(x: Tensor, by: float) -> Tensor:
        return x * by

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.by = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def vjp(ctx: Any, grad: Tensor) -> Any:
        x, output = ctx.saved_tensors
        return grad * ctx.by + 0 * x + 0 * output, None


class Product(Function):
    """Asks which gradients are needed; what it keeps is computed by the way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, names: list[str]) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.twice, ctx.count = x * 2, len(names)
        return x @ w

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        _, w = ctx.saved_tensors
        gx = gw = None
        if ctx.needs_input_grad[0]:
            gx = grad @ w.t()
        if ctx.needs_input_grad[1]:
            gw = ctx.twice.t() @ grad / ctx.count
        return gx, gw, None


class Largest(Function):
    """Several results, of which one is of integers, one marked, and one nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Any:
        values, indices = x.max(-1)
        mean = x.mean(-1)
        ctx.mark_non_differentiable(mean)
        ctx.save_for_backward(indices)
        ctx.shape = x.shape
        return values, indices, mean, None

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *others: Any) -> Tensor:
        (indices,) = ctx.saved_tensors
        out = torch.zeros(ctx.shape)
        return out.scatter(-1, indices.unsqueeze(-1), grad.unsqueeze(-1) * 5) + others[1].sum()


class Straight(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = x.clone()
        out[out > 0] = 1
        return out.round_()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.clone()
        grad[grad.abs() > 1] = 0
        return grad


class Reversed(Function):
    """A view of its argument."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, by: float) -> Tensor:
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad.neg() * ctx.by, None


class Same(Function):
    """Its argument itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * 3


class Dropped(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        mask = torch.rand_like(x) > 0.5
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (mask,) = ctx.saved_tensors
        return grad * mask


class Nested(Function):
    """Another one forward, and another one backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return Exp.apply(x).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return Silu.apply(x) * grad


class Unmaterialized(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> Any:
        return None if grad is None else grad * 2


class Derived(Silu):
    """With a helper of the class, and `super`."""

    @classmethod
    def helper(cls, x: Tensor) -> Tensor:
        return x.cos()

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return Silu.forward(ctx, x) + Derived.helper(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return Silu.backward(ctx, grad) * 7


silu = Silu.apply


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.w = nn.Parameter(torch.randn(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return Product.apply(x, self.w, ["a", "b"]).relu()


LAYER = Layer()

PROGRAMS: dict[str, Program] = {
    "saves its argument": lambda x: Silu.apply(x * 2) + 1,
    "bound before": lambda x: silu(silu(x)),
    "saves its result": lambda x: Exp.apply(x.sin()).cos(),
    "setup_context": lambda x: Scaled.apply(x, 2.5) * 2,
    "several arguments": lambda x: Product.apply(x, x.t(), ["a"]).sum(-1),
    "of a parameter": LAYER,
    "several results": lambda x: Largest.apply(x * 3),
    "writes to its own": lambda x: Straight.apply(x * 3) * x,
    "a view": lambda x: Reversed.apply(x * 2, 0.5).sin(),
    "itself": lambda x: Same.apply(x * 2).sin(),
    "nested": lambda x: Nested.apply(x) * 2,
    "not materialized": lambda x: Unmaterialized.apply(x) * 2,
    "derived": lambda x: Derived.apply(x) * 2,
    "in a loop": lambda x: sum(Silu.apply(x * k) for k in range(3)),
    "without grad mode": torch.no_grad()(lambda x: Silu.apply(x)),
    "of a constant": lambda x: Silu.apply(x.detach()) * x,
    "of integers": lambda x: Scaled.apply(x.long(), 2).float() * x,
    "among others": lambda x: functional.layer_norm(Silu.apply(x) + Exp.apply(x), (4,)),
}


def seen(program: Program, *given: Tensor) -> list[Any]:
    """What the program returns, and the gradients of all."""
    torch.manual_seed(3)
    result = program(*given)
    results = [r for r in (result if isinstance(result, tuple) else (result,)) if r is not None]
    loss = sum((r * (k + 1.5)).sum() for k, r in enumerate(results) if r.requires_grad)
    leaves = [x for x in (*given, *LAYER.parameters()) if x.requires_grad]
    found: Any = ()
    if isinstance(loss, Tensor):
        found = torch.autograd.grad(loss, leaves, allow_unused=True)
    plain = [*(r.detach() for r in results), *(r.requires_grad for r in results)]
    return [*plain, *found, torch.rand(1)]


def alike(found: list[Any], wanted: list[Any]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        if isinstance(b, Tensor):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=3e-5)
        else:
            assert a is b


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


# What is called for real

TABLE = torch.arange(4.0)
LOG: list[Any] = []
SETTINGS = {"by": 2.0}


def made(forward: Program, backward: Program, **others: Any) -> type[Function]:
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward), **others}
    return type("Made", (Function,), methods)


def double(ctx: Any, x: Tensor) -> Tensor:
    return x * 2


def printing(ctx: Any, x: Tensor) -> Tensor:
    print("here")
    return x * 2


def logging(ctx: Any, x: Tensor) -> Tensor:
    LOG.append(1)
    return x * 2


def reading(ctx: Any, x: Tensor) -> Tensor:
    return x * TABLE


def asking(ctx: Any, x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x * 3


def of_the_outside(ctx: Any, x: Tensor) -> Tensor:
    return x * float(x.detach().numpy().sum() > 0)


def by_setting(ctx: Any, grad: Tensor) -> Tensor:
    return grad * SETTINGS["by"]


def by_global(ctx: Any, grad: Tensor) -> Tensor:
    return grad * BY


def failing(ctx: Any, x: Tensor) -> Tensor:
    raise NotImplementedError("no gradient")


def dirty(ctx: Any, x: Tensor) -> Tensor:
    ctx.mark_dirty(x)
    return x.mul_(2)


def unmarked(ctx: Any, x: Tensor) -> Tensor:
    x.add_(0)
    return x * 2


def named(ctx: Any, x: Tensor) -> Tensor:
    return x * len(ctx.name())


def overlapping(ctx: Any, x: Tensor) -> Any:
    both = x * 2
    return both[1:], both[:1]


def two_parts(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.cat((b, a))


def settings_kept(ctx: Any, x: Tensor) -> Tensor:
    ctx.settings = SETTINGS
    return x * SETTINGS["by"]


def by_kept(ctx: Any, grad: Tensor) -> Tensor:
    return grad * ctx.settings["by"]


def drawing(ctx: Any, grad: Tensor) -> Tensor:
    return grad * torch.rand(4)


REFUSED: dict[str, type[Function]] = {
    "draws backward": made(double, drawing),
    "prints": made(printing, double),
    "prints backward": made(double, printing),
    "changes a list": made(logging, double),
    "changes a list backward": made(double, logging),
    "reads a tensor": made(reading, double),
    "reads a tensor backward": made(double, reading),
    "asks for data": made(asking, double),
    "asks for data backward": made(double, asking),
    "leaves torch": made(double, of_the_outside),
    "reads a setting": made(double, by_setting),
    "reads a global": made(double, by_global),
    "keeps settings": made(settings_kept, by_kept),
    "raises backward": made(double, failing),
    "writes": made(dirty, double),
    "writes without a mark": made(unmarked, double),
    "asks for its name": made(named, double),
    "results share memory": made(overlapping, two_parts),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", REFUSED)
def test_called_for_real(name: str, backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    cls = REFUSED[name]

    def program(x: Tensor) -> Any:
        return cls.apply(x * 2)

    explained = jitpkg.explain(program, backend=backend)(leaf(5, 4))
    assert [each.reason for each in explained.break_reasons] == [reasons.AUTOGRAD_FUNCTION]
    compiled = jitpkg.compile(program, backend=backend)
    for _ in range(2):
        outcomes = []
        for each in (compiled, program):
            LOG.clear()
            capfd.readouterr()
            try:
                outcome: Any = seen(each, leaf(5, 4))
            except NotImplementedError as error:
                outcome = [str(error)]
            outcomes.append((outcome, len(LOG), capfd.readouterr().out))
        (found, *rest), (wanted, *others) = outcomes
        assert rest == others
        if isinstance(wanted[0], str):
            assert found == wanted
        else:
            alike(found, wanted)


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


def test_the_message() -> None:
    cls = REFUSED["prints"]
    compiled = jitpkg.compile(lambda x: cls.apply(x), fullgraph=True)
    with pytest.raises(jitpkg.errors.GraphBreak, match=r"B130: .* Made: B\d+: .*print"):
        compiled(leaf(2))
