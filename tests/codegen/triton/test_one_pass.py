"""Pairs of folds in one pass over rows that no registers hold: softmax, variance, and the like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normaliser
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer, Store
from jitpkg.codegen.lowering.normalization import ROWS as NORMS
from jitpkg.codegen.lowering.reductions import ROWS as FOLDS
from jitpkg.codegen.lowering.table import Lowering, Tensor
from jitpkg.codegen.triton import tiles
from jitpkg.codegen.triton.interpreted import interpreted
from jitpkg.codegen.triton.printer import printed
from jitpkg.codegen.triton.source import Source
from jitpkg.facts.tensor import contiguous_stride
from tests.codegen.examples import examples
from tests.codegen.triton.support import SMALL, needs_triton

pytestmark = needs_triton

Call = Callable[[Lowering, Tensor], Sequence[Tensor]]


@pytest.fixture(autouse=True)
def few_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "PERSISTENT", 16)
    monkeypatch.setattr(tiles, "ACROSS", 16)


def kernel(call: Call, *sizes: int, dtype: torch.dtype = torch.float32) -> tuple[Builder, Kernel]:
    b = Builder()
    k = Lowering(b)
    made = call(k, k.of_buffer(Buffer("x", dtype, sizes, contiguous_stride(sizes))))
    stores = [
        Store(Buffer(f"y{n}", t.dtype, t.sizes, contiguous_stride(t.sizes)), t.axes, t.value)
        for n, t in enumerate(made)
    ]
    return b, Normaliser(b).normal(kernel_of("k", stores)).kernel


def source_of(call: Call, *sizes: int, dtype: torch.dtype = torch.float32) -> Source:
    b, made = kernel(call, *sizes, dtype=dtype)
    return printed(schedule(made, b), SMALL)


def ran(call: Call, x: torch.Tensor, block: int = 8) -> list[torch.Tensor]:
    """What the kernel writes, in flat memory, with blocks as wide as this."""
    b, made = kernel(call, *x.shape, dtype=x.dtype)
    source = printed(schedule(made, b), SMALL)
    first = source.configs[0]
    blocks = tuple((name, min(width, block)) for name, width in first.blocks)
    outputs = [torch.full(each.sizes, 7.0).to(each.dtype) for each in made.outputs]
    flat = [x.reshape(-1).contiguous()] * len(made.inputs)
    with np.errstate(all="ignore"):
        interpreted(source, replace(first, blocks=blocks))([*flat, *outputs], [])
    return outputs


def logsumexp(k: Lowering, x: Tensor) -> Sequence[Tensor]:
    return [FOLDS["logsumexp"](k, x, [1])]


def softmax(k: Lowering, x: Tensor) -> Sequence[Tensor]:
    return [NORMS["_softmax"](k, x, 1, False)]


def log_softmax(k: Lowering, x: Tensor) -> Sequence[Tensor]:
    return [NORMS["_log_softmax"](k, x, 1, False)]


def both(k: Lowering, x: Tensor) -> Sequence[Tensor]:
    return [*logsumexp(k, x), *softmax(k, x)]


def variance(k: Lowering, x: Tensor) -> Sequence[Tensor]:
    return list(FOLDS["var_mean.correction"](k, x, [1], correction=0))


def of_columns(k: Lowering, x: Tensor) -> Sequence[Tensor]:
    return list(FOLDS["var_mean.correction"](k, x, [0], correction=0))


def layer_norm(k: Lowering, x: Tensor) -> Sequence[Tensor]:
    return list(NORMS["native_layer_norm"](k, x, [x.sizes[1]], None, None, 1e-5))


def wanted(call: Call, x: torch.Tensor) -> list[torch.Tensor]:
    """By torch, in float64."""
    x = x.double()
    made: list[torch.Tensor]
    match call.__name__:
        case "logsumexp":
            made = [x.logsumexp(1)]
        case "softmax":
            made = [x.softmax(1)]
        case "log_softmax":
            made = [x.log_softmax(1)]
        case "both":
            made = [x.logsumexp(1), x.softmax(1)]
        case "variance":
            made = [x.var(1, correction=0), x.mean(1)]
        case "of_columns":
            made = [x.var(0, correction=0), x.mean(0)]
        case _:
            center, spread = x.mean(1, True), x.var(1, correction=0, keepdim=True)
            scale = 1 / (spread + 1e-5).sqrt()
            made = [(x - center) * scale, center, scale]
    return [each.reshape(-1) for each in made]


def check(call: Call, x: torch.Tensor, block: int = 8, tolerance: float = 1e-5) -> None:
    for found, right in zip(ran(call, x, block), wanted(call, x), strict=True):
        right = right.to(found.dtype)
        torch.testing.assert_close(
            found, right, rtol=tolerance, atol=tolerance, equal_nan=True, check_dtype=False
        )


CALLS: tuple[Call, ...] = (
    *(logsumexp, softmax, log_softmax, both),
    *(variance, of_columns, layer_norm),
)
PAIRS = {logsumexp: "powers", softmax: "powers", variance: "distances", of_columns: "distances"}


@pytest.mark.parametrize("call", PAIRS, ids=lambda call: call.__name__)
def test_there_is_one_loop_for_both_folds(call: Call) -> None:
    text = source_of(call, 40, 50).text
    assert f"jl.{PAIRS[call]}(" in text and f"jl.sum_of_{PAIRS[call]}(" in text
    assert text.count("\n    for ") == (2 if call is softmax else 1)


def test_rows_that_registers_hold_are_folded_one_after_the_other() -> None:
    text = source_of(softmax, 40, 12).text
    assert "jl.powers" not in text and "\n    for " not in text


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [((3, 32), torch.float32), ((20, 19), torch.float64), ((1, 50), torch.bfloat16)],
    ids=str,
)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_values(call: Call, sizes: tuple[int, int], dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    x = (3 * torch.randn(sizes, generator=draw, dtype=torch.float64)).to(dtype)
    check(call, x, tolerance=2e-2 if dtype is torch.bfloat16 else 1e-5)


@pytest.mark.parametrize(("offset", "tolerance"), [(1e4, 1e-3), (-1e6, 5e-2)])
@pytest.mark.parametrize("call", [variance, of_columns, softmax], ids=lambda call: call.__name__)
def test_far_from_zero(call: Call, offset: float, tolerance: float) -> None:
    """Sums of squares, less the square of the mean, would have no digit left."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(20, 21, generator=draw) + offset
    check(call, x, tolerance=tolerance)


HARD = st.sampled_from([float("inf"), float("-inf"), float("nan"), 1e30, -1e30, 88.0, -120.0, 0.0])


@given(st.data())
@examples(20)
def test_numbers_that_are_none(data: st.DataObject) -> None:
    call = data.draw(st.sampled_from(CALLS))
    rows, columns = data.draw(st.integers(1, 3)), data.draw(st.integers(17, 25))
    if call is of_columns:
        rows, columns = columns, rows
    draw = torch.Generator().manual_seed(data.draw(st.integers(0, 9)))
    x = torch.randn(rows, columns, generator=draw)
    kind = data.draw(st.sampled_from(["some", "all", "but one"]))
    if kind == "some":
        for value in data.draw(st.lists(HARD, min_size=1, max_size=5)):
            x.view(-1)[data.draw(st.integers(0, x.numel() - 1))] = value
    else:
        x.fill_(data.draw(HARD))
    if kind == "but one":
        x.view(-1)[data.draw(st.integers(0, x.numel() - 1))] = data.draw(HARD)
    large = x.isfinite() & (x.abs() > 1e20)
    if PAIRS.get(call) == "distances" or call is layer_norm:
        x = torch.where(large, 0.5, x)  # their squares are too large for float32
    check(call, x, data.draw(st.sampled_from([4, 8, 64])))
