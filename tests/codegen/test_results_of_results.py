"""Results that are computed from other results: gradients go through these, as in eager code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import jitpkg

BACKENDS = ("aot_eager", "jitpkg", "aot")
Program = Callable[..., Any]
Use = Callable[[list[Tensor], Tensor], list[Any]]


def settings(backend: str) -> dict[str, Any]:
    if backend == "aot":
        return {"backend": "jitpkg", "options": {"backward": "aot"}}
    return {"backend": backend}


def leaf(*size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0)).requires_grad_()


LAYERS = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 3))


def loss_of_logits(x: Tensor) -> Any:
    logits = LAYERS(x)
    return functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0, 1])), logits


def chain(x: Tensor) -> Any:
    made = []
    for k in range(4):
        x = torch.tanh(x * (k + 1))
        made.append(x)
    return (*made, x.sum())


def views(x: Tensor) -> Any:
    y = x * 2
    return y, y.t(), y[1:].exp(), y.detach().sin()


def several(x: Tensor) -> Any:
    values, indices = x.sin().max(-1)
    return values, indices, values.exp() * x.sum()


def dropped(x: Tensor) -> Any:
    y = functional.dropout(x, 0.5) * 2
    return y, functional.dropout(y, 0.5).sum()


def past_it(x: Tensor) -> Any:
    """Some of what the second is made of does not go through the first."""
    hidden = x.exp()
    y = hidden.sin()
    return y, (y * hidden).sum(), hidden.detach()


def again(x: Tensor) -> Any:
    y = checkpoint(lambda z: z.sin().exp(), x, use_reentrant=False)
    return y, checkpoint(lambda z: z.cos(), y, use_reentrant=False).sum()


def without_grad(x: Tensor) -> Any:
    y = x * 2
    with torch.no_grad():
        z = y.exp()
    return y, z, (y * z).sum()


def written(x: Tensor) -> Any:
    """To the first result, which stays in one graph with the second."""
    y = x * 2
    y[0] = 0
    return y, y.exp().sum()


def written_before(x: Tensor) -> Any:
    y = x * 2
    y.mul_(3)
    view = y.view(-1)
    return view, view.exp().sum()


def written_behind(x: Tensor) -> Any:
    y = x * 2
    z = y.exp().sum()
    y.add_(1)
    return y, z


PROGRAMS = (
    loss_of_logits,
    chain,
    views,
    several,
    dropped,
    past_it,
    again,
    without_grad,
    written,
    written_before,
    written_behind,
)


def plain(results: list[Tensor], x: Tensor) -> list[Any]:
    sum(r.sum() * (k + 1) for k, r in enumerate(results)).backward()  # type: ignore[union-attr]
    return [x.grad]


def retained(results: list[Tensor], x: Tensor) -> list[Any]:
    for result in results:
        result.retain_grad()
    results[-1].sum().backward()
    return [x.grad, *(result.grad for result in results)]


def hooked(results: list[Tensor], x: Tensor) -> list[Any]:
    """A hook gets None where a result is no part of what is differentiated: docs/backends.md."""
    seen: list[Any] = []

    def note(k: int, grad: Tensor | None) -> Tensor | None:
        if grad is None:
            return None
        seen.append((k, grad))
        return grad * 2

    for k, result in enumerate(results):
        result.register_hook(lambda grad, k=k: note(k, grad))
    results[-1].sum().backward()
    return [x.grad, *(grad for _, grad in sorted(seen, key=lambda one: one[0]))]


def of_each_other(results: list[Tensor], x: Tensor) -> list[Any]:
    return list(
        torch.autograd.grad(
            results[-1].sum(), [*results[:-1], x], allow_unused=True, retain_graph=True
        )
    )


def one_after_the_other(results: list[Tensor], x: Tensor) -> list[Any]:
    for result in results:
        result.sum().backward(retain_graph=True)
    return [x.grad]


USES = (plain, retained, hooked, of_each_other, one_after_the_other)


def seen(program: Program, use: Use) -> list[Any]:
    torch.manual_seed(0)
    for module in LAYERS.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.reset_running_stats()
    for parameter in LAYERS.parameters():
        parameter.grad = None
    x = leaf(5, 4)
    results = program(x)
    found = use([r for r in results if r.requires_grad], x)
    state = [t.clone() for t in LAYERS.buffers()]
    grads = [p.grad for p in LAYERS.parameters()]
    return [*(r.detach() for r in results), *found, *state, *grads, torch.rand(1)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager_code(program: Program, use: Use, backend: str) -> None:
    compiled = jitpkg.compile(program, fullgraph=True, **settings(backend))
    for _ in range(2):
        found, wanted = seen(compiled, use), seen(program, use)
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert (a is None) is (b is None)
            if b is not None:
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def turned(x: Tensor) -> Any:
    y = torch.tanh(x * x.shape[0]).t()
    return y, y.softmax(-1), (y.exp() @ x).sum()


def multiplied(x: Tensor) -> Any:
    """What is made of numbers that vary, and of tensors, by the same operator."""
    y = x * (x.shape[0] * 2)
    return y, (y * (x.shape[0] + 1)).sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("program", [turned, multiplied])
def test_of_varying_sizes(program: Program, use: Use, backend: str) -> None:
    compiled = jitpkg.compile(program, fullgraph=True, dynamic=True, **settings(backend))
    for n in (5, 3, 8):
        outcomes = []
        for each in (compiled, program):
            x = leaf(n, 4)
            results = list(each(x))
            outcomes.append([*(r.detach() for r in results), *use(results, x)])
        for a, b in zip(*outcomes, strict=True):
            assert (a is None) is (b is None)
            if b is not None:
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("tied", [False, True])
def test_autocast(tied: bool, backend: str) -> None:
    """A weight that is used on both sides is cast once, and its gradients are summed as that."""

    def program(x: Tensor, w: Tensor) -> Any:
        y = x @ w
        return y, (y @ w if tied else y.exp()).sum()

    compiled = jitpkg.compile(program, **settings(backend))
    outcomes = []
    for each in (compiled, program):
        x, w = leaf(5, 4), leaf(4, 4)
        with torch.autocast("cpu", torch.bfloat16):
            y, loss = each(x, w)
        y.retain_grad()
        loss.backward()
        outcomes.append([w.grad, x.grad, None if tied else y.grad])
    for a, b in zip(*outcomes, strict=True):
        torch.testing.assert_close(a, b, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_fails_behind_it(backend: str) -> None:
    """What has happened before stays so, and what has not does not."""
    log: list[int] = []

    def program(x: Tensor, counts: Tensor, target: Tensor) -> Any:
        log.append(1)
        logits = x * 2
        counts.add_(1)
        loss = functional.cross_entropy(logits, target)
        log.append(2)
        return logits, loss

    compiled = jitpkg.compile(program, **settings(backend))
    good, bad = torch.tensor([0, 1, 2, 0, 1]), torch.tensor([0, 1, 2, 0, 7])
    for target in (good, bad, good):
        outcomes = []
        for each in (compiled, program):
            log.clear()
            counts = torch.zeros(2)
            try:
                results: Any = [r.detach() for r in each(leaf(5, 4), counts, target)]
            except IndexError as error:
                results = str(error)
            outcomes.append((results, counts, list(log)))
        (a, *rest), (b, *others) = outcomes
        assert rest[1] == others[1]
        assert torch.equal(rest[0], others[0])
        torch.testing.assert_close(a, b) if isinstance(b, list) else pytest.approx(a == b)


def test_inference_is_one_graph() -> None:
    explained = jitpkg.explain(chain, backend="jitpkg")
    with torch.no_grad():
        assert len(explained(leaf(5, 4)).kernels) <= 2
