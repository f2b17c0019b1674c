"""What is printed for which kernels, and that all configs of a kernel do the same."""

from __future__ import annotations

import pytest
import torch

from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normaliser
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer, Definition, Store
from jitpkg.codegen.lowering.table import Lowering
from jitpkg.codegen.triton.frame import NotPrinted
from jitpkg.codegen.triton.interpreted import interpreted
from jitpkg.codegen.triton.printer import printed
from jitpkg.codegen.triton.source import Config, Source
from jitpkg.codegen.triton.target import H200
from tests.codegen.cpu.support import buffer
from tests.codegen.cpu.test_folds import softmax
from tests.codegen.triton.support import check, needs_triton


def source_of(b: Builder, *definitions: Definition, name: str = "kernel") -> Source:
    stores = [Store(each.buffer, each.axes, each.value) for each in definitions]
    normal = Normaliser(b).normal(kernel_of(name, stores))
    return printed(schedule(normal.kernel, b), H200, name)


def doubled(*sizes: int, strides: tuple[int, ...] | None = None) -> tuple[Builder, Definition]:
    b = Builder()
    axes = b.axes(sizes)
    value = b.load(buffer("x", *sizes, strides=strides), axes)
    value = b.apply("mul", value, b.const(2.0, torch.float32))
    return b, Definition(buffer("out", *sizes), axes, value)


SOFTMAX = """\
# softmax: i < 4096, j < 1000
#   v0 = in0[((i * 1000) + j)]
#   v1 = exp((v0 - max(v0 for j < 1000)))
#   out0[((i * 1000) + j)] = (v1 / sum(v1 for j < 1000))
import triton
import triton.language as tl

from jitpkg.codegen.triton import library as jl


@triton.jit
def softmax(in0_ptr, out0_ptr, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    i = (tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK))[:, None]
    j = (tl.arange(0, RBLOCK))[None, :]
    j_mask = j < 1000
    in0 = tl.load(in0_ptr + (i * 1000 + j), j_mask)
    max_so_far = tl.where(j_mask, in0, float("-inf"))
    the_max = jl.fold_max(max_so_far, 1)[:, None]
    t = jl.exp(in0 - the_max)
    sum_so_far = tl.where(j_mask, t, 0.0)
    the_sum = jl.fold_sum(sum_so_far, 1)[:, None]
    t_0 = tl.div_rn(t, the_sum)
    tl.store(out0_ptr + (i * 1000 + j), t_0, j_mask)
"""


def test_a_row_that_fits_into_registers_is_read_once() -> None:
    b = Builder()
    definition = softmax(b, Lowering(b), buffer("x", 4096, 1000), 1)
    source = source_of(b, definition, name="softmax")
    assert source.text == SOFTMAX
    assert source.grid == ("cdiv(4096, XBLOCK)",)
    assert source.pointers == (torch.float32, torch.float32)
    assert source.numbers == () and not source.wide


def test_masks_only_where_a_block_may_reach_beyond_the_end() -> None:
    assert "mask" not in source_of(*doubled(4096, 4096)).text
    assert "mask" in source_of(*doubled(4095, 4095)).text


@pytest.mark.parametrize(("op", "least", "most"), [("sin", 1, 1), ("exp", 2, 16)])
def test_ops_that_call_functions_have_a_thread_for_each_element(
    op: str, least: int, most: int
) -> None:
    """With four elements to a thread, the sine of a float64 spilled 16 bytes on sm_90."""
    b = Builder()
    axes = b.axes((4096, 4096))
    x = b.load(buffer("x", 4096, 4096, dtype=torch.float64), axes)
    out = buffer("out", 4096, 4096, dtype=torch.float64)
    config = source_of(b, Definition(out, axes, b.apply(op, x))).configs[0]
    assert least <= dict(config.blocks)["XBLOCK"] // (32 * config.warps) <= most


def test_indices_of_64_bits_where_memory_is_large() -> None:
    near = source_of(*doubled(1 << 15, 1 << 15))
    far = source_of(*doubled(1 << 15, 1 << 15, strides=(1 << 17, 1)))
    assert (near.wide, far.wide) == (False, True)
    assert "int64" not in near.text and "tl.program_id(0).to(tl.int64)" in far.text


def test_transposed_memory_is_read_in_squares() -> None:
    source = source_of(*doubled(4096, 4000, strides=(1, 4096)))
    assert [name for name, _ in source.configs[0].blocks] == ["YBLOCK", "XBLOCK"]


@needs_triton
@pytest.mark.parametrize("sizes", [(300, 70), (7, 3000)], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_all_configs_do_the_same(sizes: tuple[int, int], dim: int) -> None:
    given = torch.randn(sizes, generator=torch.Generator().manual_seed(0))
    for config in range(3):
        b = Builder()
        x = buffer("x", *sizes)
        check(b, [softmax(b, Lowering(b), x, dim)], {x: given}, config=config)


@pytest.mark.parametrize(
    ("dtype", "combine"),
    [
        (torch.bfloat16, "sum"),
        (torch.float32, "max"),
        (torch.uint8, "sum"),
        (torch.int64, "prod"),
    ],
    ids=str,
)
def test_what_no_atomic_instruction_does_is_left_to_aten(dtype: torch.dtype, combine: str) -> None:
    b = Builder()
    (i,) = b.axes((10,))
    at = b.check(b.load(buffer("at", 10, dtype=torch.int64), (i,)), 5)
    value = b.load(buffer("x", 10, dtype=dtype), (i,))
    kernel = kernel_of("scatter", [Store(Buffer("out", dtype, (5,), (1,)), (at,), value, combine)])
    with pytest.raises(NotPrinted, match=f"no atomic {combine}"):
        printed(schedule(kernel, b), H200)


COMBINED = """\
import triton
import triton.language as tl

from jitpkg.codegen.triton import library as jl


@triton.jit
def combined(x_ptr, out_ptr, at_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr, tl.reduce(x, 0, jl.maximum))
    tl.store(out_ptr + 1, tl.reduce(x, 0, jl.minimum))
    _, first = tl.reduce((x, at), 0, jl.more)
    tl.store(at_ptr, first)
    tl.store(at_ptr + 1, jl.fold_argmax(x, at, 0))
    _, first = tl.reduce((x, at), 0, jl.less)
    tl.store(at_ptr + 2, first)
    tl.store(at_ptr + 3, jl.fold_argmin(x, at, 0))
"""


@needs_triton
def test_what_combines_two_values_is_what_stands_in_for_it() -> None:
    """The interpreter goes through the functions of the library that GPUs run, element by element;
    for other tests others stand in."""
    block = Config((("BLOCK", 16),), 1)
    source = Source(
        "combined", COMBINED, (torch.float32,) * 2 + (torch.int64,), (), False, ("1",), (block,)
    )
    ties, nan = torch.tensor([3.0, 1.0, 3.0, 1.0] * 4), float("nan")
    for x in (ties, torch.full((16,), float("-inf")), torch.randn(16)):
        for places in ((), (5,), (9, 5, 12)):
            x[list(places)] = nan
            out, at = torch.zeros(2), torch.zeros(4, dtype=torch.int64)
            interpreted(source)([x, out, at])
            torch.testing.assert_close(out, torch.stack([x.max(), x.min()]), equal_nan=True)
            assert at.tolist() == [x.argmax(), x.argmax(), x.argmin(), x.argmin()]
