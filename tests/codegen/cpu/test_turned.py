"""Loads across the lanes: what eager code computes, wherever tiles and squares end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg.codegen.cpu.stages import scheduled
from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.kernel import Turn
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.passes.turn_rows import WIDE
from jitpkg.codegen.fusion.statements import statements
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Node, Store
from tests.codegen.cpu.support import buffer, host, needs_llvm

pytestmark = needs_llvm

SHAPES = ((16, 16), (15, 300), (17, 129), (33, 128), (300, 33), (129, 257))
DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.bool)

FUNCTIONS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "one": lambda x, y: x.t() | y if x.dtype is torch.bool else x.t() + y,
    "with another dtype": lambda x, y: (x.t() == y.double(), x.t() * 2.0, x.double().t()),
    "three dims": lambda x, y: torch.stack([x, x ^ x if x.dtype is torch.bool else -x]).mT == y,
    "a slice": lambda x, y: x[1:, 2:].t() * y[2:, 1:],
    "far apart": lambda x, y: x[::2, 1:].t().mul(3.0) * y[1:, ::2],
    "a row and a column": lambda x, y: x.t() * y[:1] * y[:, :1],
    "a mask": lambda x, y: torch.where(y > 0, x.t(), y),
    "rows that are folded": lambda x, y: x.float().t().softmax(1) + y.float().sum(1, True),
    "many ops": lambda x, y: (x.float().t() + y.float()).sin().tanh().exp2() * x.float().t().cos(),
}


def given(rows: int, columns: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(rows + columns)
    shape = (rows, columns)
    x, y = (torch.randint(-9, 9, each, generator=draw).to(dtype) for each in (shape, shape[::-1]))
    return x, y


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager_code(name: str, dtype: torch.dtype) -> None:
    function = FUNCTIONS[name]
    for rows, columns in SHAPES:
        x, y = given(rows, columns, dtype)
        made = jitpkg.compile(function, backend="jitpkg", dynamic=False)
        torch.testing.assert_close(made(x, y), function(x, y))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lengths_that_vary(name: str) -> None:
    function = FUNCTIONS[name]
    made = jitpkg.compile(function, backend="jitpkg", dynamic=True)
    for rows, columns in SHAPES:
        x, y = given(rows, columns, torch.float32)
        torch.testing.assert_close(made(x, y), function(x, y))


def test_by_several_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        x, y = given(700, 500, torch.float32)
        function = FUNCTIONS["one"]
        made = jitpkg.compile(function, backend="jitpkg")
        torch.testing.assert_close(made(x, y), function(x, y), rtol=0, atol=0)
    finally:
        torch.set_num_threads(before)


def test_by_tiles_or_whole_rows() -> None:
    """A tile where the two loops are all that there is; whole rows where rows are folded."""
    b = Builder()
    i, j = b.axes((100, 2048))
    x = buffer("x", 100, 2048, strides=(1, 100))
    beside = [buffer(f"y{k}", 100, 2048) for k in range(3)]

    def total(at: Node) -> Node:
        found = b.load(x, (i, at))
        for y in beside:
            found = b.apply("add", found, b.load(y, (i, at)))
        return found

    over = b.axis(2048)
    most = b.reduce("max", total(over), [over])
    values = total(j), b.apply("sub", total(j), most)
    wide = []
    for value in values:
        kernel = kernel_of("k", [Store(buffer("out", 100, 2048), (i, j), value)])
        last = scheduled(schedule(kernel, b), host())
        wide.append({each.wide for each in statements(last.body) if isinstance(each, Turn)})
    assert wide == [{WIDE}, {None}]
