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
