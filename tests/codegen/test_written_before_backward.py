"""What is written to, or given other strides, between the forward and the backward pass.

Eager code allows that for what it has not saved; and where it has, both raise.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import jitpkg
from tests.portions import portion

Read = Callable[[Tensor, Tensor], Tensor]

READS: dict[str, Read] = {
    "product": lambda y, v: (y * v).sum(),
    "difference": lambda y, v: ((v - y) ** 2).sum(),
    "of a part": lambda y, v: ((v - y[0]).exp()).sum(),
    "product with a part": lambda y, v: (v * y[0]).sum(),
    "of its own": lambda y, v: (v * y.sin()).sum(),
}
CHANGES: dict[str, Callable[[Tensor], object]] = {
    "mul_": lambda y: y.mul_(2),
    "of a part": lambda y: y[0].fill_(2),
    "of a view": lambda y: y.view(-1).add_(2),
    "+=": lambda y: y.__iadd__(1),
    "unsqueeze_": lambda y: y.unsqueeze_(0),
    "t_": lambda y: y.t_(),
    "as_strided_": lambda y: y.as_strided_((3, 2), (1, 3)),
    "squeeze_ in vain": lambda y: y.squeeze_(0),
    "t_ there and back": lambda y: y.t_().t_(),
}


def before(read: Read, change: Callable[[Tensor], object]) -> Read:
    def program(y: Tensor, v: Tensor) -> Tensor:
        made = read(y, v)
        change(y)
        return made

    return program


def after(read: Read, change: Callable[[Tensor], object]) -> Read:
    def program(y: Tensor, v: Tensor) -> Tensor:
        change(y)
        return read(y, v)

    return program


def between(read: Read, change: Callable[[Tensor], object]) -> Read:
    def program(y: Tensor, v: Tensor) -> Tensor:
        made = read(y, v)
        change(y)
        return made + read(y, v)

    return program


def outcome(function: Read, *, history: bool) -> object:
    """What it returns, what it leaves, and gradients; or the exception."""
    x = torch.linspace(0.5, 2, 6).view(2, 3).requires_grad_(history)
    v = torch.tensor(1.5, requires_grad=True)
    y = x * 3
    try:
        made = function(y, v)
        made.backward()
    except RuntimeError as error:
        return str(error).partition(":")[0]
    return made, y, y.stride(), x.grad, v.grad


def compare(found: object, expected: object) -> None:
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
    else:
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backend", ["aot_eager", "jitpkg"])
@pytest.mark.parametrize("moment", [before, after, between])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("history", [False, True])
def test_by_the_function(
    history: bool, change: str, moment: Callable[..., Read], backend: str
) -> None:
    for read in portion(READS.values(), 4, history, change, moment.__name__, backend):
        function = moment(read, CHANGES[change])
        fast = jitpkg.compile(function, backend=backend)
        expected = outcome(function, history=history)
        for _ in range(2):
            compare(outcome(fast, history=history), expected)


MAKES: dict[str, Callable[[Tensor], Tensor]] = {
    "product": lambda x: x * 3,
    "exp": lambda x: x.exp(),
    "relu_": lambda x: x.relu_(),
    "constant": lambda x: torch.ones(2, 3),
}
MORE: dict[str, Callable[[Tensor], object]] = {
    **CHANGES,
    "by a tensor": lambda y: y.mul_(torch.full((3,), 2.0)),
    "sigmoid_": lambda y: y.sigmoid_(),
    "of a row, by a tensor": lambda y: y[1].mul_(torch.full((3,), 2.0)),
    "copy_": lambda y: y.copy_(torch.ones(3)),
    "with no_grad": torch.no_grad()(lambda y: y.mul_(2)),
}


@pytest.mark.parametrize("moment", [before, after, between])
@pytest.mark.parametrize("change", MORE)
@pytest.mark.parametrize("make", MAKES)
def test_of_what_the_function_has_made(make: str, change: str, moment: Callable[..., Read]) -> None:
    for read in portion(READS.values(), 4, make, change, moment.__name__):
        part = moment(read, MORE[change])

        def function(x: Tensor, v: Tensor, part: Read = part) -> Tensor:
            return part(MAKES[make](x * 2), v)

        fast = jitpkg.compile(function, backend="jitpkg")
        expected = outcome(function, history=True)
        for _ in range(2):
            compare(outcome(fast, history=True), expected)


@pytest.mark.parametrize("backend", ["aot_eager", "jitpkg"])
@pytest.mark.parametrize("change", CHANGES)
def test_of_an_input_by_the_caller(change: str, backend: str) -> None:
    def called(function: Read) -> Read:
        def program(y: Tensor, v: Tensor) -> Tensor:
            made = function(y, v)
            with torch.no_grad():
                CHANGES[change](y)
            return made

        return program

    for read in READS.values():
        fast = called(jitpkg.compile(read, backend=backend))
        compare(outcome(fast, history=False), outcome(called(read), history=False))


def difference(y: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    h = v - y
    return h, ((h + 1) ** 2).sum()


def product(y: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    h = (v - y).exp() * y
    return h, ((h + 1) ** 2).sum()


def needed(y: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    h = (v - y).exp()
    return h, (h * h).sum()


def view(y: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    h = v * y
    return h[:1], ((h + 1).sin()).sum()


@pytest.mark.parametrize("backend", ["aot_eager", "jitpkg"])
@pytest.mark.parametrize("change", ["mul_", "of a part", "of a view", "t_", "unsqueeze_"])
@pytest.mark.parametrize("made", [difference, product, needed, view])
def test_of_a_result(
    made: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], change: str, backend: str
) -> None:
    def called(function: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Read:
        def program(y: Tensor, v: Tensor) -> Tensor:
            result, loss = function(y, v)
            with torch.no_grad():
                CHANGES[change](result)
            return loss

        return program

    fast = called(jitpkg.compile(made, backend=backend))
    compare(outcome(fast, history=False), outcome(called(made), history=False))
