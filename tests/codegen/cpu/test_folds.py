"""Folds and running folds, over every dim, of contiguous and transposed tensors."""

from __future__ import annotations

import pytest
import torch

from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer, Definition
from jitpkg.codegen.ir.ops import REDUCTIONS
from jitpkg.codegen.lowering.table import Lowering
from tests.codegen.cpu.support import buffer
from tests.codegen.printers import Printer, each_printer

SIZES = ((5, 7), (70, 300), (1, 5), (5, 1), (2, 1000))
DTYPES = (torch.float32, torch.int64, torch.uint8, torch.bool)


def numbers(dtype: torch.dtype, sizes: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=draw).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 9, sizes, generator=draw).to(dtype)


@each_printer
@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_fold(printer: Printer, op: str, sizes: tuple[int, int]) -> None:
    for dtype in DTYPES:
        if dtype not in REDUCTIONS[op].allowed:
            continue
        for dims in ([0], [1], [0, 1]):
            if len(dims) > 1 and REDUCTIONS[op].combine is None:
                continue
            for transposed in (False, True):
                b = Builder()
                k = Lowering(b)
                strides = (1, sizes[0]) if transposed else None
                x = buffer("x", *sizes, dtype=dtype, strides=strides)
                made = k.reduce(op, k.of_buffer(x), dims, keepdim=False)
                out = buffer("out", *made.sizes, dtype=made.value.dtype)
                given = numbers(dtype, sizes)
                if transposed:
                    given = given.t().contiguous().t()
                definition = Definition(out, made.axes, made.value)
                printer.check(b, [definition], {x: given}, tolerance=2e-4)


@each_printer
@pytest.mark.parametrize("op", ["max", "min", "argmax", "argmin"])
def test_nan_is_the_most_and_the_first_one_counts(printer: Printer, op: str) -> None:
    given = torch.randn(40, 333, generator=torch.Generator().manual_seed(0))
    given[::2, 200] = float("nan")
    given[::4, 77] = float("nan")
    given[1] = float("-inf")
    given[3] = 5.0
    for dim in (0, 1):
        b = Builder()
        k = Lowering(b)
        x = buffer("x", 40, 333)
        made = k.reduce(op, k.of_buffer(x), [dim], keepdim=False)
        out = buffer("out", *made.sizes, dtype=made.value.dtype)
        printer.check(b, [Definition(out, made.axes, made.value)], {x: given})


@each_printer
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_scan(printer: Printer, op: str, sizes: tuple[int, int]) -> None:
    for dtype in (torch.float32, torch.float64, torch.int16):
        for dim in (0, 1):
            b = Builder()
            source = buffer("x", *sizes, dtype=dtype)
            x = Lowering(b).of_buffer(source)
            value = b.scan(op, x.value, x.axes[dim])
            definition = Definition(buffer("out", *sizes, dtype=dtype), x.axes, value)
            printer.check(b, [definition], {source: numbers(dtype, sizes)})


def softmax(b: Builder, k: Lowering, x: Buffer, dim: int) -> Definition:
    most = k.reduce("max", k.of_buffer(x), [dim], keepdim=True)
    powers = k.elementwise(
        lambda v, m: b.apply("exp", b.apply("sub", v, m)),
        [k.of_buffer(x), most],
    )
    total = k.reduce("sum", powers, [dim], keepdim=True)
    shares = k.elementwise(lambda e, s: b.apply("div", e, s), [powers, total])
    return Definition(buffer("out", *shares.sizes), shares.axes, shares.value)


@each_printer
@pytest.mark.parametrize("sizes", [*SIZES, (0, 3)], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax(printer: Printer, sizes: tuple[int, int], dim: int) -> None:
    if sizes[dim] == 0:
        pytest.skip("the largest of nothing")
    b = Builder()
    x = buffer("x", *sizes)
    printer.check(b, [softmax(b, Lowering(b), x, dim)], {x: numbers(torch.float32, sizes)})


@each_printer
@pytest.mark.parametrize("sizes", [(1 << 20,), (1 << 16, 3), (3, 1 << 16)], ids=str)
def test_long_sums_are_as_exact_as_a_tree(printer: Printer, sizes: tuple[int, ...]) -> None:
    given = torch.rand(sizes, generator=torch.Generator().manual_seed(0))
    for dims in ([0], [len(sizes) - 1], list(range(len(sizes)))):
        b = Builder()
        k = Lowering(b)
        x = buffer("x", *sizes)
        made = k.reduce("sum", k.of_buffer(x), dims, keepdim=False)
        out = buffer("out", *made.sizes)
        found = printer.computed(b, [Definition(out, made.axes, made.value)], {x: given})[0]
        exact = given.double().sum(dims)
        assert ((found.double() - exact).abs() / exact).max() < 1e-6
