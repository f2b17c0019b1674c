"""What random training steps have found, made small."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg.testing import Comparison, call

Program = Callable[[Tensor, Tensor, Tensor], Any]


def through_what_came_before(p: Tensor, q: Tensor, x: Tensor) -> Any:
    y = x + p
    print()
    y.sum().backward(inputs=[p])


def an_operand_of_a_write_without_grad(p: Tensor, q: Tensor, x: Tensor) -> Any:
    with torch.no_grad():
        p.mul_(q)
    (p.sum() + x.sum()).backward()


def a_view_without_grad(p: Tensor, q: Tensor, x: Tensor) -> Any:
    with torch.no_grad():
        view = p[:2]
    (q.sum() + view.sum()).backward()
    return view.grad


def a_view_without_grad_in_two_passes(p: Tensor, q: Tensor, x: Tensor) -> Any:
    with torch.no_grad():
        view = p[:2]
    (q.sum() + view.sum()).backward()
    print()
    (view * 2).sum().backward()
    return view.grad


def refused_after_a_pass(p: Tensor, q: Tensor, x: Tensor) -> Any:
    x.add_(1)
    (p.sum() + q.sum()).backward()
    q.view(3, 1).mul_(2)
    q.grad = None


def modified_in_the_middle(p: Tensor, q: Tensor, x: Tensor) -> Any:
    y = p.exp() * p
    x.add_(1)
    with torch.no_grad():
        p.mul_(2)
    (y.sum() + q.sum()).backward()


def twice(p: Tensor, q: Tensor, x: Tensor) -> Any:
    y = p.exp()
    x.add_(1)
    y.sum().backward()
    (y.sum() + q.sum()).backward()


def a_view_of_a_value_without_grad(p: Tensor, q: Tensor, x: Tensor) -> Any:
    y = p * q
    with torch.no_grad():
        view = y[1:]
    p.sum().backward()
    return view


PROGRAMS = [
    through_what_came_before,
    an_operand_of_a_write_without_grad,
    a_view_without_grad,
    a_view_without_grad_in_two_passes,
    refused_after_a_pass,
    modified_in_the_middle,
    twice,
    a_view_of_a_value_without_grad,
]
IGNORED = ("grad_fn", "version", "view", "idle strides", "traceback", "memory", "storage offset")


@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_eager_code(program: Program, backend: str) -> None:
    given = torch.rand(3).requires_grad_(), torch.rand(3).requires_grad_(), torch.rand(3)
    exact = backend == "eager"
    how = Comparison(
        backend=backend,
        ignore=() if exact else IGNORED,
        relative=0.0 if exact else 1e-5,
    )
    how.assert_same_calls(program, *[call(*given)] * 2)


def written_without_grad(p: Tensor, q: Tensor) -> Tensor:
    with torch.no_grad():
        q.mul_(2)
    return (p * q).sum()


def written_detached(p: Tensor, q: Tensor) -> Tensor:
    q.detach().mul_(2)
    return (p * 2).sum() + q.sum()


def written_through_data(p: Tensor, q: Tensor) -> Tensor:
    q.data.mul_(2)
    return p.sum() + q.sum()


@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
@pytest.mark.parametrize(
    "program",
    [written_without_grad, written_detached, written_through_data],
    ids=lambda f: f.__name__,
)
def test_such_a_write_leaves_the_history_of_an_argument(
    program: Callable[[Tensor, Tensor], Tensor], backend: str
) -> None:
    def gradients(function: Any) -> Any:
        p, base = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        q = base * 3
        history = q.grad_fn
        function(p, q).backward(inputs=[q], retain_graph=True)
        (q * 5).sum().backward()
        return q.grad.tolist(), base.grad.tolist(), q.grad_fn is history

    assert gradients(jitpkg.jit(program, backend=backend)) == gradients(program)


def stacked(p: Tensor, q: Tensor) -> Tensor:
    return torch.stack([p, q]).sum(0).sum()


def twice_stacked(p: Tensor, q: Tensor) -> Tensor:
    return (p.exp() - p.exp()).sum() + torch.stack([p, q]).sum(0).sum()


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("program", [stacked, twice_stacked], ids=lambda f: f.__name__)
def test_gradients_of_two_leaves_are_added_to_apart(
    program: Callable[[Tensor, Tensor], Tensor], backend: str
) -> None:
    p, q = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    jitpkg.jit(program, backend=backend)(p, q).backward()
    (p * 2).sum().backward()
    assert p.grad is not None and q.grad is not None
    assert p.grad.tolist() == [3.0] * 3
    assert q.grad.tolist() == [1.0] * 3


def squared(p: Tensor) -> None:
    (p * p).sum().backward()


def towards(p: Tensor) -> Any:
    (torch.ones(3, requires_grad=True) * 2).sum().backward(inputs=[p])
    p.sum().backward(retain_graph=True)
    return p.retains_grad


def assigned(p: Tensor) -> Any:
    p.grad = torch.ones(3)
    return p.grad * 2


def read(p: Tensor) -> Any:
    return p.grad


KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda leaf: torch.ones(3),
    "leaf": lambda leaf: leaf,
    "with a history": lambda leaf: leaf * 2,
    "view of a leaf": lambda leaf: leaf[:],
    "leaf that is a view": lambda leaf: leaf.detach()[:].requires_grad_(),
    "parameter": lambda leaf: torch.nn.Parameter(leaf.detach()),
}


@pytest.mark.parametrize("function", [squared, towards, assigned, read], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("first", KINDS)
def test_the_next_call_has_a_leaf_or_none(
    first: str, backend: str, function: Callable[[Tensor], Any]
) -> None:
    def outcome(function: Any, kind: str) -> list[str]:
        leaf = torch.ones(3, requires_grad=True)
        given = KINDS[kind](leaf)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                returned = function(given)
            except RuntimeError as error:
                returned = error
        grad = given.grad if given.is_leaf or given.retains_grad else None
        return [*map(str, (leaf.grad, grad, returned, len(heard)))]

    expected = {kind: outcome(function, kind) for kind in KINDS}
    for then in KINDS:
        jitpkg.reset()
        compiled = jitpkg.compile(function, backend=backend)
        for kind in (first, then, first):
            assert outcome(compiled, kind) == expected[kind], kind
