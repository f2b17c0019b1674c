"""Gradients of several inputs that one value gives: each is added to by itself.

Autograd adds the second gradient of a leaf to the first one in place. If that is a view of what
another leaf got, both are wrong. For two views eager code itself is so; then either is accepted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg
from tests.native.support import needs_llvm

Way = Callable[[Tensor], Tensor]

NUMBERS: dict[str, Way] = {
    "itself": lambda a: a,
    "sum": lambda a: a.sum(),
    "view": lambda a: a.view(()),
    "expanded": lambda a: a.expand(()),
    "negative": lambda a: -a,
    "clone": lambda a: a.clone(),
}
MATRICES: dict[str, Way] = {
    "itself": lambda a: a,
    "view": lambda a: a.view(-1).view(2, 3),
    "reshaped": lambda a: a.reshape(3, 2).reshape(2, 3),
    "expanded": lambda a: a.expand(2, 3),
    "all": lambda a: a[:, :],
    "negative": lambda a: -a,
}
CASES = [
    *((torch.tensor(0.5), *pair) for pair in itertools.product(NUMBERS.items(), repeat=2)),
    *((torch.rand(2, 3), *pair) for pair in itertools.product(MATRICES.items(), repeat=2)),
]
HOW: dict[str, dict[str, Any]] = {
    "jitpkg": {"backend": "jitpkg"},
    "own": {"backend": "jitpkg", "options": {"backward": "own"}},
    "aot_eager": {"backend": "aot_eager"},
}


def gradients(function: Callable[..., Tensor], value: Tensor, times: int) -> list[Tensor]:
    leaves = [value.double().clone().requires_grad_() for _ in range(3)]
    for _ in range(times):
        function(*leaves).sum().backward()
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


@needs_llvm
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("used", ["both at once", "one after the other"])
def test_they_are_added_up_one_by_one(how: str, used: str) -> None:
    wrong = []
    for value, (first, one), (second, other) in CASES:

        def function(a: Tensor, b: Tensor, c: Tensor, one: Way = one, other: Way = other) -> Tensor:
            if used == "both at once":
                return (one(a) + other(b) + c).sin()
            return (one(a) + (other(b) + c)).sin()

        right = [3 * each for each in gradients(function, value, 1)]
        eager = gradients(function, value, 3)
        found = gradients(jitpkg.compile(function, **HOW[how]), value, 3)
        for a, b, c in zip(found, right, eager, strict=True):
            if not (torch.allclose(a, b) or torch.allclose(a, c)):
                wrong.append((tuple(value.shape), first, second, a, b, c))
    assert not wrong


def shares(function: Callable[..., Tensor], value: Tensor, own: bool) -> tuple[bool, list[Tensor]]:
    """Whether two gradients that are returned lie in the same memory; and what each is after the
    first one was written to."""
    leaves = [value.double().clone().requires_grad_() for _ in range(2)]
    inputs = leaves if own else [leaf * 1 for leaf in leaves]
    result = function(*inputs)
    one, other = torch.autograd.grad(result, inputs, torch.ones_like(result))
    same = one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    if same:
        one.mul_(3)
    return same, [one, other]


@needs_llvm
@pytest.mark.parametrize("own", [True, False], ids=["leaves", "others"])
@pytest.mark.parametrize("how", ["jitpkg", "own"])
def test_those_that_are_returned_share_memory_where_eager_codes_do(how: str, own: bool) -> None:
    """No copy is made for nothing, and writing to one changes no other that it would not. What goes
    on to other ops is copied: who knows what becomes of it."""
    shared, wrong = 0, []
    for value, (first, one), (second, other) in CASES:

        def function(a: Tensor, b: Tensor, one: Way = one, other: Way = other) -> Tensor:
            return one(a) + other(b)

        eager, right = shares(function, value, own)
        same, found = shares(jitpkg.compile(function, **HOW[how]), value, own)
        shared += same
        if same and not (eager and all(map(torch.equal, found, right))):
            wrong.append((tuple(value.shape), first, second))
    assert not wrong
    assert bool(shared) is own


def added(
    function: Callable[..., Tensor], value: Tensor, factors: list[int], outside: bool
) -> list[Tensor]:
    """Gradients of two leaves, after backward passes that begin with these numbers; or they come of
    an op outside, and nobody else holds them."""
    leaves = [value.double().clone().requires_grad_() for _ in range(2)]
    for factor in factors:
        result = function(*leaves)
        if outside:
            (result * factor).sum().backward()
        else:
            result.backward(torch.full_like(result, factor))
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


@needs_llvm
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("how", HOW)
def test_what_comes_in_is_added_to_each(how: str, outside: bool) -> None:
    """The gradient of the result is that of several leaves as it is."""
    wrong = []
    for value, (first, one), (second, other) in CASES:

        def function(a: Tensor, b: Tensor, one: Way = one, other: Way = other) -> Tensor:
            return one(a) + other(b)

        right = [6 * each for each in added(function, value, [1], outside)]
        eager = added(function, value, [1, 2, 3], outside)
        found = added(jitpkg.compile(function, **HOW[how]), value, [1, 2, 3], outside)
        for a, b, c in zip(found, right, eager, strict=True):
            if not (torch.equal(a, b) or torch.equal(a, c)):
                wrong.append((tuple(value.shape), first, second, a, b, c))
    assert not wrong


@needs_llvm
def test_some_are_added_and_some_are_not() -> None:
    function = jitpkg.compile(lambda a, b, c: a.t() + b + c.t(), backend="jitpkg")
    a, b, c = (torch.zeros(2, 2, requires_grad=True) for _ in range(3))
    for _ in range(2):
        function(a, b, c).sum().backward(inputs=[a, c])
    assert b.grad is None
    for each in (a, c):
        assert each.grad is not None
        assert torch.equal(each.grad, torch.full((2, 2), 2.0))
    function(a, b * 1, c).sum().backward()
    for each, times in ((a, 3.0), (b, 1.0), (c, 3.0)):
        assert each.grad is not None
        assert torch.equal(each.grad, torch.full((2, 2), times))
