"""Each pass of Triton's makes a schedule that does the same: the interpreter runs every stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from unittest import mock

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from jitpkg import events
from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.interpreter import run_schedule
from jitpkg.codegen.fusion.kernel import (
    Compute,
    Finish,
    Grid,
    Keep,
    Kernel,
    Kind,
    Loop,
    Schedule,
    Serial,
    Statement,
    Take,
    Tile,
    Write,
)
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.online import Distances, Powers
from jitpkg.codegen.fusion.passes.keep_tiles import keep_tiles
from jitpkg.codegen.fusion.statements import loops, statements
from jitpkg.codegen.fusion.text import text_of_schedule
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer, Store
from jitpkg.codegen.triton import blocks, tiles
from jitpkg.codegen.triton.printer import printed
from jitpkg.codegen.triton.stages import PASSES, stages
from jitpkg.codegen.triton.target import H200
from tests.codegen.cpu import test_random_kernels
from tests.codegen.cpu.support import buffer
from tests.codegen.examples import examples
from tests.codegen.fusion.test_schedules import check_passes, fused, grown, of_rows
from tests.codegen.triton import test_one_pass

F32 = torch.float32
Memory = Mapping[Buffer, torch.Tensor]


@contextmanager
def few_registers() -> Iterator[None]:
    """For rows of 5 elements, so that longer ones are read in blocks and are programs alone."""
    with (
        mock.patch.multiple(tiles, PERSISTENT=5, ACROSS=2, SHORT=2),
        mock.patch.object(blocks, "ROW", 6),
    ):
        yield


def check(kernel: Kernel, memory: Memory, b: Builder, *, few: bool = False) -> Schedule:
    """Run all stages of a kernel; returns the last.

    Args:
        few: with few registers.
    """
    with few_registers() if few else nullcontext():
        return check_passes(kernel, b, memory, stages)[-1]


@examples(150)
@given(
    draw=st.data(),
    sizes=st.sampled_from([(3, 4), (2, 3, 4), (1, 5), (4, 1), (20,), (3, 7), (9, 10)]),
    steps=st.integers(1, 12),
    few=st.booleans(),
)
def test_programs(draw: st.DataObject, sizes: tuple[int, ...], steps: int, few: bool) -> None:
    for kernel, b, memory in fused(draw, sizes, steps):
        check(kernel, memory, b, few=few)


@examples(150)
@given(data=st.data(), few=st.booleans())
def test_kernels_with_scans_masks_and_places_out_of_data(data: st.DataObject, few: bool) -> None:
    draw = test_random_kernels.Random(data)
    sizes = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 12]), max_size=2)))
    check(grown(draw, sizes), draw.memory, draw.b, few=few)


@examples(100)
@given(data=st.data(), few=st.booleans(), combine=st.sampled_from(["sum", "max"]))
def test_writes_that_combine(data: st.DataObject, few: bool, combine: str) -> None:
    draw = test_random_kernels.Random(data)
    b, rows, columns = (
        draw.b,
        data.draw(st.sampled_from([1, 2, 5, 12])),
        data.draw(st.integers(1, 9)),
    )
    i, j = b.axes([rows, columns])
    at = b.check(b.load(draw.buffer((rows, columns), torch.int64, most=4), (i, j)), 4)
    value = b.cast(draw.grown((i, j), data.draw(st.integers(0, 4))), F32)
    store = Store(buffer("out", 4, columns), (at, j), value, combine)
    check(kernel_of("tested", [store]), draw.memory, b, few=few)


@examples(60)
@given(data=st.data(), call=st.sampled_from(test_one_pass.CALLS))
def test_pairs_of_numbers_that_are_none(data: st.DataObject, call: test_one_pass.Call) -> None:
    rows, columns = data.draw(st.integers(1, 3)), data.draw(st.integers(6, 9))
    if call is test_one_pass.of_columns:
        rows, columns = columns, rows
    x = torch.randn(rows, columns)
    if data.draw(st.booleans()):
        x.fill_(data.draw(test_one_pass.HARD))
    for value in data.draw(st.lists(test_one_pass.HARD, max_size=3)):
        x.view(-1)[data.draw(st.integers(0, x.numel() - 1))] = value
    x = torch.where(x.abs() == 1e30, 0.5, x)  # a mean of these has no digit below 1e22
    b, kernel = test_one_pass.kernel(call, rows, columns)
    last = check(kernel, {kernel.inputs[0]: x.reshape(-1)}, b, few=True)
    assert any(isinstance(each, Finish) for each in statements(last.body))


# What the passes are for


def kinds(schedule: Schedule) -> list[Kind]:
    return [loop.kind for loop in loops(schedule.body)]


def ops_of(schedule: Schedule) -> list[str]:
    """What is computed, each as often as it stands there."""
    return [
        getattr(node, "op", "")
        for each in statements(schedule.body)
        if isinstance(each, Compute)
        for node in each.nodes
    ]


def test_a_row_in_registers_is_computed_once() -> None:
    b = Builder()
    kernel, memory = of_rows(b, (6, 17))
    last = check(kernel, memory, b)
    assert kinds(last) == [Grid("x"), *[Tile("r", whole=True)] * 3]
    assert ops_of(last).count("exp") == 1
    kept = [each.node for each in statements(last.body) if isinstance(each, Keep)]
    assert kept == [each.node for each in statements(last.body) if isinstance(each, Take)]


def test_a_long_row_is_read_once_for_two_folds() -> None:
    b = Builder()
    kernel, memory = of_rows(b, (3, 17))
    last = check(kernel, memory, b, few=True)
    assert kinds(last) == [Grid(), *[Tile("r", whole=False)] * 2]
    (both,) = (loop.pairs for loop in loops(last.body) if loop.pairs)
    (finish,) = (each for each in statements(last.body) if isinstance(each, Finish))
    assert both == (finish.pair,)
    assert isinstance(finish.pair, Powers)


def test_pairs_do_not_follow_one_another() -> None:
    """The variance of powers needs their sum, which is the second one of a pair already."""
    b = Builder()
    x = buffer("x", 2, 9)
    (i,) = b.axes((2,))
    j = b.axis(9)
    value = b.load(x, (i, j))
    power = b.apply("exp", b.apply("sub", value, b.reduce("max", value, [j])))
    mean = b.apply("div", b.reduce("sum", power, [j]), b.const(9.0, F32))
    far = b.apply("sub", power, mean)
    store = Store(buffer("out", 2), (i,), b.reduce("sum", b.apply("mul", far, far), [j]))
    kernel, memory = kernel_of("k", [store]), {x: torch.randn(2, 9)}
    last = check(kernel, memory, b, few=True)
    pairs = [each.pair for each in statements(last.body) if isinstance(each, Finish)]
    assert [type(pair) for pair in pairs] == [Powers]


def of_distances(b: Builder, folds: Mapping[str, str]) -> tuple[Kernel, Memory]:
    """Folds of distances from a mean, of which nothing else is made.

    Args:
        folds: by the ops that make what is folded of two distances.
    """
    x = buffer("x", 3, 9)
    (i,) = b.axes((3,))
    j = b.axis(9)
    value = b.load(x, (i, j))
    mean = b.apply("div", b.reduce("sum", value, [j]), b.const(9.0, F32))
    far = b.apply("sub", value, mean)
    stores = [
        Store(buffer(fold, 3), (i,), b.reduce(fold, b.apply(op, far, far), [j]))
        for op, fold in folds.items()
    ]
    return kernel_of("distances", stores), {x: torch.randn(3, 9)}


def test_distances_in_one_pass() -> None:
    b = Builder()
    last = check(*of_distances(b, {"mul": "sum"}), b, few=True)
    (finish,) = (each for each in statements(last.body) if isinstance(each, Finish))
    assert isinstance(finish.pair, Distances)
    assert kinds(last) == [Grid(), Tile("r", whole=False)]


def test_a_loop_that_folds_something_else_stays() -> None:
    b = Builder()
    last = check(*of_distances(b, {"mul": "sum", "add": "max"}), b, few=True)
    assert kinds(last) == [Grid(), *[Tile("r", whole=False)] * 2]
    assert not any(loop.pairs for loop in loops(last.body))


def summed(b: Builder, *sizes: int, over: Sequence[int]) -> tuple[Kernel, Memory]:
    """A sum over some dims."""
    x = buffer("x", *sizes)
    axes = b.axes(sizes)
    value = b.reduce("sum", b.load(x, axes), [axes[dim] for dim in over])
    left = tuple(axis for k, axis in enumerate(axes) if k not in over)
    store = Store(buffer("out", *(axis.extent for axis in left)), left, value)
    return kernel_of("summed", [store]), {x: torch.randn(sizes)}


def test_two_loops_of_a_fold_are_one_dim() -> None:
    b = Builder()
    kernel, memory = summed(b, 5, 3, 12, over=(0, 2))
    assert kinds(check(kernel, memory, b)) == [Grid("x"), *[Tile("r", whole=True)] * 2]
    assert kinds(check(kernel, memory, b, few=True))[1] == Tile("r", whole=False)


def test_columns_lie_side_by_side() -> None:
    b = Builder()
    kernel, memory = summed(b, 9, 17, over=(0,))
    assert kinds(check(kernel, memory, b, few=True)) == [Grid("x"), Tile("r", whole=False)]


def test_what_all_programs_read_is_read_again() -> None:
    """And so is a row, as long as a loop over it is to come."""
    b = Builder()
    x, weight = buffer("x", 3, 9), buffer("weight", 9)
    i, j = b.axes((3, 9))
    over = b.axis(9)
    total = b.reduce("sum", b.load(x, (i, over)), [over])
    value = b.apply("sub", b.load(x, (i, j)), total)
    value = b.apply("mul", value, b.load(weight, (j,)))
    store = Store(buffer("out", 3, 9), (i, j), value)
    memory = {x: torch.randn(3, 9), weight: torch.randn(9)}
    last = check(kernel_of("weighted", [store]), memory, b, few=True)
    computes = [each for each in statements(last.body) if isinstance(each, Compute)]
    assert [[len(node.axes) for node in each.again] for each in computes] == [[2], [1]]


def test_what_is_turned_has_two_dims() -> None:
    """And what is computed for one of them alone, each program computes."""
    b = Builder()
    x, row = buffer("x", 3, 16, 17, strides=(272, 1, 16)), buffer("row", 16)
    i, j, k = b.axes((3, 16, 17))
    value = b.apply("mul", b.load(x, (i, j, k)), b.apply("exp", b.load(row, (j,))))
    store = Store(buffer("out", 3, 16, 17), (i, j, k), value)
    memory = {x: torch.randn(3, 17, 16).transpose(1, 2), row: torch.randn(16)}
    last = check(kernel_of("turned", [store]), memory, b)
    assert kinds(last) == [Grid(), Grid("y"), Grid("x")]
    (outermost,) = last.body
    assert isinstance(outermost, Loop)


def test_what_an_iteration_keeps_is_not_there_behind_the_loop() -> None:
    b = Builder()
    j, k = b.axes((5, 4))
    value = b.load(buffer("x", 5), (j,))
    inner, behind = (Store(buffer(name, 4, 5), (k, j), value) for name in ("inner", "behind"))
    kernel, whole = kernel_of("kernel", [inner, behind]), Tile("r", whole=True)
    once, again = (
        Loop(j, (Compute((value,)), Write(store)), kind=whole) for store in (inner, behind)
    )
    kept = keep_tiles(Schedule(kernel, (Loop(k, (once, again)), Loop(k, (again,)))))
    run(kernel, *kept.body)
    assert sum(isinstance(each, Take) for each in statements(kept.body)) == 1


def test_an_axis_has_another_position_in_a_loop_over_it() -> None:
    b = Builder()
    j, k = b.axes((5, 5))
    value = b.load(buffer("x", 5), (k,))
    stores = [
        Store(buffer("before", 5), (k,), value),
        Store(buffer("out", 5, 5), (k, j), value),
    ]
    kernel, whole = kernel_of("kernel", stores), Tile("r", whole=True)
    before, inside = (
        Loop(axis, (Compute((value,)), Write(store)), kind=whole)
        for axis, store in zip((k, j), stores, strict=True)
    )
    kept = keep_tiles(Schedule(kernel, (before, Loop(k, (inside,)))))
    assert not any(isinstance(each, Take) for each in statements(kept.body))


# That the interpreter would notice


def run(kernel: Kernel, *body: Statement) -> None:
    memory = {x: torch.zeros(x.sizes) for x in (*kernel.inputs, *kernel.outputs)}
    run_schedule(Schedule(kernel, body), memory)


def test_a_value_of_another_program_is_not_there() -> None:
    b = Builder()
    i, j = b.axes((6, 5))
    value = b.load(buffer("x", 5), (j,))
    store = Store(buffer("out", 6, 5), (i, j), value)
    kernel, whole = kernel_of("kernel", [store]), Tile("r", whole=True)
    keeps = Loop(j, (Compute((value,)), Keep(value)), kind=whole)
    takes = Loop(j, (Take(value), Write(store)), kind=whole)
    run(kernel, Loop(i, (keeps, takes), kind=Grid()))
    run(kernel, keeps, Loop(i, (takes,)))
    with pytest.raises(AssertionError, match="was not kept"):
        run(kernel, keeps, Loop(i, (takes,), kind=Grid()))


def test_programs_come_in_no_order() -> None:
    """A running sum that the grid carries is another one."""
    b = Builder()
    (i,) = b.axes((6,))
    value = b.load(buffer("x", 6), (i,))
    running = b.scan("sum", value, i)
    store = Store(buffer("out", 6), (i,), running)
    kernel = kernel_of("kernel", [store])
    found = []
    for kind in (Serial(), Grid()):
        out = torch.zeros(6)
        loop = Loop(i, (Compute((value, running)), Write(store)), scans=(running,), kind=kind)
        memory = dict(zip((*kernel.inputs, *kernel.outputs), (torch.arange(6.0), out), strict=True))
        run_schedule(Schedule(kernel, (loop,)), memory)
        found.append(out)
    assert found[0].tolist() == [0, 1, 3, 6, 10, 15]
    assert found[1].tolist() != found[0].tolist()


def test_each_pass_is_heard_of() -> None:
    b = Builder()
    kernel, _ = of_rows(b, (3, 17))
    heard: list[events.Event] = []
    with events.STREAM.listening(heard.append):
        printed(schedule(kernel, b), H200)
    found = [each for each in heard if isinstance(each, events.Scheduled)]
    assert [each.stage for each in found] == [each.__name__ for each in PASSES]
    assert found[-1].write().startswith("for i < 3, programs by x:")


def test_text() -> None:
    b = Builder()
    kernel, memory = of_rows(b, (3, 17))
    assert text_of_schedule(check(kernel, memory, b, few=True)) == LONG_ROWS


LONG_ROWS = """\
for i < 3, a program each:
    for j < 17, r in blocks:
        v0 = in0[((i * 17) + j)], read again
        r0 = max(r0, v0)
        r1 = powers(r1, v0)
    finish r1 with r0
    for j < 17, r in blocks:
        v0 = in0[((i * 17) + j)]
        v1 = (v0 - r0)
        v2 = exp(v1)
        v3 = (v2 / r1)
        out0[((i * 17) + j)] = v3"""
