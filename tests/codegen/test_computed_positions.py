"""Writes and reads at positions that are computed from the place alone, as `arange(12) % 4`: each
position counts, however often the loops are split, merged and reordered.

Random expressions of positions, through the whole backend, by each printer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg

ROWS = 12
PLACES = 4


def _number(draw: random.Random, depth: int) -> str:
    """An expression of ints of the shape (12,), which may be any."""
    if not depth or draw.random() < 0.2:
        return draw.choice(["i", "i", "i.flip(0)", "i[:4].repeat(3)", "i[:3].repeat_interleave(4)"])
    inner = _number(draw, depth - 1)
    by = draw.choice([2, 3, 4, 5, 6, 12])
    return draw.choice(
        [
            f"({inner}) % {by}",
            f"({inner}) // {by}",
            f"({inner}) + {draw.randint(0, 5)}",
            f"({inner}) * {draw.randint(0, 3)}",
            f"torch.remainder({inner}, {by})",
            f"{by} - ({inner})",
            f"({inner}) + ({_number(draw, depth - 1)})",
            f"torch.where(({inner}) > {by}, {inner}, 1)",
        ]
    )


WRITES = (
    "x.index_add(0, at, rows)",
    "x.index_put((at,), rows, accumulate=True)",
    "x.scatter_add(0, at[:, None].expand(12, 3), rows)",
    "x.scatter_reduce(0, at[:, None].expand(12, 3), rows, 'sum')",
    "x.scatter_reduce(0, at[:, None].expand(12, 3), rows, 'amax')",
    "x.scatter_reduce(0, at[:, None].expand(12, 3), rows, 'prod')",
    "x.flatten().index_add(0, at, ones)",
    "x.flatten().index_add(0, at, rows[:, 0])",
    "x.index_add(0, at, ones[:, None].expand(12, 3))",
    "x.index_put((at, at % 3), ones, accumulate=True)",
    "x.index_put((at, at % 3), rows[:, 1], accumulate=True)",
    "rows[at].sum(0) + x",
    "rows.gather(0, at[:, None].expand(12, 3)).sum(1)",
    "(rows[:, 0] * at).sum() + x",
    "torch.ones(5, 7, dtype=x.dtype).index_add(1, at, ones.expand(5, 12))[0]",
)

VALUES = (
    "i[:, None] * x[0]",
    "x.repeat(3, 1)",
    "x.repeat_interleave(3, 0)",
    "x[i % 4]",
    "(i % 4)[:, None] + x[0]",
    "torch.ones(12, 3, dtype=x.dtype)",
    "x.exp()[i // 3]",
    "y",
)


def _program(seed: int) -> tuple[Callable[..., Any], str]:
    draw = random.Random(seed)
    at = f"({_number(draw, draw.randint(1, 3))}) % {draw.choice([1, 2, 3, PLACES])}"
    source = (
        "def program(x, y):\n"
        "    i = torch.arange(12)\n"
        f"    at = {at}\n"
        f"    rows = {draw.choice(VALUES)}\n"
        "    ones = torch.ones(12, dtype=x.dtype)\n"
        f"    return ({draw.choice(WRITES)}) * 2\n"
    )
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, f"<positions {seed}>", "exec"), namespace)
    return namespace["program"], source


def given(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randint(-3, 4, (PLACES + ROWS, 3), generator=generator).double()
    return whole[:PLACES].clone(), whole[PLACES:].clone()


@pytest.mark.usefixtures("by_each_printer")
@pytest.mark.parametrize("seed", range(150))
def test_like_eager(seed: int) -> None:
    program, source = _program(seed)
    x, y = given(seed)
    expected = program(x, y)
    found = jitpkg.compile(program, backend="jitpkg", fullgraph=True)(x, y)
    torch.testing.assert_close(found, expected, msg=lambda text: f"{source}\n{text}")


@pytest.mark.parametrize("seed", range(40))
def test_gradients_like_eager(seed: int) -> None:
    """Of reads at computed positions, which are writes that add."""
    draw = random.Random(seed)
    at = f"({_number(draw, 2)}) % {PLACES}"
    source = f"def program(x, y):\n    i = torch.arange(12)\n    return (x[{at}] * y).exp().sum()\n"
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, f"<reads {seed}>", "exec"), namespace)
    program = namespace["program"]
    gradients = []
    for function in (program, jitpkg.compile(program, backend="jitpkg", fullgraph=True)):
        x, y = given(seed)
        x, y = (x / 3).requires_grad_(), y / 3
        function(x, y).backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients, msg=lambda text: f"{source}\n{text}")
