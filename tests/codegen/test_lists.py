"""Ops on lists of tensors, and the single ops in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx

import jitpkg
from jitpkg.codegen.graph.lists import singly
from tests.torch_versions import RELEASE

Lists = tuple[list[Tensor], list[Tensor], list[Tensor]]

ONE = [
    *("abs", "exp", "log", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sqrt"),
    "tanh",
]
TWO = ["add", "sub", "mul", "div", "maximum", "minimum"]
CALLS: dict[str, Callable[..., Any]] = {
    **{name: lambda f, a, b, c: f(a) for name in ONE},
    **{name: lambda f, a, b, c: f(a, b) for name in TWO},
    "add by a factor": lambda f, a, b, c: f(a, b, alpha=0.3),
    "sub by a factor": lambda f, a, b, c: f(a, b, alpha=2),
    "add a number": lambda f, a, b, c: f(a, 1.5),
    "mul numbers": lambda f, a, b, c: f(a, [0.5, 1.5, 2.5]),
    "div numbers": lambda f, a, b, c: f(a, [0.5, 1.5, 2.5]),
    "mul a tensor": lambda f, a, b, c: f(a, b[0].sum()),
    "add a tensor": lambda f, a, b, c: f(a, b[0].sum(), alpha=2.0),
    "addcmul": lambda f, a, b, c: f(a, b, c, value=0.7),
    "addcdiv": lambda f, a, b, c: f(a, b, c, 0.7),
    "addcdiv numbers": lambda f, a, b, c: f(a, b, c, [0.1, 0.2, 0.3]),
    "addcmul numbers in a tensor": lambda f, a, b, c: f(a, b, c, torch.tensor([0.1, 0.2, 0.3])),
    "lerp": lambda f, a, b, c: f(a, b, 0.3),
    "lerp tensors": lambda f, a, b, c: f(a, b, c),
    "clamp_min": lambda f, a, b, c: f(a, 0.5),
    "clamp_max": lambda f, a, b, c: f(a, 0.5),
    "maximum a number": lambda f, a, b, c: f(a, 0.5),
    "pow": lambda f, a, b, c: f(a, 2.0),
}
OTHERS: dict[str, Callable[[Lists], Any]] = {
    "norm": lambda x: torch._foreach_norm(x[0]),
    "norm of another order": lambda x: torch._foreach_norm(x[0], 1.0),
    "pow of a number": lambda x: torch._foreach_pow(0.9, x[0]),
    "copy_": lambda x: torch._foreach_copy_(x[0], x[1]),
    "zero_": lambda x: torch._foreach_zero_(x[0]),
    "twice the same": lambda x: torch._foreach_add_([x[0][0], x[0][0]], 1),
    "one into the next": lambda x: torch._foreach_add_(x[0], [x[1][0], x[0][0].sum(), x[1][2]]),
    "of none": lambda x: torch._foreach_add([x[0][0]], [x[1][0]]),
}
PROGRAMS: dict[str, Callable[[Lists], Any]] = dict(OTHERS)
for _name, _call in CALLS.items():
    for _end in ("", "_"):
        _f = getattr(torch, f"_foreach_{_name.split()[0]}{_end}")
        PROGRAMS[_name + _end] = lambda x, call=_call, f=_f: call(f, *x)


def lists() -> Lists:
    torch.manual_seed(0)
    shapes: list[tuple[int, ...]] = [(3, 2), (4,), ()]
    a, b, c = ([torch.rand(shape) + 0.5 for shape in shapes] for _ in range(3))
    return a, b, c


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_the_lists(name: str) -> None:
    made: list[fx.GraphModule] = []

    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        made.append(singly(gm))
        return made[-1].forward

    def program(given: Lists) -> Any:
        found = PROGRAMS[name](given)
        return [each * 1 for each in found], given[0][0] + 1

    mine, theirs = lists(), lists()
    found = jitpkg.compile(program, backend=backend, fullgraph=True)(mine)
    torch.testing.assert_close(found, program(theirs), rtol=0, atol=0)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
    left = [n for gm in made for n in gm.graph.nodes if "_foreach_" in str(n.target)]
    stays = name.startswith(("pow of a number", "maximum a number"))
    assert bool(left) == (stays or (RELEASE >= (2, 15) and "numbers in a tensor" in name))


@pytest.mark.parametrize("name", PROGRAMS)
def test_by_kernels(name: str) -> None:
    def program(given: Lists) -> Any:
        return [each * 1 for each in PROGRAMS[name](given)]

    function = jitpkg.compile(program, backend="jitpkg")
    for _ in range(2):
        mine, theirs = lists(), lists()
        torch.testing.assert_close(function(mine), program(theirs))
        torch.testing.assert_close(mine, theirs)
