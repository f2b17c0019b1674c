"""Writes to inputs in graphs with a backward pass inside.

Eager code refuses some: to a leaf that requires grad, and to its views, while grad mode is on. Of
the others autograd sees some, and changes the history of what is written to.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch

import jitpkg
from jitpkg.testing.programs import Program, check
from jitpkg.testing.programs.modes import HOW_COMPUTED, Mode

OWN = Mode(
    "jitpkg", {"backend": "jitpkg", "ignore": HOW_COMPUTED, "settings": {"never_worse": False}}
)
NUMBERS = "torch.tensor([1.0, 2.0, 3.0])"
KINDS = {
    "plain": "numbers",
    "leaf": "numbers.requires_grad_()",
    "view of a leaf": "numbers.requires_grad_()[:]",
    "with history": "numbers.requires_grad_() * 2",
    "view with history": "(numbers.requires_grad_() * 2)[:]",
    "one of several": "(numbers.requires_grad_() * torch.ones(2, 3)).unbind()[0]",
    "detached": "numbers.requires_grad_().detach()",
}
WRITES = (
    "x.mul_(3)",
    "x[0] = 5.0",
    "x[:2].mul_(3)",
    "early.mul_(3)",
    "x[1] *= 3",
    "x[x > 1.5] = 0.0",
    "x.copy_(z)",
    "torch.mul(x, 3, out=x)",
    "x.data.mul_(3)",
    "x.detach()[1:].mul_(3)",
    "with torch.no_grad(): x.mul_(3)",
    "with torch.no_grad(): early.mul_(3)",
)
PASSES = ("(x * z).sum().backward()", "(z * z).sum().backward()")
RESULTS = ("None", "x", "x[1:]", "early", "x * 2")


def cases() -> list[tuple[str, str, str, str]]:
    """Each kind with each write, before a pass and after it; and of the rest, each in its turn."""
    found = []
    for k, (kind, write, first) in enumerate(product(KINDS, WRITES, (True, False))):
        through = PASSES[k // 2 % 2]
        steps = (write, through) if first else (through, write)
        found.append((kind, *steps, RESULTS[k % 5]))
    return found


@pytest.mark.parametrize(("kind", "first", "second", "result"), cases())
def test_a_write_is_as_in_eager_code(kind: str, first: str, second: str, result: str) -> None:
    source = f"""import torch
def program(x, z):
    early = x[1:]
    {first}
    {second}
    return {result}
"""
    given = f"{KINDS[kind]}, torch.ones(3).requires_grad_()".replace("numbers", NUMBERS)
    outcome = check(Program(source, (f"call({given})",)), OWN)
    assert outcome.verdict in ("same", "left out"), outcome.said


Step = Callable[[torch.Tensor], None]


def into_a_view(x: torch.Tensor) -> None:
    x.sum().backward()
    x[0] *= 0


def into_an_earlier_view(x: torch.Tensor) -> None:
    early = x[1:]
    x.sum().backward()
    early.mul_(0)


@pytest.mark.parametrize("step", [into_a_view, into_an_earlier_view])
def test_a_leaf_is_not_written_to_by_its_views(step: Step) -> None:
    x = torch.tensor([1.0, 2.0]).requires_grad_()
    with pytest.raises(RuntimeError, match="view of a leaf Variable"):
        jitpkg.jit(step)(x)
    assert x.tolist() == [1.0, 2.0]
