"""Each pass over a schedule makes one that does the same: the interpreter runs every stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, given

from jitpkg.codegen.cpu import memory as printed_memory
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.printer import llvm_of
from jitpkg.codegen.cpu.stages import scheduled, stages
from jitpkg.codegen.fusion.groups import fuse, kernel_of
from jitpkg.codegen.fusion.interpreter import run_schedule
from jitpkg.codegen.fusion.items import Opaque
from jitpkg.codegen.fusion.kernel import (
    Blocks,
    Compute,
    Keep,
    Kernel,
    Lanes,
    Loop,
    Parts,
    Schedule,
    Take,
)
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normal, Normaliser
from jitpkg.codegen.fusion.passes import rows_together
from jitpkg.codegen.fusion.statements import loops, statements
from jitpkg.codegen.fusion.text import text_of_schedule
from jitpkg.codegen.ir import interpreter
from jitpkg.codegen.ir.builder import INDEX, Builder
from jitpkg.codegen.ir.nodes import Buffer, Load, Node, Store
from tests.codegen.blocks import random_columns, small_blocks
from tests.codegen.cpu import test_random_kernels
from tests.codegen.cpu.support import buffer, needs_llvm
from tests.codegen.examples import examples
from tests.codegen.fusion.test_fusion import Program

F32 = torch.float32
HOSTS = (
    Host(512),
    Host(128, parallel=False),
    Host(256, grain=4),
    Host(512, grain=1, side_by_side=4),
    Host(128, cache=0),
)


def check_stages(
    kernel: Kernel,
    b: Builder,
    memory: Mapping[Buffer, torch.Tensor],
    host: Host,
    *,
    small: bool = False,
) -> list[Schedule]:
    """Run the schedule of a kernel as it is, and after each pass; returns all of these."""

    def passes(first: Schedule) -> list[tuple[str, Schedule]]:
        with small_blocks(wide=4) if small else nullcontext():
            return list(stages(first, host))

    return check_passes(kernel, b, memory, passes)


def check_passes(
    kernel: Kernel,
    b: Builder,
    memory: Mapping[Buffer, torch.Tensor],
    passes: Callable[[Schedule], Iterable[tuple[str, Schedule]]],
) -> list[Schedule]:
    """The same for any passes."""
    normal = Normaliser(b).normal(kernel)
    first = schedule(normal.kernel, b)
    wanted = [torch.full(x.sizes, 7).to(x.dtype) for x in normal.kernel.outputs]
    told = dict(memory)  # the kernel as it was before: a normal form does the same
    for x, flat in zip(normal.outputs, wanted, strict=True):
        told[x] = torch.as_strided(flat, x.sizes, x.strides)
    interpreter.run_stores(kernel.stores, kernel.axes, told)
    made = [("schedule", first), *passes(first)]
    before = ""
    for name, each in made:
        if (text := text_of_schedule(each)) == before:
            continue
        before = text
        given = {x: torch.as_strided(memory[y], x.sizes, (1,)) for x, y in _inputs(normal)}
        found = [torch.full(x.sizes, 7).to(x.dtype) for x in normal.kernel.outputs]
        given.update(zip(normal.kernel.outputs, found, strict=True))
        run_schedule(each, given)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(
                one, other, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}"
            )
    return [each for _, each in made]


def _inputs(normal: Normal) -> list[tuple[Buffer, Buffer]]:
    return list(zip(normal.kernel.inputs, normal.inputs, strict=True))


def fused(
    draw: st.DataObject, sizes: tuple[int, ...], steps: int
) -> Iterator[tuple[Kernel, Builder, dict[Buffer, torch.Tensor]]]:
    """The kernels of a random program, and what is in memory before each."""
    program = Program(draw, sizes)
    for _ in range(steps):
        program.step()
    assume(program.items)
    memory = {x: torch.randn(x.sizes).as_strided(x.sizes, x.strides) for x in program.inputs}
    kept = [item.buffer for item in program.items[-2:]]
    for step in fuse(program.items, kept, program.b):
        assert not isinstance(step, Opaque)
        for x in step.outputs:
            memory[x] = torch.full(x.sizes, float("nan"))
        yield step, program.b, memory
        interpreter.run_stores(step.stores, step.axes, memory)


def grown(draw: test_random_kernels.Random, sizes: tuple[int, ...]) -> Kernel:
    """A random kernel of one or two results."""
    axes = draw.b.axes(sizes)
    stores = []
    for number in range(draw.draw(st.integers(1, 2))):
        value = draw.grown(axes, draw.draw(st.integers(0, 6)))
        stores.append(Store(buffer(f"out{number}", *sizes, dtype=value.dtype), axes, value))
    return kernel_of("tested", stores)


@examples(150)
@given(
    draw=st.data(),
    sizes=st.sampled_from([(3, 4), (2, 3, 4), (1, 5), (4, 1), (20,), (3, 17)]),
    steps=st.integers(1, 12),
    host=st.sampled_from(HOSTS),
    small=st.booleans(),
)
def test_programs(
    draw: st.DataObject, sizes: tuple[int, ...], steps: int, host: Host, small: bool
) -> None:
    for kernel, b, memory in fused(draw, sizes, steps):
        check_stages(kernel, b, memory, host, small=small)


@examples(150)
@given(data=st.data(), host=st.sampled_from(HOSTS), small=st.booleans())
def test_kernels_with_scans_masks_and_places_out_of_data(
    data: st.DataObject, host: Host, small: bool
) -> None:
    draw = test_random_kernels.Random(data)
    sizes = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 16]), max_size=2)))
    check_stages(grown(draw, sizes), draw.b, draw.memory, host, small=small)


@examples(100)
@given(data=st.data(), host=st.sampled_from(HOSTS), combine=st.sampled_from([None, "sum", "max"]))
def test_writes_to_places_out_of_data(data: st.DataObject, host: Host, combine: str | None) -> None:
    draw = test_random_kernels.Random(data)
    b, rows = draw.b, data.draw(st.sampled_from([1, 2, 5, 8, 8, 12, 12]))
    columns = data.draw(st.integers(1, 20))
    i, j = b.axes([rows, columns])
    places = draw.buffer((rows, columns), torch.int64, most=4 if combine else rows)
    if combine is None:  # any of the writes to one place may win, so there is one for each
        assume(0 not in places.strides)
        draw.memory[places].copy_(torch.randperm(rows)[:, None].expand(rows, columns))
    value = draw.grown((i, j), data.draw(st.integers(0, 4)))
    value = b.cast(value, torch.float32)
    at = b.check(b.load(places, (i, j)), max(rows, 4))
    if combine is not None and data.draw(st.booleans()):
        at = draw.computed_place(i, 4)
        if data.draw(st.booleans()):  # nothing else depends on the row
            value = b.cast(b.load(draw.buffer((4, columns), F32), (at, j)), F32)
    store = Store(buffer("out", max(rows, 4), columns), (at, j), value, combine)
    check_stages(kernel_of("tested", [store]), b, draw.memory, host)


@examples(100)
@given(data=st.data(), host=st.sampled_from(HOSTS), small=st.booleans())
def test_columns(data: st.DataObject, host: Host, small: bool) -> None:
    """Folds and running folds over columns, one after the other."""
    kernel, b, memory = random_columns(data)
    check_stages(kernel, b, memory, host, small=small)


# What the passes are for


def of_rows(b: Builder, sizes: Sequence[int]) -> tuple[Kernel, dict[Buffer, torch.Tensor]]:
    """A softmax along the last dim."""
    x = buffer("x", *sizes)
    axes = b.axes(sizes)

    def exponential(last: Node) -> Node:
        over = b.axis(sizes[-1])
        most = b.reduce("max", b.load(x, (*axes[:-1], over)), [over])
        return b.apply("exp", b.apply("sub", b.load(x, (*axes[:-1], last)), most))

    over = b.axis(sizes[-1])
    total = b.reduce("sum", exponential(over), [over])
    value = b.apply("div", exponential(axes[-1]), total)
    store = Store(buffer("out", *sizes), axes, value)
    return kernel_of("softmax", [store]), {x: torch.randn(tuple(sizes))}


def test_rows_are_kept() -> None:
    """The exponentials of a softmax are computed once."""
    b = Builder()
    kernel, memory = of_rows(b, (3, 64))
    last = check_stages(kernel, b, memory, Host(256))[-1]
    kept = [each for each in statements(last.body) if isinstance(each, Keep)]
    taken = [each for each in statements(last.body) if isinstance(each, Take)]
    assert [each.node for each in kept] == [each.node for each in taken]
    assert len(kept) == 1
    computed = [n for s in statements(last.body) if isinstance(s, Compute) for n in s.nodes]
    assert sum(getattr(node, "op", "") == "exp" for node in computed) == 1


@pytest.mark.parametrize(
    ("columns", "dtype", "together"),
    [
        (1023, torch.float32, 16),
        (1024, torch.float32, 8),
        (1024, torch.bfloat16, 16),
        (2048, torch.bfloat16, 8),
    ],
)
def test_columns_whose_rows_lie_in_pages_of_their_own(
    columns: int, dtype: torch.dtype, together: int
) -> None:
    """Fewer rows are read at a time."""
    b = Builder()
    x = buffer("x", 64, columns, dtype=dtype)
    over, column = b.axis(64), b.axis(columns)
    total = b.reduce("sum", b.cast(b.load(x, (over, column)), F32), [over])
    kernel = kernel_of("columns", [Store(buffer("out", columns), (column,), total)])
    *_, (_, last) = stages(schedule(kernel, b), Host(256))
    assert Blocks(together) in [each.kind for each in loops(last.body)]


def softmax_of_columns(
    b: Builder, rows: int, columns: int
) -> tuple[Kernel, dict[Buffer, torch.Tensor]]:
    x = buffer("x", rows, columns)
    row, column = b.axes((rows, columns))

    def exponential(at: Node) -> Node:
        over = b.axis(rows)
        most = b.reduce("max", b.load(x, (over, column)), [over])
        return b.apply("exp", b.apply("sub", b.load(x, (at, column)), most))

    over = b.axis(rows)
    total = b.reduce("sum", exponential(over), [over])
    value = b.apply("div", exponential(row), total)
    store = Store(buffer("out", rows, columns), (row, column), value)
    return kernel_of("softmax", [store]), {x: torch.randn(rows, columns)}


@pytest.mark.parametrize("size", [(80, 70), (7, 70), (80, 5), (1, 1)])
@pytest.mark.parametrize("host", [Host(256), Host(512), Host(128, parallel=False)])
def test_columns_are_kept(size: tuple[int, int], host: Host) -> None:
    """The same where the rows are outside."""
    b = Builder()
    kernel, memory = softmax_of_columns(b, *size)
    last = check_stages(kernel, b, memory, host)[-1]
    computed = [n for s in statements(last.body) if isinstance(s, Compute) for n in s.nodes]
    assert sum(getattr(node, "op", "") == "exp" for node in computed) == 1


def test_more_than_the_stack_holds_is_computed_again() -> None:
    b = Builder()
    kernel, _ = softmax_of_columns(b, 1024, 1024)
    *_, (_, last) = stages(schedule(kernel, b), Host(256))
    assert not any(isinstance(each, Keep) for each in statements(last.body))


def test_one_loop_of_a_nest_is_in_lanes() -> None:
    b = Builder()
    kernel, memory = of_rows(b, (5, 64))
    last = check_stages(kernel, b, memory, Host(512))[-1]
    (shared,) = (each for each in last.body if isinstance(each, Loop))
    (rows,) = (each for each in shared.body if isinstance(each, Loop))
    assert rows.lanes == 1
    assert all(isinstance(each.kind, Lanes) for each in loops(rows.body))


def of_columns(b: Builder, rows: int, columns: int) -> tuple[Kernel, dict[Buffer, torch.Tensor]]:
    """Each column over the root of a number of its own."""
    x, of = buffer("x", rows, columns), buffer("of", columns)
    i, j = b.axes([rows, columns])
    root = b.apply("sqrt", b.apply("exp", b.load(of, [j])))
    store = Store(buffer("out", rows, columns), (i, j), b.apply("div", b.load(x, [i, j]), root))
    memory = {x: torch.randn(rows, columns), of: torch.randn(columns)}
    return kernel_of("columns", [store]), memory


def test_what_is_the_same_in_all_rows_is_computed_before_them() -> None:
    b = Builder()
    kernel, memory = of_columns(b, 40, 48)
    before, rows = (each for each in check_stages(kernel, b, memory, Host(512))[-1].body)
    assert isinstance(before, Loop)
    assert isinstance(rows, Loop)
    assert [each.node for each in statements(before.body) if isinstance(each, Keep)] == [
        each.node for each in statements(rows.body) if isinstance(each, Take)
    ]
    inside = [n for s in statements(rows.body) if isinstance(s, Compute) for n in s.nodes]
    assert not any(getattr(node, "op", "") in ("exp", "sqrt") for node in inside)


def test_threads_share_the_rows_all_the_same() -> None:
    b = Builder()
    kernel, memory = of_columns(b, 40, 48)
    host = Host(512, grain=16)
    last = check_stages(kernel, b, memory, host)[-1]
    shared = last.body[-1]
    assert isinstance(shared, Loop)
    assert isinstance(shared.kind, Parts)


def test_few_rows_compute_it_themselves() -> None:
    b = Builder()
    kernel, memory = of_columns(b, 3, 48)
    assert len(check_stages(kernel, b, memory, Host(512))[-1].body) == 1


def added_up(
    b: Builder, rows: int, columns: int, dtype: torch.dtype
) -> tuple[Kernel, dict[Buffer, torch.Tensor]]:
    x = buffer("x", rows, columns, dtype=dtype)
    i, over = b.axis(rows), b.axis(columns)
    total = b.reduce("sum", b.cast(b.load(x, (i, over)), F32), [over])
    store = Store(buffer("out", rows), (i,), total)
    return kernel_of("added_up", [store]), {x: torch.randn(rows, columns).to(dtype)}


def together(
    rows: int, cache: int, columns: int = 1024, dtype: torch.dtype = torch.float32
) -> list[int]:
    """How many rows each loop over columns adds up at once."""
    b = Builder()
    made = added_up(b, rows, columns, dtype)
    last = check_stages(*_of(made, b), Host(512, cache=cache))[-1]
    return [len(each.folds) for each in loops(last.body) if isinstance(each.kind, Lanes)]


def _of(
    made: tuple[Kernel, dict[Buffer, torch.Tensor]], b: Builder
) -> tuple[Kernel, Builder, dict[Buffer, torch.Tensor]]:
    return made[0], b, made[1]


@examples(150)
@given(st.data())
def test_rows_together(data: st.DataObject) -> None:
    """Sums over rows of whole numbers, and what is made of them."""
    b = Builder()
    rows, columns = data.draw(st.sampled_from([4, 8, 12])), data.draw(st.sampled_from([16, 33, 70]))
    memory: dict[Buffer, torch.Tensor] = {}
    draw = torch.Generator().manual_seed(data.draw(st.integers(0, 100)))
    i, over = b.axis(rows), b.axis(columns)

    def loaded(*index: Node) -> Node:
        dtype = data.draw(st.sampled_from([torch.float32, torch.float32, torch.bfloat16]))
        sizes = [rows if at is i else columns for at in index]
        x = buffer(f"x{len(memory)}", *sizes, dtype=dtype)
        memory[x] = torch.randint(-4, 4, sizes, generator=draw).to(dtype)
        return b.cast(b.load(x, index), F32)

    stores = []
    for number in range(data.draw(st.integers(1, 2))):
        value = loaded(i, over)
        for index in data.draw(st.lists(st.sampled_from([(i,), (over,), (i, over)]), max_size=2)):
            value = b.apply("mul", value, loaded(*index))
        total = b.reduce("sum", value, [over])
        if data.draw(st.booleans()):
            total = b.apply("add", total, loaded(i))
        stores.append(Store(buffer(f"out{number}", rows), (i,), total))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_together, "PAGE", 0)
        check_stages(kernel_of("rows", stores), b, memory, Host(128, cache=0))


def test_rows_of_main_memory_are_added_up_four_at_a_time() -> None:
    assert together(8, cache=8 * 1024 * 4) == [4]
    assert together(8, cache=9 * 1024 * 4) == [1]
    assert together(9, cache=0) == [1]


def test_short_rows_and_those_of_few_bits_are_added_up_one_by_one() -> None:
    assert together(8, cache=0, columns=1023) == [1]
    assert together(8, cache=0, columns=2048, dtype=torch.bfloat16) == [1]


def columns_folded(
    op: str, columns: int, dtype: torch.dtype = F32, *, is_shared: bool = False
) -> Schedule:
    """64 rows; `is_shared`: all columns fold the same numbers, one of each row."""
    b = Builder()
    i, over = b.axis(columns), b.axis(64)
    at = b.const(0, INDEX) if is_shared else i
    value = b.cast(b.load(buffer("x", 64, columns, dtype=dtype), (over, at)), F32)
    store = Store(buffer("out", columns), (i,), b.reduce(op, value, [over]))
    return schedule(kernel_of("folded", [store]), b)


def asked_ahead(loops_: Schedule) -> list[bool]:
    """Whether each load is, in the last stage."""
    *_, (name, last) = stages(loops_, Host(512))
    assert name == "ask_ahead"
    computed = [each for each in statements(last.body) if isinstance(each, Compute)]
    return [n in each.ahead for each in computed for n in each.nodes if isinstance(n, Load)]


def test_rows_that_begin_in_another_page_are_asked_for_ahead() -> None:
    assert asked_ahead(columns_folded("max", 1024)) == [True]
    assert asked_ahead(columns_folded("max", 1023)) == [False]
    assert asked_ahead(columns_folded("max", 1024, torch.bfloat16)) == [False]
    assert asked_ahead(columns_folded("max", 2048, torch.bfloat16)) == [True]


def test_sums_of_columns_ask_for_nothing_ahead() -> None:
    assert asked_ahead(columns_folded("sum", 1024)) == [False]


def test_what_all_lanes_share_is_not_asked_for_ahead() -> None:
    assert asked_ahead(columns_folded("max", 1024, is_shared=True)) == [False]


@needs_llvm
def test_each_line_of_memory_is_asked_for_once() -> None:
    made = columns_folded("max", 1024)
    (wide,) = {x.lanes for x in loops(scheduled(made, Host(512)).body) if x.lanes > 1}
    text = llvm_of(made, Host(512))
    assert text.count("call void @llvm.prefetch") == wide * F32.itemsize // printed_memory.LINE
