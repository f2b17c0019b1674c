"""Derivatives of gradients of compiled graphs: eager code computes both."""

from __future__ import annotations

import gc
import signal
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import jitpkg
from jitpkg import events
from jitpkg.codegen.autograd import twice as twice_again
from jitpkg.errors import BackendError
from jitpkg.internals import tensors
from tests.codegen.cache.graphs.support import Process

BACKWARD = pytest.mark.parametrize("backward", ["own", "aot"])
Function = Callable[..., Any]


def leaf(*size: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, dtype=torch.float64, generator=generator).requires_grad_()


def arguments() -> tuple[Tensor, Tensor, Tensor]:
    return leaf(5, 4), leaf(4, 3, seed=1), leaf(3, seed=2)


def chain(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return torch.tanh(x @ w + b).pow(2).sum(-1)


def several(x: Tensor, w: Tensor, b: Tensor) -> Any:
    hidden = functional.softplus(x @ w) * b
    return hidden, (x.sin() * b.sum()).mean(), x.argmax(-1)


def without_some(x: Tensor, w: Tensor, b: Tensor) -> Any:
    with torch.no_grad():
        scale = x.abs().amax()
    return (x @ w).softmax(-1) * scale + b.detach().exp()


def views(x: Tensor, w: Tensor, b: Tensor) -> Any:
    rows = x.t()
    return rows.exp(), (x[1:] @ w).view(-1)[::2], b


def written(x: Tensor, w: Tensor, b: Tensor) -> Any:
    y = x.clone()
    y[1:] = x[1:] * w.sum()
    y.mul_(2)
    return (y.sin() @ w + b).pow(3)


def normed(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return functional.layer_norm(x @ w, (3,), b).logsumexp(-1)


PROGRAMS = (chain, several, without_some, views, written, normed)


def scalar(results: Any) -> Tensor:
    every = results if isinstance(results, tuple) else (results,)
    return sum((r * (k + 1)).sum() for k, r in enumerate(every) if r.requires_grad)  # type: ignore[return-value]


def penalty(function: Function, *given: Tensor) -> Any:
    """Of gradients of all."""
    result = scalar(function(*given))
    found = torch.autograd.grad(result, given, create_graph=True, allow_unused=True)
    loss = sum((g.norm() - 1) ** 2 for g in found if g is not None) + result
    return torch.autograd.grad(loss, given, allow_unused=True)  # type: ignore[arg-type]


def of_one(function: Function, *given: Tensor) -> Any:
    (found,) = torch.autograd.grad(scalar(function(*given)), given[:1], create_graph=True)
    found.sin().sum().backward()
    grads = [x.grad for x in given]
    for x in given:
        x.grad = None
    return grads


def third(function: Function, *given: Tensor) -> Any:
    (g,) = torch.autograd.grad(scalar(function(*given)), given[:1], create_graph=True)
    (h,) = torch.autograd.grad(g.sin().sum(), given[:1], create_graph=True)
    return torch.autograd.grad(h.cos().sum(), given, allow_unused=True)


def of_what_has_a_history(function: Function, *given: Tensor) -> Any:
    """The inputs of the graph are no leaves, and one is made of another."""
    x, w, b = given
    y, v = x * 2, w.exp()
    given_too = b * v.sum()
    (g,) = torch.autograd.grad(scalar(function(y, v, given_too)), y, create_graph=True)
    return torch.autograd.grad((g * y).sum(), given, allow_unused=True)


def by_tangents(function: Function, *given: Tensor) -> Any:
    """The gradient of a result has a derivative of its own."""
    results = function(*given)
    first = results[0] if isinstance(results, tuple) else results
    tangent = torch.full_like(first, 0.5).requires_grad_()
    (g,) = torch.autograd.grad(first, given[:1], tangent, create_graph=True)
    return torch.autograd.grad(g.pow(2).sum(), (*given, tangent), allow_unused=True)


def twice(function: Function, *given: Tensor) -> Any:
    """Both derivatives are asked for again."""
    result = scalar(function(*given))
    found: list[Any] = []
    for _ in range(2):
        (g,) = torch.autograd.grad(result, given[:1], create_graph=True, retain_graph=True)
        for _ in range(2):
            found += torch.autograd.grad(g.exp().sum(), given, retain_graph=True, allow_unused=True)
    return found


USES: Mapping[str, Function] = MappingProxyType(
    {f.__name__: f for f in (penalty, of_one, third, of_what_has_a_history, by_tangents, twice)}
)


@BACKWARD
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager_code(program: Function, use: str, backward: str) -> None:
    compiled = jitpkg.compile(program, backend="jitpkg", options={"backward": backward})
    expected = USES[use](program, *arguments())
    if backward == "aot" and program is without_some:  # by its own runtime
        with pytest.raises(BackendError, match="its gradients are AOTAutograd's"):
            USES[use](compiled, *arguments())
        return
    for _ in range(2):
        torch.testing.assert_close(USES[use](compiled, *arguments()), expected)


def test_a_module_and_its_parameters() -> None:
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()

    def step(model: Function) -> list[Tensor | None]:
        critic.zero_grad()
        x = leaf(6, 4)
        (g,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (((g.norm(dim=1) - 1) ** 2).mean() + model(x.detach()).mean()).backward()
        return [p.grad.clone() for p in critic.parameters() if p.grad is not None]

    torch.testing.assert_close(step(jitpkg.compile(critic, backend="jitpkg")), step(critic))


def test_batch_norm_in_training() -> None:
    """What a graph writes to is not what its gradients are made of."""
    made = [nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()).double() for _ in range(2)]
    made[1].load_state_dict(made[0].state_dict())
    found = []
    for model, function in zip(
        made, (jitpkg.compile(made[0], backend="jitpkg"), made[1]), strict=True
    ):
        x = leaf(6, 4)
        (g,) = torch.autograd.grad(function(x).pow(2).sum(), x, create_graph=True)
        g.pow(2).sum().backward()
        found.append([*(p.grad for p in model.parameters()), x.grad, *model.buffers()])
    torch.testing.assert_close(*found)


def _read_and_written(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    functional.batch_norm(x, mean, var, None, None, True, 0.5)
    return functional.batch_norm(x, mean, var).pow(2).sum()


def _written_and_read(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    made = functional.batch_norm(x, mean, var, None, None, True, 0.5)
    return (made * mean).pow(2).sum()


def _written_twice(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    made = functional.batch_norm(x, mean, var, None, None, True, 0.5)
    return functional.batch_norm(made.sin() * 2, mean, var, None, None, True, 0.5).pow(3).sum()


def _scaled(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    mean.mul_(2)
    return (x.sin() * mean).pow(2).sum()


def _averaged(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    mean.lerp_(x.detach().mean(0), 0.5)
    return (x.sin() / var).pow(2).sum()


def _by_data(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    mean.data.add_(1)
    return (x.sin() * mean).pow(2).sum()


@pytest.mark.parametrize(
    ("program", "refused"),
    [
        (_read_and_written, True),
        (_written_and_read, True),
        (_written_twice, False),
        (_scaled, True),
        (_averaged, False),
        (_by_data, True),
    ],
)
def test_what_a_graph_writes_to_and_reads(program: Function, refused: bool) -> None:
    """Computed again, it would be read as it is now."""
    found = []
    for function in (program, jitpkg.compile(program, backend="jitpkg")):
        x, mean, var = leaf(6, 3), leaf(3, seed=1).detach(), leaf(3, seed=2).detach().exp()
        (g,) = torch.autograd.grad(function(x, mean, var), x)
        found.append([g, mean, var])
        x, mean, var = leaf(6, 3), leaf(3, seed=1).detach(), leaf(3, seed=2).detach().exp()
        made = function(x, mean, var)
        if refused and function is not program:
            with pytest.raises(BackendError, match="written to since"):
                torch.autograd.grad(made, x, create_graph=True)
        else:
            (g,) = torch.autograd.grad(made, x, create_graph=True)
            found[-1] += [] if refused else [g, *torch.autograd.grad(g.pow(2).sum(), x)]
    torch.testing.assert_close(*found)


def test_backward_under_autocast() -> None:
    """What was called without it is computed without it."""
    given = leaf(8, 8).detach().float().requires_grad_(), leaf(8, 8, seed=1).detach().float()

    def squared(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).pow(2)

    found = []
    for function in (jitpkg.compile(squared, backend="jitpkg"), squared):
        result = function(*given).sum()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            (g,) = torch.autograd.grad(result, given[0], create_graph=True)
        found.append([g, *torch.autograd.grad(g.sin().sum(), given[0])])
    torch.testing.assert_close(*found)


@BACKWARD
def test_sizes_that_vary(backward: str) -> None:
    def scaled(x: Tensor, w: Tensor) -> Tensor:
        return ((x @ w).exp() * x.shape[0]).sum(0)

    compiled = jitpkg.compile(scaled, backend="jitpkg", options={"backward": backward})
    for n in (3, 5, 2, 7):
        given = leaf(n, 4), leaf(4, 2, seed=1)
        torch.testing.assert_close(penalty(compiled, *given), penalty(scaled, *given))
        torch.testing.assert_close(third(compiled, *given), third(scaled, *given))


def test_hessian_and_gradgradcheck() -> None:
    compiled = jitpkg.compile(lambda x: (x.exp() * x).sum(), backend="jitpkg")
    x = leaf(3)
    hessian: Any = torch.autograd.functional.hessian
    torch.testing.assert_close(hessian(compiled, x), torch.diag(x.exp() * (x + 2)).detach())
    assert torch.autograd.gradgradcheck(compiled, x)


def test_graphs_that_were_kept(process: Process) -> None:
    for program in (chain, written, views):
        for _ in range(2):
            compiled = process.compiled(program)
            torch.testing.assert_close(
                penalty(compiled, *arguments()), penalty(program, *arguments())
            )


# What is refused


def first(function: Function, *given: Tensor, dynamic: bool = False) -> Tensor:
    """The gradient by the first input."""
    compiled = jitpkg.compile(function, backend="jitpkg", dynamic=dynamic)
    result = compiled(*given).sum()
    (found,) = torch.autograd.grad(result, given[0], create_graph=True)
    return found


USED = pytest.mark.parametrize("by_backward", [True, False])


def refuses(gradient: Tensor, x: Tensor, match: str, *, by_backward: bool) -> None:
    """Also where only the derivative by the input is asked for, and that is used besides."""
    if by_backward:
        with pytest.raises(BackendError, match=match):
            gradient.sum().backward()
    else:
        with pytest.raises(BackendError, match=match):
            torch.autograd.grad((gradient * x).sum(), x)


@USED
def test_random_numbers(by_backward: bool) -> None:
    x = leaf(3)
    gradient = first(lambda x: functional.dropout(x.exp(), 0.5), x)
    refuses(gradient, x, "draws random", by_backward=by_backward)


@USED
def test_views_of_sizes_that_vary(by_backward: bool) -> None:
    x = leaf(3, 4)
    gradient = first(lambda x: (x.exp() * x.shape[0]).t(), x, dynamic=True)
    refuses(gradient, x, r'sizes in it vary.*backend="eager"', by_backward=by_backward)


def test_inputs_that_were_written_to_before_the_first_derivative() -> None:
    x, y = leaf(3), torch.ones(3, dtype=torch.float64)
    result = jitpkg.compile(lambda x, y: x.exp() + y, backend="jitpkg")(x, y)
    y.add_(1)
    with pytest.raises(BackendError, match="written to since"):
        torch.autograd.grad(result.sum(), x, create_graph=True)


def test_inputs_that_were_written_to_before_the_second_derivative() -> None:
    x = leaf(3)
    gradient = first(torch.sin, x)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    "change", [Tensor.detach_, lambda x: x.set_(torch.ones(3, dtype=torch.float64))]
)
def test_inputs_that_have_got_another_history(change: Callable[[Tensor], object]) -> None:
    x = leaf(3)
    y = x * 2
    result = jitpkg.compile(torch.exp, backend="jitpkg")(y)
    with torch.no_grad():
        change(y)
    with pytest.raises(BackendError, match=r"another history|written to"):
        torch.autograd.grad(result.sum(), x, create_graph=True)


def test_inputs_that_require_no_gradient_any_more() -> None:
    for function in (jitpkg.compile(torch.mul, backend="jitpkg"), torch.mul):
        x, y = leaf(3), leaf(3, seed=1)
        result = function(x, y)
        x.requires_grad_(False)
        result.sum().backward(create_graph=True)
        torch.testing.assert_close(y.grad, x)
        assert x.grad is None


def test_inputs_that_are_gone() -> None:
    compiled, x = jitpkg.compile(lambda x, y: x.exp() + y.sum(), backend="jitpkg"), leaf(3)
    with pytest.raises(BackendError, match="is gone"):
        torch.autograd.grad(compiled(x, x * 2).sum(), x, create_graph=True)


def test_a_first_derivative_keeps_no_input() -> None:
    compiled = jitpkg.compile(lambda x, y: x.exp() + y, backend="jitpkg")
    x, y = leaf(3), leaf(3) * 2
    gone = weakref.ref(y)
    result = compiled(x, y)
    del y
    gc.collect()
    assert gone() is None
    result.sum().backward()


def test_nothing_is_compiled_for_it() -> None:
    compiled = jitpkg.compile(chain, backend="jitpkg")
    penalty(compiled, *arguments())
    heard: list[events.Event] = []
    with events.STREAM.listening(heard.append):
        penalty(compiled, *arguments())
    assert not [e for e in heard if isinstance(e, events.Fused | events.Compiled)]


class Missing(AttributeError):
    """What a signal handler raises."""


class Failed(RuntimeError):
    """The same."""


@pytest.mark.parametrize("kind", [Missing, Failed])
def test_exceptions_of_handlers_while_inputs_are_remembered(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They look like what is to be expected there, and come out all the same."""

    def raises(signum: int, frame: Any) -> None:
        raise kind("of a handler")

    def reference(x: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, raises)
    monkeypatch.setattr(tensors, "references", lambda: reference)
    try:
        with pytest.raises(kind, match="of a handler"):
            twice_again.remembered(arguments())
    finally:
        signal.signal(signal.SIGUSR1, before)
