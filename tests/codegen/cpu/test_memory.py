"""Writes past the caches, and parts on torch's threads."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from jitpkg.codegen.cpu.printer import llvm_of
from jitpkg.codegen.cpu.walk import LONG
from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Definition, Store
from jitpkg.codegen.lowering.table import Lowering
from tests.codegen.cpu.support import buffer, check, host, needs_llvm, run
from tests.codegen.cpu.test_folds import numbers, softmax

pytestmark = needs_llvm


@pytest.mark.parametrize("sizes", [(300, 512), (300, 500), (2000, 70)], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_in_parts_and_past_the_caches(sizes: tuple[int, int], dim: int) -> None:
    given = numbers(torch.float32, sizes)
    for on in (host(), dataclasses.replace(host(), cache=0)):
        b = Builder()
        x = buffer("x", *sizes)
        check(b, [softmax(b, Lowering(b), x, dim)], {x: given}, on=on)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shift", [0, 1, 16])
def test_results_may_begin_anywhere(shift: int, threads: int) -> None:
    on = dataclasses.replace(host(), cache=0)
    b = Builder()
    i, j = b.axes((400, 256))
    x = buffer("x", 400, 256)
    value = b.apply("add", b.load(x, (i, j)), b.const(1.0, torch.float32))
    kernel = kernel_of("k", [Store(buffer("out", 400, 256), (i, j), value)])
    text = llvm_of(schedule(kernel, b), on)
    assert "!nontemporal" in text and "@torch_parallel_for" in text
    given = numbers(torch.float32, (400, 256))
    memory = torch.full((400 * 256 + 32,), 7.0)
    out = memory[shift : shift + 400 * 256]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert run(kernel, b, [given, out], on) == 0
    finally:
        torch.set_num_threads(before)
    assert torch.equal(out.view(400, 256), given + 1)
    assert memory[:shift].eq(7).all() and memory[shift + 400 * 256 :].eq(7).all()


@pytest.mark.parametrize(("rows", "past"), [(2048, True), (2047, False)])
def test_half_the_last_cache_is_written_past_it(rows: int, past: bool) -> None:
    b = Builder()
    i, j = b.axes((rows, 2048))
    out = Store(buffer("out", rows, 2048), (i, j), b.load(buffer("x", rows, 2048), (i, j)))
    text = llvm_of(schedule(kernel_of("k", [out]), b), host())
    assert ("!nontemporal" in text) == past


NARROWED = [
    (torch.float64, torch.bfloat16),
    (torch.float32, torch.bfloat16),
    (torch.int64, torch.int32),
    (torch.int64, torch.int16),
    (torch.int64, torch.uint8),
    (torch.int32, torch.int16),
    (torch.int32, torch.int8),
    (torch.int16, torch.int8),
]


@pytest.mark.parametrize("rest", [1, 2, 3, 7])
@pytest.mark.parametrize(("wide", "narrow"), NARROWED, ids=str)
@pytest.mark.parametrize("step", [1, 4])
def test_nothing_is_written_beside_a_narrowed_result(
    step: int, wide: torch.dtype, narrow: torch.dtype, rest: int
) -> None:
    """Whatever the lanes that are left after whole vectors: neither by the last row nor by others,
    which parts of a loop, on other threads, might write before."""
    for whole in (0, 4, 8, 16, 32, 64):
        size = whole + rest
        b = Builder()
        i, k = b.axes((2, size))
        x = buffer("x", 2, size, dtype=wide, strides=(1, 2) if step > 1 else None)
        out = buffer("out", 2, size, dtype=narrow, strides=(size + 8, 1))
        kernel = kernel_of("k", [Store(out, (i, k), b.cast(b.load(x, (i, k)), narrow))])
        given = (torch.arange(2 * size) - size).to(wide).view(2, size)
        memory = torch.full((2, size + 8), 7, dtype=narrow)
        assert run(kernel, b, [given.t().contiguous() if step > 1 else given, memory]) == 0
        assert torch.equal(memory[:, :size], given.to(narrow))
        assert memory[:, size:].eq(7).all()


def test_long_chains_take_time_by_their_length() -> None:
    """A thousand ops and more: printed without recursion, and right."""
    b = Builder()
    (i,) = b.axes((100,))
    x = buffer("x", 100)
    value = b.load(x, (i,))
    for k in range(1500):
        value = b.apply("add" if k % 2 else "mul", value, b.const(0.5, torch.float32))
    definition = Definition(buffer("out", 100), (i,), value)
    check(b, [definition], {x: numbers(torch.float32, (100,))})


def test_more_positions_than_32_bits_count() -> None:
    """A long loop is masked by how many positions are left."""
    length = 2**31 + 40
    b = Builder()
    i = b.axis(length)
    x = buffer("x", length, dtype=torch.int32, strides=(0,))
    position = b.cast(b.apply("mod", i, b.index(3)), torch.int32)
    value = b.load(x, (i,))
    for k in range(LONG + 5):
        value = b.apply("add" if k % 2 else "mul", value, position)
    every = b.apply("ge", value, b.const(-(2**31), torch.int32))
    total = b.reduce("sum", b.cast(every, torch.int64), [i])
    out = buffer("out", 1, dtype=torch.int64)
    kernel = kernel_of("k", [Store(out, (b.index(0),), total)])
    counted = torch.zeros(1, dtype=torch.int64)
    on = dataclasses.replace(host(), parallel=False)
    assert run(kernel, b, [torch.ones(1, dtype=torch.int32), counted], on) == 0
    assert counted.item() == length


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("rows", "columns"), [(8, 1000), (400, 333), (401, 64)])
def test_sums_of_rows_of_main_memory(rows: int, columns: int, threads: int) -> None:
    """Four rows at a time, where their number is a multiple of that."""
    on = dataclasses.replace(host(), cache=0)
    b = Builder()
    x, out = buffer("x", rows, columns), buffer("out", rows)
    i, over = b.axis(rows), b.axis(columns)
    total = b.reduce("sum", b.load(x, (i, over)), [over])
    kernel = kernel_of("rows", [Store(out, (i,), total)])
    given, found = torch.randn(rows, columns), torch.empty(rows)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert run(kernel, b, [given, found], on) == 0
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found, given.double().sum(1).float(), rtol=1e-5, atol=1e-5)
