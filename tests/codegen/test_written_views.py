"""Writes to views of what a function has made: what is refused, and what then requires grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg

View = Callable[[Tensor], Tensor]
Write = Callable[[Tensor, Tensor], object]

MAKES: dict[str, View] = {
    "of what requires grad": lambda a: a * 2,
    "of a constant": lambda a: torch.ones(2, 3),
}
VIEWS: dict[str, View] = {
    "itself": lambda y: y,
    "row": lambda y: y[0],
    "flat": lambda y: y.view(-1),
    "turned": lambda y: y.T,
    "one of unbind": lambda y: y.unbind(0)[0],
    "one of split": lambda y: y.split(1)[0],
    "one of chunk": lambda y: y.chunk(2)[0],
    "one of two sizes": lambda y: torch.split(y, [1, 1])[1],
    "one of hsplit": lambda y: y.hsplit(3)[0],
    "one of a view": lambda y: y.t().unbind(1)[0],
    "a view of one": lambda y: y.unbind(0)[0][1:],
    "taken in no_grad": torch.no_grad()(lambda y: y[0]),
    "detached": lambda y: y.detach()[0],
    "data": lambda y: y.data[0],
}
WRITES: dict[str, Write] = {
    "mul_": lambda p, w: p.mul_(2),
    "add_": lambda p, w: p.add_(w),
    "in no_grad": torch.no_grad()(lambda p, w: p.mul_(2)),
    "copy_": lambda p, w: p.copy_(w),
    "zero_": lambda p, w: p.zero_(),
    "fill_": lambda p, w: p.fill_(3),
    "bernoulli_": lambda p, w: p.bernoulli_(),
    "setitem": lambda p, w: p.__setitem__(..., 1.0),
}
USES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "what is shown": lambda y, p: y.sum(),
    "the view": lambda y, p: p.sum(),
    "both": lambda y, p: y.sum() * p.sum(),
}


def outcome(function: Callable[..., Any]) -> object:
    """Values, gradients and which results require grad; or the exception."""
    torch.manual_seed(0)
    a = torch.arange(6.0).view(2, 3).requires_grad_()
    b = torch.tensor(1.5, requires_grad=True)
    try:
        r, y, p = function(a, b)
        r.backward()
    except RuntimeError as error:
        return str(error).partition(":")[0]
    gradients = [None if x.grad is None else x.grad.tolist() for x in (a, b)]
    return [x.tolist() for x in (r, y, p)], gradients, y.requires_grad, p.requires_grad


@pytest.mark.parametrize("backward", ["own", "aot"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("make", MAKES)
def test_as_eager(make: str, view: str, backward: str) -> None:
    writes = list(WRITES.values())
    for write in writes if backward == "own" else writes[::3]:  # AOTAutograd takes its time
        for use in USES.values():

            def function(
                a: Tensor,
                b: Tensor,
                write: Write = write,
                use: Callable[[Tensor, Tensor], Tensor] = use,
            ) -> tuple[Tensor, ...]:
                y = MAKES[make](a)
                p = VIEWS[view](y)
                write(p, b)
                return use(y, p) * a.sum(), y, p

            compiled = jitpkg.compile(function, backend="jitpkg", options={"backward": backward})
            assert outcome(compiled) == outcome(function)
