"""Random kernels on whole numbers: exactly what the reference interpreter makes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, given

from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.ir import interpreter, legality
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Axis, Buffer, Definition, Node, Store
from jitpkg.codegen.lowering.table import Lowering
from jitpkg.facts.tensor import contiguous_stride
from tests.codegen.blocks import random_columns, small_blocks
from tests.codegen.cpu.support import buffer, host, needs_llvm, run
from tests.codegen.examples import examples
from tests.codegen.printers import CPU, Printer, each_printer
from tests.portions import share

DTYPES = (
    *(torch.float32, torch.float64, torch.int64, torch.int32, torch.int16),
    *(torch.uint8, torch.bool, torch.bfloat16, torch.float16),
)
SIZE = st.sampled_from([1, 2, 3, 7, 16, 33, 100])


class Random:
    """Grows a value from loads."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = data.draw
        self.b = Builder()
        self.memory: dict[Buffer, torch.Tensor] = {}
        self.seed = self.draw(st.integers(0, 100))

    def one(self, *choices: object) -> object:
        return self.draw(st.sampled_from(choices))

    def buffer(self, sizes: tuple[int, ...], dtype: torch.dtype, most: int = 6) -> Buffer:
        """Memory of small whole numbers, in some layout."""
        layout = self.one("plain", "turned", "sliced", "expanded")
        draw = torch.Generator().manual_seed(self.seed + len(self.memory))
        low = 0 if dtype in (torch.uint8, torch.bool) or most != 6 else -most
        last = 2 if dtype is torch.bool else most

        def numbers(*shape: int) -> torch.Tensor:
            return torch.randint(low, last, shape, generator=draw).to(dtype)

        match layout:
            case "turned":
                tensor = numbers(*sizes[::-1]).permute(tuple(range(len(sizes)))[::-1])
            case "sliced" if sizes:
                tensor = numbers(*sizes[:-1], 2 * sizes[-1])[..., ::2]
            case "expanded" if sizes:
                tensor = numbers(*sizes[:-1], 1).expand(sizes)
            case _:
                tensor = numbers(*sizes)
        made = buffer(f"x{len(self.memory)}", *sizes, dtype=dtype, strides=tensor.stride())
        self.memory[made] = tensor
        return made

    def load(self, axes: tuple[Axis, ...]) -> Node:
        b = self.b
        dtype = self.one(*DTYPES)
        assert isinstance(dtype, torch.dtype)
        sizes = tuple(axis.extent for axis in axes)
        if not axes:
            return b.load(self.buffer((), dtype), ())
        last = axes[-1]
        match self.one("plain", "plain", "shifted", "flipped", "gathered", "coarse", "turned"):
            case "shifted":  # as a pad does
                by = self.draw(st.integers(1, 3))
                at = b.apply("sub", last, b.index(by))
                mask = b.apply("ge", at, b.index(0))
                return b.load(self.buffer(sizes, dtype), (*axes[:-1], at), mask)
            case "flipped":
                at = b.apply("sub", b.index(last.extent - 1), last)
                return b.load(self.buffer(sizes, dtype), (*axes[:-1], at))
            case "gathered":
                of = self.buffer(sizes, torch.int64, most=5)
                row = b.check(b.load(of, axes), 5)
                return b.load(self.buffer((5, *sizes[1:]), dtype), (row, *axes[1:]))
            case "coarse":
                at = b.apply("floordiv", last, b.index(2))
                half = -(-last.extent // 2)
                return b.load(self.buffer((*sizes[:-1], half), dtype), (*axes[:-1], at))
            case "turned":
                return b.load(self.buffer(sizes[::-1], dtype), axes[::-1])
            case _:
                return b.load(self.buffer(sizes, dtype), axes)

    def computed_place(self, axis: Axis, height: int) -> Node:
        """A place below a height that the position alone decides, as `arange(12) % 4` does."""
        b, by = self.b, self.draw(st.sampled_from([2, 3, 4, 8]))
        at: Node = axis
        if self.one(True, False, False, False):
            at = b.apply("sub", b.index(axis.extent - 1), axis)
        if self.one(True, False, False, False):
            at = b.apply("floordiv", at, b.index(by))
        return b.apply("mod", at, b.index(min(by, height)))

    def same(self, a: Node, c: Node) -> tuple[Node, Node, torch.dtype]:
        """Two values of a dtype that there is arithmetic on."""
        narrow = (torch.bfloat16, torch.float16, torch.bool)
        dtype = torch.float32 if a.dtype in narrow else a.dtype
        return self.b.cast(a, dtype), self.b.cast(c, dtype), dtype

    def grown(self, axes: tuple[Axis, ...], steps: int) -> Node:
        b = self.b
        known = [self.load(axes)]
        for _ in range(steps):
            match self.one("load", "cast", "two", "two", "where", "axis", "fold", "scan"):
                case "load":
                    known.append(self.load(axes))
                case "cast":
                    # Every number stays small, so that no dtype wraps or rounds.
                    known.append(self.small(b.cast(self.pick(known), self.one(*DTYPES))))  # type: ignore[arg-type]
                case "two":
                    one, other, _ = self.same(self.pick(known), self.pick(known))
                    op = self.one("add", "sub", "mul", "maximum", "minimum")
                    assert isinstance(op, str)
                    known.append(self.small(b.apply(op, one, other)))
                case "where" if axes and self.one(True, False):  # as a causal mask does
                    at, by = self.one(*axes), self.draw(st.integers(-3, 40))
                    assert isinstance(at, Axis)
                    far = b.apply("sub", b.apply("mul", at, b.index(2)), b.index(by))
                    test = b.apply("ge", b.apply("sub", far, axes[0]), b.index(0))
                    picked = self.pick(known)
                    known.append(b.where(test, picked, b.const(0, picked.dtype)))
                case "where":
                    one, other, _ = self.same(self.pick(known), self.pick(known))
                    test = b.apply("lt", one, other)
                    known.append(b.where(test, one, other))
                case "axis" if axes:
                    at = self.one(*axes)
                    assert isinstance(at, Axis)
                    known.append(self.small(b.apply("mod", at, b.index(3))))
                case "fold":
                    over = b.axis(self.draw(SIZE))
                    inner = self.load((*axes, over))
                    kind = torch.int64 if self.one(True, False) else torch.float32
                    op = self.one("sum", "max", "min", "argmax")
                    assert isinstance(op, str)
                    known.append(self.small(b.reduce(op, b.cast(inner, kind), [over])))
                case "scan" if axes:
                    one, _, _ = self.same(self.pick(known), known[0])
                    op = self.one("max", "min", "sum")
                    assert isinstance(op, str)
                    known.append(self.small(b.scan(op, one, axes[-1])))
        return known[-1]

    def pick(self, known: list[Node]) -> Node:
        found = self.one(*known)
        assert isinstance(found, Node)
        return found

    def small(self, value: Node) -> Node:
        """Between 0 and 7."""
        b = self.b
        if value.dtype is torch.bool or value.dtype in (torch.bfloat16, torch.float16):
            return value
        low, high = b.const(0, value.dtype), b.const(7, value.dtype)
        return b.apply("minimum", b.apply("maximum", value, low), high)


@each_printer
@examples(share(120, 2))
@given(st.data())
def test_kernel_means_what_its_definitions_mean(printer: Printer, data: st.DataObject) -> None:
    draw = Random(data)
    sizes = tuple(data.draw(st.lists(SIZE, min_size=0, max_size=2)))
    axes = draw.b.axes(sizes)
    definitions = []
    for number in range(data.draw(st.integers(1, 2))):
        value = draw.grown(axes, data.draw(st.integers(0, 8)))
        made = Definition(buffer(f"out{number}", *sizes, dtype=value.dtype), axes, value)
        legality.check(made)
        definitions.append(made)
    if printer is CPU:
        hosts = [None, Host(256), Host(128)] if host().bits == 512 else [None]
        printer.check(
            draw.b, definitions, draw.memory, tolerance=0, on=data.draw(st.sampled_from(hosts))
        )
    else:
        way = {"config": data.draw(st.integers(0, 2)), "short_rows": data.draw(st.booleans())}
        printer.check(draw.b, definitions, draw.memory, tolerance=0, **way)


@needs_llvm
@examples(150)
@given(st.data())
def test_small_blocks(data: st.DataObject) -> None:
    """What is worth it for thousands of elements is done for a few."""
    draw = Random(data)
    sizes = tuple(data.draw(st.lists(SIZE, min_size=1, max_size=2)))
    axes = draw.b.axes(sizes)
    value = draw.grown(axes, data.draw(st.integers(0, 6)))
    definition = Definition(buffer("out", *sizes, dtype=value.dtype), axes, value)
    on = replace(data.draw(st.sampled_from([host(), Host(128)])), grain=1)
    with small_blocks():
        CPU.check(draw.b, [definition], draw.memory, tolerance=0, on=on)


@needs_llvm
@examples(150)
@given(st.data())
def test_columns(data: st.DataObject) -> None:
    kernel, b, memory = random_columns(data)
    wanted = [torch.zeros(x.sizes, dtype=x.dtype) for x in kernel.outputs]
    interpreter.run_stores(
        kernel.stores, kernel.axes, {**memory, **dict(zip(kernel.outputs, wanted, strict=True))}
    )
    on = replace(data.draw(st.sampled_from([host(), Host(128)])), grain=1)
    with small_blocks() if data.draw(st.booleans()) else nullcontext():
        found = [torch.zeros_like(each) for each in wanted]
        assert run(kernel, b, [*(memory[x] for x in kernel.inputs), *found], on) == 0
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@each_printer
@examples(share(40, 2))
@given(st.data())
def test_scatter(printer: Printer, data: st.DataObject) -> None:
    draw = Random(data)
    b = draw.b
    rows, columns, height = (data.draw(SIZE) for _ in range(3))
    is_computed = data.draw(st.booleans())
    if is_computed:
        rows = data.draw(st.sampled_from([8, 12, 48]))
    i, j = b.axes([rows, columns])
    height = max(rows, height)
    places = draw.buffer((rows, columns), torch.int64, most=height)
    at = b.check(b.load(places, (i, j)), height)
    if is_computed:
        at = draw.computed_place(i, height)
    dtype = data.draw(st.sampled_from([torch.float32, torch.int64, torch.bfloat16, torch.uint8]))
    combine = data.draw(st.sampled_from(["sum", "max", None]))
    if printer is not CPU and combine is not None:  # see triton.memory.ATOMIC
        assume(dtype is torch.int64 or (dtype is torch.float32 and combine == "sum"))
    if combine is None:  # any of the writes to one place may win, so there is one for each
        assume(0 not in places.strides and not is_computed)
        seed = torch.Generator().manual_seed(draw.seed)
        own = [torch.randperm(height, generator=seed)[:rows] for _ in range(columns)]
        draw.memory[places].copy_(torch.stack(own, 1))
    if is_computed and data.draw(st.booleans()):  # nothing else depends on the row
        value = b.load(draw.buffer((height, columns), dtype), (at, j))
    else:
        value = b.load(draw.buffer((rows, columns), dtype), (i, j))
    out = Buffer("out", dtype, (height, columns), contiguous_stride((height, columns)))
    store = Store(out, (at, j), value, combine)
    start = torch.arange(height * columns).view(height, columns).remainder(3).to(dtype)
    wanted, found = start.clone(), start.clone()
    interpreter.run_stores([store], [i, j], {**draw.memory, out: wanted})
    kernel = kernel_of("scatter", [store])
    given_ = [draw.memory[each] for each in kernel.inputs]
    assert printer.run(kernel, b, [*given_, found]) == 0
    assert torch.equal(found, wanted)


@each_printer
def test_index_out_of_range_is_a_status(printer: Printer) -> None:
    for sizes in ((1,), (100,), (3, 40)):
        for wrong in (-4, 3, 2**40):
            b = Builder()
            axes = b.axes(sizes)
            x, at = buffer("x", 3), buffer("at", *sizes, dtype=torch.int64)
            value = b.load(x, [b.check(b.load(at, axes), 3)])
            store = Store(buffer("out", *sizes), axes, value)
            kernel = kernel_of("k", [store])
            memory = {x: torch.arange(3.0), at: torch.full(sizes, -1)}
            out = torch.zeros(sizes)
            assert printer.run(kernel, b, [*(memory[each] for each in kernel.inputs), out]) == 0
            assert out.eq(2).all()
            memory[at].view(-1)[-1] = wrong
            assert printer.run(kernel, b, [*(memory[each] for each in kernel.inputs), out]) == 1


@each_printer
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
@pytest.mark.parametrize("sizes", [(16, 64), (37, 23), (4, 100), (100, 9)], ids=str)
def test_turned(printer: Printer, sizes: tuple[int, int], dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    given = torch.randint(0, 50, sizes[::-1], generator=draw).to(dtype)
    b = Builder()
    k = Lowering(b)
    x, y = buffer("x", *sizes, dtype=dtype, strides=(1, sizes[0])), buffer("y", *sizes)
    sums = k.elementwise(
        lambda v, w: b.apply("add", b.cast(v, torch.float32), b.cast(w, torch.float32)),
        [k.of_buffer(x), k.of_buffer(y)],
    )
    most = k.reduce("max", sums, [1], keepdim=True)
    both = k.elementwise(lambda v, m: b.apply("sub", v, m), [sums, most])
    definition = Definition(buffer("out", *sizes), both.axes, both.value)
    memory = {x: given.t(), y: torch.randint(0, 9, sizes, generator=draw).float()}
    printer.check(b, [definition], memory, tolerance=0)


@each_printer
def test_turned_loads_of_different_sizes(printer: Printer) -> None:
    """Each fills a cache line with as many iterations as the others: those of the narrowest."""
    b = Builder()
    i, j = b.axes((33, 16))
    dtypes = (torch.int16, torch.int64, torch.uint8)
    loaded = [buffer(f"x{k}", 33, 16, dtype=d, strides=(1, 33)) for k, d in enumerate(dtypes)]
    definitions = [
        Definition(buffer(f"out{k}", 33, 16, dtype=each.dtype), (i, j), b.load(each, (i, j)))
        for k, each in enumerate(loaded)
    ]
    memory = {each: torch.arange(528).to(each.dtype).view(16, 33).t() for each in loaded}
    printer.check(b, definitions, memory)
