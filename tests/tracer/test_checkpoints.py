"""`torch.utils.checkpoint`: a part of the graph of which nothing is saved."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import (
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

import jitpkg
from jitpkg.tracer import reasons
from tests.tracer.derivatives import alike, leaf

BACKENDS = ("eager", "aot_eager", "jitpkg", "aot")
Program = Callable[..., Any]


def settings(backend: str) -> dict[str, Any]:
    """Of `compile`: "aot" is our kernels behind AOTAutograd."""
    if backend == "aot":
        return {"backend": "jitpkg", "options": {"backward": "aot"}}
    return {"backend": backend}


def again(function: Program, *args: Any, **kwargs: Any) -> Any:
    return checkpoint(function, *args, use_reentrant=False, **kwargs)


class Block(nn.Module):
    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)
        self.norm, self.p = nn.LayerNorm(4), p

    def forward(self, x: Tensor, *, by: float = 1.0) -> Tensor:
        hidden = functional.gelu(self.up(self.norm(x)))
        return x + by * functional.dropout(self.down(hidden), self.p)


BLOCK, DROPPED = Block(), Block(0.5)
SEQUENCE = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)))


def structure(x: Tensor) -> Any:
    hidden = x.exp()
    return OrderedDict(last=hidden.sin(), every=(x, hidden), none=None, size=x.shape[0])


def of_structure(x: Tensor) -> Any:
    found = again(structure, x * 2)
    return found["last"] * found["size"], found["every"][1], found["every"][0]


def captured(x: Tensor) -> Any:
    y = x.cos()
    return again(lambda z: (z * y).exp().sum(-1), x * 2) + y.sum()


def with_views(x: Tensor) -> Any:
    return again(lambda z: (z.t(), z[1:], z.detach().exp()), x * 2)


def written_inside(x: Tensor) -> Any:
    def inside(z: Tensor) -> Tensor:
        made = z.sin()
        made[0] = 1
        return made.mul_(2)

    return again(inside, x.sin())


def written_over(x: Tensor) -> Any:
    """What is saved for gradients: eager code takes what it has become for what it was."""

    def inside(z: Tensor) -> Tensor:
        made = z.exp()
        made[0] = 1
        return made.mul_(2)

    return again(inside, x.sin())


PROGRAMS: dict[str, Program] = {
    "a module": lambda x: again(BLOCK, x * 2).sin(),
    "several": lambda x: again(BLOCK, again(BLOCK, x).tanh()) + x,
    "nested": lambda x: again(lambda y: again(BLOCK, y.exp()).sin() * 2, x),
    "dropout": lambda x: again(DROPPED, again(DROPPED, x)) + torch.rand(4),
    "keywords": lambda x: again(BLOCK, x, by=2.0),
    "structure": of_structure,
    "captured": captured,
    "views": with_views,
    "written inside": written_inside,
    "written over": written_over,
    "nothing computed": lambda x: again(lambda y: y, x) * 2,
    "unused": lambda x: (again(lambda y: y.exp(), x), x * 2)[1],
    "part of a result": lambda x: again(lambda y: (y.exp(), y.sin()), x)[0],
    "of a constant": lambda x: again(lambda y: y.exp(), x.detach()) * x,
    "sequential": lambda x: checkpoint_sequential(SEQUENCE, 2, x, use_reentrant=False),
    "reentrant": lambda x: checkpoint(BLOCK, x * 2, use_reentrant=True).sin(),
    "options": lambda x: again(BLOCK, x, preserve_rng_state=True, determinism_check="none"),
    "without grad mode": torch.no_grad()(lambda x: again(BLOCK, x)),
}


def seen(program: Program, *given: Tensor) -> list[Any]:
    """What the program returns, the gradients of all, and the next random number."""
    torch.manual_seed(3)
    result = program(*given)
    results = result if isinstance(result, tuple) else (result,)
    loss = sum((r * (k + 1.5)).sum() for k, r in enumerate(results) if r.requires_grad)
    modules = (BLOCK, DROPPED, SEQUENCE)
    leaves = [x for x in (*given, *(p for m in modules for p in m.parameters())) if x.requires_grad]
    found: Any = ()
    for x in leaves:
        x.grad = None
    if isinstance(loss, Tensor):
        loss.backward()
        found = [x.grad for x in leaves if x.grad is not None]
    plain = [*(r.detach() for r in results), *(r.requires_grad for r in results)]
    return [*plain, *found, torch.rand(1)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager_code(name: str, backend: str) -> None:
    program = PROGRAMS[name]
    compiled = jitpkg.compile(program, fullgraph=True, **settings(backend))
    for x in (leaf(5, 4), leaf(5, 4, seed=1), leaf(3, 4, seed=2)):
        alike(seen(compiled, x), seen(program, x))
    if name != "reentrant":
        x = leaf(5, 4, grad=False)
        alike(seen(compiled, x), seen(program, x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_again_and_second_derivatives(backend: str) -> None:
    def program(x: Tensor) -> Tensor:
        return again(lambda y: y.sin() * y.exp(), x * 2)

    compiled = jitpkg.compile(program, fullgraph=True, **settings(backend))
    outcomes = []
    for each in (compiled, program):
        x = leaf(5, 4)
        loss = each(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        assert x.grad is not None
        outcomes.append([x.grad])
        if backend in ("eager", "jitpkg"):
            (g,) = torch.autograd.grad(each(x).sum(), x, create_graph=True)
            outcomes[-1].extend(torch.autograd.grad(g.pow(2).sum(), x))
    alike(*outcomes)


# What is saved


@pytest.mark.parametrize("backend", ["jitpkg", "aot"])
@pytest.mark.parametrize("kind", ["a chain", "blocks"])
def test_nothing_of_the_part_is_saved(kind: str, backend: str) -> None:
    """But for what it is given."""

    def part(y: Tensor) -> Tensor:
        if kind == "blocks":
            return BLOCK(y)
        for _ in range(5):
            y = (y @ y.t()).softmax(-1) @ y
        return y

    def program(x: Tensor) -> Tensor:
        for _ in range(3):
            x = again(part, x)
        return x

    def plain(x: Tensor) -> Tensor:
        for _ in range(3):
            x = part(x)
        return x

    sizes = {}
    for each in (program, plain):
        compiled = jitpkg.compile(each, fullgraph=True, **settings(backend))
        compiled(leaf(64, 4)).sum().backward()
        sizes[each.__name__] = _saved_by_node(compiled(leaf(64, 4)))
    of_parts = 2 * 64 * 4 * 4  # what the second and the third are given
    assert sizes["program"] <= of_parts + 1024 < sizes["plain"]


def _saved_by_node(result: Tensor) -> int:
    """The bytes that the backward half of a graph was given, parameters and inputs not counted."""
    node: Any = result.grad_fn
    assert node is not None
    tensors = [t for t in node.saved_tensors if isinstance(t, Tensor)]
    storages = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
        for t in tensors
        if not (t.is_leaf and t.requires_grad)
    }
    return sum(storages.values())


# What is called for real


LOG: list[Any] = []
NORM = nn.BatchNorm1d(4)


def logs(x: Tensor) -> Tensor:
    LOG.append(1)
    return x.exp()


def prints(x: Tensor) -> Tensor:
    print("here")
    return x.exp()


def normed(x: Tensor) -> Tensor:
    return NORM(x)


def without_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        scale = x.exp()
    return x * scale


def policy() -> Any:
    return create_selective_checkpoint_contexts([torch.ops.aten.mm.default])


REFUSED: dict[str, Program] = {
    "changes a list": lambda x: again(logs, x),
    "writes to statistics": lambda x: again(normed, x),
    "changes grad mode": lambda x: again(without_grad, x),
    "a policy": lambda x: again(lambda y: (y @ y.t()).exp(), x, context_fn=policy),
    "other random numbers": lambda x: again(DROPPED, x, preserve_rng_state=False),
    "reentrant, of integers": lambda x: (
        checkpoint(lambda y: y.long(), x, use_reentrant=True).float() * x
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", REFUSED)
def test_called_for_real(name: str, backend: str) -> None:
    program = REFUSED[name]
    explained = jitpkg.explain(program, **settings(backend))(leaf(5, 4))
    assert [each.reason for each in explained.break_reasons] == [reasons.CHECKPOINT]
    if name == "other random numbers":
        return
    compiled = jitpkg.compile(program, **settings(backend))
    outcomes = []
    for each in (compiled, program):
        LOG.clear()
        NORM.reset_running_stats()
        found = seen(each, leaf(5, 4))
        outcomes.append(([*found, *(b.clone() for b in NORM.buffers())], len(LOG)))
    assert outcomes[0][1] == outcomes[1][1]
    alike(outcomes[0][0], outcomes[1][0])


def test_prints(capfd: pytest.CaptureFixture[str]) -> None:
    """A break of its own reason: once forward, and once backward."""
    compiled = jitpkg.compile(lambda x: again(prints, x))
    for _ in range(2):
        compiled(leaf(3)).sum().backward()
        assert capfd.readouterr().out == "here\n" * 2


def test_it_warns_of_what_has_no_gradient() -> None:
    """With grad mode off, too."""

    def program(x: Tensor) -> Any:
        return checkpoint(lambda y: y.exp(), x, use_reentrant=True)

    compiled = jitpkg.compile(program)
    for each in (program, compiled):
        with torch.no_grad(), pytest.warns(UserWarning, match="None of the inputs"):
            each(leaf(3, grad=False))


def test_tensors_of_inference_mode() -> None:
    def program(x: Tensor) -> Any:
        return again(lambda y: y.exp(), x)

    with torch.inference_mode():
        x = leaf(3, grad=False) * 2
    compiled = jitpkg.compile(program)
    for each in (program, compiled):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
            each(x)


def test_it_warns_without_the_option() -> None:
    def program(x: Tensor) -> Any:
        return checkpoint(lambda y: y.exp(), x)

    compiled = jitpkg.compile(program)
    for each in (program, compiled):
        with pytest.warns(UserWarning, match="use_reentrant"):
            each(leaf(3))


def test_of_varying_sizes() -> None:
    compiled = jitpkg.compile(PROGRAMS["several"], backend="jitpkg", fullgraph=True, dynamic=True)
    for n in (5, 3, 8):
        alike(seen(compiled, leaf(n, 4)), seen(PROGRAMS["several"], leaf(n, 4)))


def test_what_fails_inside() -> None:
    """As in eager code: the exception is that of the op, and the next call is right."""

    def program(x: Tensor, index: Tensor) -> Tensor:
        return again(lambda y: y.exp()[index], x)

    compiled = jitpkg.compile(program, backend="jitpkg", fullgraph=True)
    good, bad = torch.tensor([1, 2]), torch.tensor([1, 20])
    alike(seen(compiled, leaf(5, 4), good), seen(program, leaf(5, 4), good))
    with pytest.raises(IndexError):
        compiled(leaf(5, 4), bad)
    alike(seen(compiled, leaf(5, 4), good), seen(program, leaf(5, 4), good))
