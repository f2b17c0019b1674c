"""`backward()` in a compiled function: gradients as an op of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge, register_multi_grad_hook
from torch.utils.checkpoint import checkpoint

import jitpkg
from jitpkg.testing import Comparison, call

BACKENDS = ("eager", "jitpkg", "aot_eager")


def leaf(*size: int, seed: int = 0) -> Tensor:
    made = torch.randn(*size, generator=torch.Generator().manual_seed(seed))
    return made.requires_grad_()


def same(
    program: Callable[..., Any],
    *given: Any,
    backend: str,
    whole: bool = True,
    ignore: tuple[str, ...] = (),
) -> None:
    """Three calls, after which gradients are there already."""
    if backend != "eager":
        ignore += ("grad_fn", "version", "idle strides")
    comparison = Comparison(
        backend=backend, fullgraph=whole, relative=1e-5, absolute=1e-6, ignore=ignore
    )
    comparison.assert_same_calls(program, *[call(*given)] * 3)


# One graph


def new_gradient(p: Tensor, x: Tensor) -> Tensor:
    (p * x).exp().sum().backward()
    assert p.grad is not None
    return p.grad * 2


def returned_loss(p: Tensor, x: Tensor) -> Tensor:
    loss = (p * x).exp().sum()
    loss.backward()
    return loss


def kept_history(p: Tensor, x: Tensor) -> Tensor:
    loss = (p * x).exp().sum()
    loss.backward(retain_graph=True)
    loss.backward(retain_graph=True)
    return loss


def not_reached(p: Tensor, q: Tensor) -> bool:
    (p * q.detach()).exp().sum().backward()
    return q.grad is None


def under_no_grad(p: Tensor, q: Tensor) -> bool:
    with torch.no_grad():
        r = q * 2
    (p * r).exp().sum().backward()
    return q.grad is None


def written_items(p: Tensor, x: Tensor) -> None:
    z = torch.zeros(4)
    z[1:3] = p[:2] * x[:2]
    (z * z).sum().backward()


def written_in_place(p: Tensor, x: Tensor) -> None:
    z = x.clone()
    z.mul_(p).add_(1)
    z.exp().sum().backward()


def written_through_a_view(p: Tensor, q: Tensor) -> None:
    z = p * 1
    v = z.view(3, 1).add_(1)[1:]
    v[1] = q.sum()
    z.exp().sum().backward()


def written_for_nothing(p: Tensor, q: Tensor) -> bool:
    z = torch.zeros(3)
    z[0] = q.sum()
    w = torch.ones(3)
    before = w * 1
    w[1] = q[0]
    (p * before).exp().sum().backward()
    return q.grad is None


def written_over(p: Tensor, q: Tensor) -> bool:
    z = q * 1
    z.copy_(p)
    z.exp().sum().backward()
    return q.grad is None


def given_gradient(p: Tensor, x: Tensor) -> Tensor:
    y = p.exp()
    y.backward(x)
    return y


def the_gradient_itself(p: Tensor, x: Tensor) -> bool:
    (p + 1).backward(x)
    return p.grad is x


def one_gradient_for_two(p: Tensor, q: Tensor) -> bool:
    (p + q).backward(torch.ones(3))
    return p.grad is q.grad


def some_inputs(p: Tensor, q: Tensor) -> bool:
    (p * q).sum().backward(inputs=[p])
    return q.grad is None


def of_several(p: Tensor, q: Tensor) -> None:
    losses = [(p * p).sum(), (p * q).sum()]
    torch.autograd.backward(losses, [torch.tensor(2.0), None])


def expanded_gradient(p: Tensor, q: Tensor) -> tuple[int, ...]:
    (p.sum() + q.sum() * 2).backward()
    assert p.grad is not None
    return p.grad.stride()


def read_before(p: Tensor, x: Tensor) -> Tensor:
    before = p.grad
    (p * x).exp().sum().backward()
    assert p.grad is not None
    return p.grad if before is None else before + p.grad


def forgotten_gradient(p: Tensor, x: Tensor) -> Tensor:
    (p * x).exp().sum().backward()
    assert p.grad is not None
    found = p.grad
    p.grad = None
    return found


def assigned_gradient(p: Tensor, x: Tensor) -> Tensor:
    p.grad = x * 2
    (p * x).exp().sum().backward()
    return p.grad


def accumulated(p: Tensor, x: Tensor) -> None:
    for k in range(3):
        ((p * x).exp().sum() / (k + 1)).backward()


def with_clipping(p: Tensor, x: Tensor) -> Tensor:
    (p * x).exp().sum().backward()
    return nn.utils.clip_grad_norm_([p], 0.5)


def in_a_helper(p: Tensor, x: Tensor) -> Tensor:
    def run(loss: Tensor) -> Tensor:
        loss.backward()
        return loss.detach()

    return run((p * x).tanh().sum())


class Half(torch.autograd.Function):
    """No gradient for its second argument."""

    @staticmethod
    def forward(_: Any, a: Tensor, b: Tensor) -> Tensor:
        return a * b.sign()

    @staticmethod
    def backward(_: Any, *grads: Any) -> Any:
        return grads[0] * 2, None


def of_a_function(p: Tensor, q: Tensor) -> bool:
    Half.apply(p, q).exp().sum().backward()
    return q.grad is None


def of_a_checkpoint(p: Tensor, x: Tensor) -> Tensor:
    y = checkpoint(torch.exp, p * x, use_reentrant=False)
    loss = (y * y).sum()
    loss.backward()
    return loss


WHOLE: dict[str, tuple[Callable[..., Any], int]] = {
    program.__name__: (program, leaves)
    for program, leaves in (
        (new_gradient, 1),
        (returned_loss, 1),
        (kept_history, 1),
        (not_reached, 2),
        (under_no_grad, 2),
        (written_items, 1),
        (written_in_place, 1),
        (written_through_a_view, 2),
        (written_for_nothing, 2),
        (written_over, 2),
        (given_gradient, 1),
        (the_gradient_itself, 1),
        (one_gradient_for_two, 2),
        (some_inputs, 2),
        (of_several, 2),
        (expanded_gradient, 2),
        (read_before, 1),
        (forgotten_gradient, 1),
        (assigned_gradient, 1),
        (accumulated, 1),
        (with_clipping, 1),
        (in_a_helper, 1),
        (of_a_function, 2),
        (of_a_checkpoint, 1),
    )
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_one_graph(name: str, backend: str) -> None:
    program, leaves = WHOLE[name]
    given = [leaf(3, seed=k).requires_grad_(k < leaves) for k in range(2)]
    same(program, *given, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "like",
    [
        torch.zeros(4, 3),
        torch.zeros(3, 4).t(),
        torch.zeros(4, 6)[:, ::2],
        torch.zeros(3).expand(4, 3),
        torch.zeros(4, 3, dtype=torch.float64),
        torch.zeros(4, 3, dtype=torch.bfloat16),
        torch.zeros(0, 3),
        torch.zeros(4, 1, 3),
        torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
    ],
    ids=lambda like: f"{tuple(like.shape)} {like.stride()} {like.dtype}".replace("torch.", ""),
)
def test_layouts(like: Tensor, backend: str) -> None:
    def program(p: Tensor) -> Any:
        (p.sum() + (p * 2).exp().sum()).backward()
        assert p.grad is not None
        return p.grad.stride(), p.grad + 1

    same(program, like.detach().requires_grad_(), backend=backend)


# Left to Python


def two_steps(p: Tensor, x: Tensor) -> Tensor:
    total = torch.zeros(())
    for _ in range(3):
        loss = (p * x).exp().sum()
        loss.backward()
        total = total + loss.detach()
        with torch.no_grad():
            p -= 0.1 * p.grad
        p.grad = None
    return total


def with_a_history(p: Tensor, x: Tensor) -> Any:
    (p * p * x).sum().backward(create_graph=True)
    return p.grad


def made_inside(p: Tensor, x: Tensor) -> Any:
    q = p.detach().requires_grad_()
    (q * x).exp().sum().backward()
    return q.grad


def leaf_made_inside(p: Tensor, x: Tensor) -> Any:
    q = torch.ones(3, requires_grad=True)
    (p * q * x).exp().sum().backward()
    return q.grad


def of_order_0(p: Tensor, x: Tensor) -> Any:
    ((p * x).norm(0) + torch.linalg.vector_norm(p, 0)).backward()
    return p.grad is None


def of_another_dtype(p: Tensor, x: Tensor) -> Any:
    (p.bfloat16() * x).exp().sum().backward()
    return p.grad


def of_a_leaf_itself(p: Tensor, x: Tensor) -> Any:
    p.backward(x)
    return p.grad


def twice(p: Tensor, x: Tensor) -> None:
    loss = (p * x).exp().sum()
    loss.backward()
    loss.backward()


def no_number(p: Tensor, x: Tensor) -> None:
    (p * x).backward()


def without_gradient(p: Tensor, x: Tensor) -> None:
    (p.detach() * x).sum().backward()


def of_another_size(p: Tensor, x: Tensor) -> None:
    (p * x).backward(x[:2])


def under_autocast(p: Tensor, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (p[None] @ x[:, None]).exp().sum()
    loss.backward()
    return loss


def all_under_autocast(p: Tensor, x: Tensor) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (p[None] @ x[:, None]).exp().sum()
        loss.backward()


def where_grad_mode_is_off(p: Tensor, x: Tensor) -> Tensor:
    loss = (p * x).exp().sum()
    with torch.no_grad():
        loss.backward()
        with torch.enable_grad():
            again = (p * x).sum()
    return again


def saved_and_written(p: Tensor, x: Tensor) -> Tensor:
    y = p * x
    z = (y * y).sum()
    y.detach().add_(1)
    z.backward()
    return z


def changed_unseen(p: Tensor, x: Tensor) -> Tensor:
    y = p * x
    with torch.no_grad():
        y.mul_(3)
    y.sum().backward()
    return y


def other_history(p: Tensor, x: Tensor) -> Tensor:
    other = (p * 3).exp()
    (p * x).exp().sum().backward()
    return other


def written_after_a_view(p: Tensor, x: Tensor) -> None:
    z = torch.zeros(2, 2)
    v = z.view(4).add_(1)[1:]
    v[1] = (p * x).sum()
    z.exp().sum().backward()


OTHERS = (
    written_after_a_view,
    two_steps,
    with_a_history,
    made_inside,
    leaf_made_inside,
    of_order_0,
    of_another_dtype,
    of_a_leaf_itself,
    twice,
    no_number,
    without_gradient,
    of_another_size,
    under_autocast,
    all_under_autocast,
    where_grad_mode_is_off,
    saved_and_written,
    changed_unseen,
    other_history,
)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", OTHERS, ids=lambda program: program.__name__)
def test_what_is_not_as_usual(program: Callable[..., Any], backend: str) -> None:
    in_kernels = program is under_autocast and backend == "jitpkg"  # squeezed, in its own memory
    ignore = ("view",) if in_kernels else ()
    given = leaf(3), leaf(3, seed=1).detach()
    same(program, *given, backend=backend, whole=False, ignore=ignore)


def hooks(p: Tensor) -> dict[str, Callable[[], Any]]:
    return {
        "hook": lambda: p.register_hook(lambda grad: grad * 10),
        "after": lambda: p.register_post_accumulate_grad_hook(_tripled),
        "several": lambda: register_multi_grad_hook([p], lambda grads: None),
        "node": lambda: _on_the_node(p, "register_hook"),
        "before the node": lambda: _on_the_node(p, "register_prehook"),
    }


def _tripled(p: Tensor) -> None:
    assert p.grad is not None
    p.grad.mul_(3)


def _on_the_node(p: Tensor, register: str) -> Any:
    node = get_gradient_edge(p).node
    return node, getattr(node, register)(lambda *grads: _SEEN.append(len(grads)))


_SEEN: list[int] = []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", hooks(leaf(3)))
def test_hooks_of_leaves(kind: str, backend: str) -> None:
    def run(function: Callable[..., Any]) -> Any:
        p = leaf(3)
        held = hooks(p)[kind]()
        _SEEN.clear()
        for _ in range(2):
            function(p, torch.ones(3))
        return p.grad, list(_SEEN), held

    expected, seen, _ = run(new_gradient)
    found, again, _ = run(jitpkg.compile(new_gradient, backend=backend))
    torch.testing.assert_close(found, expected)
    assert again == seen


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_a_dtype_that_gradients_are_to_have(backend: str) -> None:
    def program(p: Tensor) -> None:
        (p.float() * 2).exp().sum().backward()

    compiled = jitpkg.compile(program, backend=backend)
    p = leaf(3).detach().bfloat16().requires_grad_()
    for dtype in (torch.bfloat16, torch.float32, torch.bfloat16):
        p.grad = None
        p.grad_dtype = dtype
        compiled(p)
        assert p.grad is not None
        assert p.grad.dtype is dtype


def test_a_hook_that_comes_later() -> None:
    compiled = jitpkg.compile(new_gradient)
    p, x = leaf(3), torch.ones(3)
    compiled(p, x)
    p.grad = None
    handle = p.register_hook(lambda grad: grad * 10)
    torch.testing.assert_close(compiled(p, x), new_gradient(leaf(3), x) * 10)
    handle.remove()
    p.grad = None
    torch.testing.assert_close(compiled(p, x), new_gradient(leaf(3), x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_what_was_computed_before(backend: str) -> None:
    def program(h: Tensor) -> None:
        (h * 2).exp().sum().backward()

    p = leaf(3)
    q = leaf(3)
    jitpkg.compile(program, backend=backend)(p.tanh())
    program(q.tanh())
    torch.testing.assert_close(p.grad, q.grad)


def test_a_history_that_is_freed() -> None:
    compiled = jitpkg.compile(returned_loss, backend="jitpkg", fullgraph=True)
    p = leaf(3)
    loss = compiled(p, torch.ones(3))
    assert loss.requires_grad
    assert not loss.is_leaf
    assert loss._base is None
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        torch.autograd.grad(loss, p, allow_unused=True)


@pytest.mark.filterwarnings("ignore:Anomaly")
@pytest.mark.filterwarnings("ignore:Error detected")
@pytest.mark.parametrize("backend", BACKENDS)
def test_anomaly_mode(backend: str) -> None:
    def program(p: Tensor, x: Tensor) -> None:
        (p * x).sqrt().sum().backward()

    compiled = jitpkg.compile(program, backend=backend)
    compiled(leaf(3).exp().detach().requires_grad_(), torch.ones(3))
    with (
        torch.autograd.detect_anomaly(check_nan=True),
        pytest.raises(RuntimeError, match="returned nan values"),
    ):
        compiled(torch.zeros(3, requires_grad=True), torch.zeros(3))


# What only the program knows


@jitpkg.allow_in_graph
def half_of_it(p: Tensor, q: Tensor) -> Tensor:
    return p * q.detach()


def of_an_unknown_function(p: Tensor, q: Tensor) -> bool:
    half_of_it(p, q).exp().sum().backward()
    return q.grad is None


def of_one_after_a_write(p: Tensor, q: Tensor, total: Tensor) -> bool:
    total.add_(1)
    half_of_it(p, q).exp().sum().backward()
    return q.grad is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_unknown_functions(backend: str) -> None:
    given = [leaf(3), leaf(3, seed=1)]
    same(of_an_unknown_function, *given, backend=backend, whole=False)
    same(of_one_after_a_write, *given, torch.zeros(()), backend=backend, whole=False)
