"""Writes that autograd does not see: to what has a gradient, with grad mode off, or through
`detach()` or `.data`. The value changes and keeps its history."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg.codegen import backend

Make = Callable[[Tensor], Tensor]
Write = Callable[[Tensor, Tensor], object]
Use = Callable[[Tensor, Tensor, Tensor], Tensor]


def of_grad_mode_off(write: Write) -> Write:
    def written(y: Tensor, v: Tensor) -> None:
        with torch.no_grad():
            write(y, v)

    return written


def _assign(y: Tensor, v: Tensor) -> None:
    y[1:] = 0.5


def _assign_other(y: Tensor, v: Tensor) -> None:
    y[:2] = v[:2]


MAKES: dict[str, Make] = {
    "product": lambda x: x * 3,
    "clone": lambda x: x.clone(),
    "turned": lambda x: (x * x).t(),
    "exp": lambda x: x.exp(),  # saved, so that eager code refuses to go backward
    "without a history": lambda x: x.detach() * 2,
}
WRITES: dict[str, Write] = {
    "mul_": of_grad_mode_off(lambda y, v: y.mul_(2)),
    "clamp_": of_grad_mode_off(lambda y, v: y.clamp_(min=0.3)),
    "a part": of_grad_mode_off(_assign),
    "a part of another": of_grad_mode_off(_assign_other),
    "copy_": of_grad_mode_off(lambda y, v: y.copy_(v)),
    "zero_": of_grad_mode_off(lambda y, v: y.zero_()),
    "a view": of_grad_mode_off(lambda y, v: y.t().add_(1)),
    "twice": of_grad_mode_off(lambda y, v: y.mul_(2).add_(v)),
    "detach": lambda y, v: y.detach().mul_(2),
    "detach, with a history": lambda y, v: y.detach().mul_(v),
    "detach, a part": lambda y, v: y.detach()[1:].copy_(y.detach()[:-1] * 2),
    "data": lambda y, v: y.data.clamp_(max=0.4),
    "seen, then unseen": lambda y, v: (y.mul_(v), y.detach().add_(1)),
    "unseen, then seen": lambda y, v: (y.detach().add_(1), y.mul_(v)),
}
BREAKS = {"detach, with a history"}
"""What was computed before a break is gone when second derivatives are asked for."""
USES: dict[str, Use] = {
    "sum": lambda y, z, v: y.sum(),
    "product": lambda y, z, v: (y * v).sum(),
    "function": lambda y, z, v: (y.sin() * v.exp()).sum(),
    "view from before": lambda y, z, v: (z * v[0]).sum(),
    "both": lambda y, z, v: (y.exp() * 2).sum() + (z.cos() + y[0]).sum(),
    "nothing of it": lambda y, z, v: (y.detach() * v).sum(),
}


def program(make: Make, write: Write, use: Use) -> Callable[[Tensor, Tensor], tuple[Tensor, ...]]:
    def f(x: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        y = make(x)
        z = y[1:]
        write(y, v)
        value = use(y, z, v)
        return value, y.detach() + 0

    return f


def outcome(
    function: Callable[[Tensor, Tensor], tuple[Tensor, ...]], size: int, *, twice: bool = True
) -> object:
    """What is returned, its gradients, and theirs; or what is raised."""
    x = torch.linspace(0.1, 0.9, size * size, dtype=torch.float64).view(size, size).clone()
    v = torch.linspace(-1, 1, size * size, dtype=torch.float64).view(size, size).clone()
    given = x.requires_grad_(), v.requires_grad_()
    try:
        value, y = function(*given)
        found = torch.autograd.grad(value, given, create_graph=twice, allow_unused=True)
        again = [g for g in found if g is not None and g.requires_grad]
        second = torch.autograd.grad([g.sum() for g in again], given, allow_unused=True)
        return value, y, found, second if again else ()
    except RuntimeError as error:
        return str(error).partition(":")[0]


CASES = [
    *((make, write, "jitpkg", False) for make, write in product(MAKES, WRITES)),
    *(("turned", write, "jitpkg", True) for write in WRITES),
    *(("turned", write, "eager", False) for write in WRITES),
]


@pytest.mark.parametrize(("make", "write", "backend", "dynamic"), CASES)
def test_as_eager(make: str, write: str, backend: str, dynamic: bool) -> None:
    twice = not (dynamic or write in BREAKS or (make == "without a history" and "seen" in write))
    for use in USES:
        function = program(MAKES[make], WRITES[write], USES[use])
        fast = jitpkg.compile(function, backend=backend, dynamic=dynamic)
        for size in (3, 4) if dynamic else (3,):
            found, expected = (outcome(f, size, twice=twice) for f in (fast, function))
            if isinstance(expected, str):
                assert found == expected, use
            else:
                assert not isinstance(found, str), (use, found)
                torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("write", [name for name in WRITES if name not in BREAKS])
def test_without_torchs_compiler(write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph is recorded: AOTAutograd is not asked."""
    monkeypatch.setattr(backend, "_through_aot", None)
    function = program(MAKES["turned"], WRITES[write], USES["function"])
    with jitpkg.config.patch(strict=True):
        found = outcome(jitpkg.compile(function, backend="jitpkg"), 3)
    torch.testing.assert_close(found, outcome(function, 3))
