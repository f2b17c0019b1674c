"""Functions that write to a tensor with a history, and gradients through what was there before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import jitpkg


def product(y: Tensor, v: Tensor) -> Tensor:
    return y.mul_(v) + 1


def quotient(y: Tensor, v: Tensor) -> Tensor:
    return y.div_(v).sin()


def twice(y: Tensor, v: Tensor) -> Tensor:
    y.mul_(v)
    y.mul_(v)
    return y * 1


def augmented(y: Tensor, v: Tensor) -> Tensor:
    y *= v
    return y


def a_part(y: Tensor, v: Tensor) -> Tensor:
    y[1:] *= v[1:]
    return y.exp()


def read_before(y: Tensor, v: Tensor) -> Tensor:
    read = y * v
    y.add_(v)
    return read + y


def power(y: Tensor, v: Tensor) -> Tensor:
    return y.pow_(2) * v


def both(y: Tensor, v: Tensor) -> Tensor:
    w = v * 2
    y.addcmul_(y, w)
    w.mul_(y)
    return w


def copied(y: Tensor, v: Tensor) -> Tensor:
    kept = y.clone()
    y.mul_(v)
    return kept * y


def nothing_returned(y: Tensor, v: Tensor) -> None:
    y.mul_(v)


def outcome(function: Callable[[Tensor, Tensor], Tensor | None], size: int) -> object:
    """What it returns, what it leaves, and gradients; or the kind of exception."""
    x = torch.linspace(0.5, 2, size, requires_grad=True)
    v = torch.linspace(-2, -1, size, requires_grad=True)
    y = x * 3
    try:
        made = function(y, v)
        (y if made is None else made).sum().backward()
    except RuntimeError as error:
        return str(error).partition(":")[0]
    return made, y, x.grad, v.grad


FUNCTIONS = [
    product,
    quotient,
    twice,
    augmented,
    a_part,
    read_before,
    power,
    both,
    copied,
    nothing_returned,
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_are_of_what_was_there(
    function: Callable[[Tensor, Tensor], Tensor], backend: str, dynamic: bool
) -> None:
    fast = jitpkg.compile(function, backend=backend, dynamic=dynamic)
    for size in (6, 6, 9):
        found, expected = outcome(fast, size), outcome(function, size)
        if isinstance(expected, str):
            assert found == expected
        else:
            torch.testing.assert_close(found, expected)
