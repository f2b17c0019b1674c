"""Random programs in which reductions over some dims are taken of reductions over others."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.testing import Comparison
from jitpkg.testing.programs.modes import HOW_COMPUTED
from tests.portions import share

SIZE = (2, 4, 5)


def _expression(draw: random.Random, depth: int) -> str:
    """An expression of three dims, of which some may have one element."""
    if not depth:
        return draw.choice(["x", "y", "z", "x * y"])
    a, b = (_expression(draw, draw.randrange(depth)) for _ in range(2))
    dims = draw.sample(range(3), draw.randint(1, 3))
    match draw.choice(["sum", "sum", "mean", "amax", "softmax", "var", "norm", "both", "both"]):
        case "sum" | "mean" | "amax" as name:
            return f"({a}).{name}({dims}, keepdim=True)"
        case "var":
            return f"({a}).var({dims}, correction=0, keepdim=True)"
        case "softmax":
            return f"torch.softmax(({a}) + ({b}), {dims[0]})"
        case "norm":
            return f"(({a}) - ({a}).mean({dims}, keepdim=True)) * ({b})"
        case _:
            return f"({a}) {draw.choice('+-*')} ({b})"


def program(seed: int) -> tuple[Any, str]:
    """A function of three tensors."""
    draw = random.Random(seed)
    text = f"lambda x, y, z: {_expression(draw, 4)}"
    return eval(text, {"torch": torch}), text


def given() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    sizes = (SIZE, (SIZE[0], 1, SIZE[2]), (1, SIZE[1], 1))
    return tuple(torch.rand(size, generator=generator, dtype=torch.float64) for size in sizes)


@pytest.mark.parametrize("part", range(8))
def test_random_programs(part: int) -> None:
    ours = Comparison(backend="jitpkg", relative=1e-9, absolute=1e-12, ignore=HOW_COMPUTED, calls=1)
    for seed in range(part * 1000, part * 1000 + share(40, 4)):
        function, text = program(seed)
        try:
            ours.assert_same(function, *given())
        except Exception as error:
            raise AssertionError(f"seed {seed}: {text}") from error


def test_a_sum_over_an_axis_of_what_it_is_added_to() -> None:
    def biased(q: Any, s: Any) -> Any:
        return torch.softmax(s + q.mean(dim=(0, 2))[:, None], -1)

    q, s = torch.rand(2, 4, 8), torch.rand(2, 4, 20)
    torch.testing.assert_close(jitpkg.compile(biased)(q, s), biased(q, s))
