"""Random programs of definitions: fused, in normal form, they are what they were one by one."""

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from jitpkg.codegen.fusion.groups import Limits, fuse
from jitpkg.codegen.fusion.items import Opaque
from jitpkg.codegen.fusion.kernel import Compute, Kernel, Loop, Statement, Write
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normaliser
from jitpkg.codegen.fusion.statements import statements
from jitpkg.codegen.ir import interpreter, legality
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import (
    Axis,
    Buffer,
    Const,
    Definition,
    Node,
    Reduce,
    below,
    operands,
    written,
)
from jitpkg.codegen.lowering.table import Lowering, Tensor
from jitpkg.facts.tensor import contiguous_stride
from tests.codegen.examples import examples

F32 = torch.float32


class Program:
    """Definitions in order, by random choice."""

    def __init__(self, draw: st.DataObject, sizes: tuple[int, ...]) -> None:
        self.b = Builder()
        self.k = Lowering(self.b)
        self.draw = draw
        self.inputs = [
            Buffer("x", F32, sizes, contiguous_stride(sizes)),
            Buffer("t", F32, sizes, tuple(reversed(contiguous_stride(tuple(reversed(sizes)))))),
            Buffer("row", F32, sizes[-1:], (1,)),
            Buffer("one", F32, (), ()),
            Buffer("two", F32, (), ()),
        ]
        self.known: list[Buffer] = list(self.inputs)
        self.items: list[Definition] = []

    def pick(self) -> Tensor:
        return self.k.of_buffer(self.draw.draw(st.sampled_from(self.known)))

    def add(self, made: Tensor) -> None:
        buffer = Buffer(
            f"v{len(self.items)}", made.dtype, made.sizes, contiguous_stride(made.sizes)
        )
        definition = Definition(buffer, made.axes, made.value)
        legality.check(definition)
        self.items.append(definition)
        self.known.append(buffer)

    def step(self) -> None:
        b, k = self.b, self.k
        x = self.pick()
        match self.draw.draw(
            st.sampled_from(["tanh", "two", "sum", "max", "norm", "view", "shift", "many"])
        ):
            case "tanh":
                self.add(k.elementwise(lambda v: b.apply("tanh", v), [x]))
            case "two":
                y = self.pick()
                shapes = [x.sizes, y.sizes]
                try:
                    torch.broadcast_shapes(*shapes)
                except RuntimeError:
                    return
                self.add(k.elementwise(lambda v, w: b.apply("sub", v, w), [x, y]))
            case ("sum" | "max") as op if x.rank:
                dims = self.draw.draw(
                    st.sets(st.integers(0, x.rank - 1), min_size=1, max_size=x.rank)
                )
                keep = self.draw.draw(st.booleans())
                if op == "max" and 0 in x.sizes:
                    return
                self.add(k.reduce(op, x, sorted(dims), keepdim=keep))
            case "norm" if x.rank:
                dims = sorted(self.draw.draw(st.sets(st.integers(0, x.rank - 1), min_size=1)))
                total = k.reduce("sum", x, dims, keepdim=True)
                self.add(k.elementwise(lambda v, t: b.apply("sub", v, t), [x, total]))
                self.add(k.reduce("sum", x, dims))
            case "view" if x.rank == 2:
                self.add(k.tensor(x.sizes[::-1], x.dtype, lambda i, j: x.at(j, i)))
            case "shift" if x.rank >= 1 and x.sizes[-1] > 1:
                size = x.sizes[-1]

                def shifted(*index: Node) -> Node:
                    at = b.apply("mod", b.apply("add", index[-1], b.index(1)), b.index(size))
                    return x.at(*index[:-1], at)

                self.add(k.tensor(x.sizes, x.dtype, shifted))
            case "many" if x.rank == 2 and x.sizes[0] * x.sizes[1]:
                flat = x.sizes[0] * x.sizes[1]
                by = b.index(x.sizes[1])
                self.add(
                    k.tensor(
                        (flat,),
                        x.dtype,
                        lambda i: x.at(b.apply("floordiv", i, by), b.apply("mod", i, by)),
                    )
                )
            case _:
                pass


@examples(150)
@given(
    draw=st.data(),
    sizes=st.sampled_from([(3, 4), (2, 3, 4), (1, 5), (4, 1), (0, 3), (7,)]),
    steps=st.integers(1, 12),
    nodes=st.sampled_from([6, 20, 400]),
)
def test_fused_is_the_same(
    draw: st.DataObject, sizes: tuple[int, ...], steps: int, nodes: int
) -> None:
    program = Program(draw, sizes)
    for _ in range(steps):
        program.step()
    if not program.items:
        return
    made = [item.buffer for item in program.items]
    kept = {made[-1], *draw.draw(st.lists(st.sampled_from(made), max_size=3))}
    asked = draw.draw(st.lists(st.sampled_from(made), max_size=2))
    items = [*program.items, *(Opaque((buffer,), (), None) for buffer in asked)]

    memory = {
        buffer: torch.randn(buffer.sizes).as_strided(buffer.sizes, buffer.strides)
        for buffer in program.inputs
    }
    whole = dict(memory)
    for item in program.items:
        whole[item.buffer] = interpreter.evaluate(item, whole)

    most, reads = nodes * draw.draw(st.sampled_from([1, 3])), draw.draw(st.integers(1, 8))
    limits = Limits(nodes=nodes, most=most, reads=reads, deep=draw.draw(st.integers(1, 4)))
    steps_made = fuse(items, kept, program.b, limits)
    for step in steps_made:
        if isinstance(step, Opaque):
            for buffer in step.reads:
                torch.testing.assert_close(memory[buffer], whole[buffer])
            continue
        assert all(buffer in memory for buffer in step.inputs)
        for buffer in step.outputs:
            memory[buffer] = torch.full(buffer.sizes, float("nan"))
        run_normal(step, program.b, memory)
    for buffer in kept:
        torch.testing.assert_close(memory[buffer], whole[buffer])


def fused(
    items: Sequence[Definition], b: Builder, kept: Sequence[Definition] | None = None
) -> list[Kernel]:
    """What becomes of definitions of which some are asked for, or all."""
    made = fuse(items, [item.buffer for item in (items if kept is None else kept)], b)
    kernels = [step for step in made if isinstance(step, Kernel)]
    assert len(kernels) == len(made)
    return kernels


def named(name: str, made: Tensor) -> Definition:
    buffer = Buffer(name, made.dtype, made.sizes, contiguous_stride(made.sizes))
    return Definition(buffer, made.axes, made.value)


@pytest.mark.parametrize("is_result_first", [True, False])
@pytest.mark.parametrize("sizes", [(2, 3, 4), (3, 3, 4), (4, 3, 3), (1, 3, 4), (2, 1, 4)])
def test_a_norm_and_its_statistics_are_one_kernel(
    sizes: tuple[int, ...], is_result_first: bool
) -> None:
    """The mean is another tensor than the one in the result's formula, along another dim."""
    b = Builder()
    k = Lowering(b)
    x = k.of_buffer(Buffer("x", F32, sizes, contiguous_stride(sizes)))
    total = k.reduce("sum", x, [0, 2], keepdim=True)
    result = named("result", k.elementwise(lambda v, t: b.apply("sub", v, t), [x, total]))
    mean = named("mean", k.reduce("sum", x, [0, 2]))
    items = [result, mean] if is_result_first else [mean, result]
    assert len(fused(items, b)) == 1


def test_folds_of_other_rows_are_kernels_of_their_own() -> None:
    b = Builder()
    k = Lowering(b)
    x = k.of_buffer(Buffer("x", F32, (3, 3), (3, 1)))
    total = k.reduce("sum", x, [1], keepdim=True)
    result = named("result", k.elementwise(lambda v, t: b.apply("sub", v, t), [x, total]))
    assert len(fused([result, named("columns", k.reduce("sum", x, [0]))], b)) == 2


def test_rows_that_one_fold_reads_are_not_stored_beside_others() -> None:
    """They go into the fold, though another kernel folds the same rows."""
    b = Builder()
    k = Lowering(b)
    x = k.of_buffer(Buffer("x", F32, (3, 4), (4, 1)))
    most = named("most", k.reduce("max", x, [1]))
    total = k.reduce("sum", x, [1], keepdim=True)
    rows = named("rows", k.elementwise(lambda v, t: b.apply("sub", v, t), [x, total]))
    made = k.of_buffer(rows.buffer)
    picked = named(
        "picked", k.reduce("sum", k.tensor((3,), F32, lambda i: made.at(i, b.index(0))), [0])
    )
    kernels = fused([most, rows, picked], b, kept=[most, picked])
    assert [{each.name for each in kernel.outputs} for kernel in kernels] == [{"most"}, {"picked"}]


def test_a_cheap_sum_of_views_is_computed_again_for_each_reader() -> None:
    """A gradient is the sum of two, one of them a product's result of another shape."""
    b = Builder()
    k = Lowering(b)
    x = k.of_buffer(Buffer("x", F32, (2, 3, 4), (12, 4, 1)))
    flat = k.of_buffer(Buffer("flat", F32, (6, 4), (4, 1)))
    turned = k.tensor(
        (2, 3, 4),
        F32,
        lambda i, j, n: flat.at(b.apply("add", b.apply("mul", i, b.index(3)), j), n),
    )
    view = named("view", turned)
    total = named(
        "total",
        k.elementwise(lambda v, w: b.apply("add", v, w), [x, k.of_buffer(view.buffer)]),
    )
    of_rows = named("rows", k.reduce("sum", k.of_buffer(total.buffer), [2]))
    of_columns = named("columns", k.reduce("sum", k.of_buffer(total.buffer), [0, 1]))
    kernels = fused([view, total, of_rows, of_columns], b, kept=[of_rows, of_columns])
    assert [len(kernel.outputs) for kernel in kernels] == [1, 1]


def test_single_elements_are_one_kernel() -> None:
    """Counters of steps, of which each layer has one."""
    b = Builder()
    k = Lowering(b)
    items = []
    for n in range(8):
        x = k.of_buffer(Buffer(f"x{n}", torch.int64, (), ()))
        row = k.of_buffer(Buffer(f"row{n}", F32, (4,), (1,)))
        items.append(named(f"next{n}", k.elementwise(lambda v: b.apply("neg", v), [x])))
        items.append(named(f"done{n}", k.elementwise(lambda v: b.apply("tanh", v), [row])))
        items.append(named(f"sum{n}", k.reduce("sum", row, [0])))
    kernels = fused(items, b)
    assert sum("next" in each.name for each in kernels) == 1


def norms(b: Builder, count: int, dims: Sequence[int], folds: int) -> list[Definition]:
    """Each is of the one before, by `folds` that depend on one another."""
    k = Lowering(b)
    x = k.of_buffer(Buffer("x", F32, (3, 4), (4, 1)))
    items: list[Definition] = []
    for n in range(count):
        for m in range(folds):
            rows = named(f"rows{n}_{m}", k.reduce("sum", x, dims, keepdim=True))
            total = k.of_buffer(rows.buffer)
            made = k.elementwise(lambda v, t: b.apply("tanh", b.apply("sub", v, t)), [x, total])
            items += [rows, named(f"x{n}_{m}", made)]
            x = k.of_buffer(items[-1].buffer)
    return items


def deepest(kernel: Kernel) -> int:
    """How many folds of a kernel need one another."""
    depth: dict[Node, int] = {}
    for node in below(*written(kernel.stores)):
        inner = max((depth[each] for each in operands(node)), default=0)
        depth[node] = inner + isinstance(node, Reduce)
    return max(depth.values())


@pytest.mark.parametrize("dims", [[1], [0], [0, 1]])
@pytest.mark.parametrize("folds", [1, 2])
def test_kernels_of_norms_in_a_row_do_not_grow_with_the_row(dims: list[int], folds: int) -> None:
    """What a fold takes stands in each that is inside of it: the work would grow by the square."""

    def work(count: int) -> int:
        b = Builder()
        items = norms(b, count, dims, folds)
        kernels = fused(items, b, kept=items[-1:])
        assert max(map(deepest, kernels)) <= Limits().deep
        return sum(
            len(statement.nodes)
            for kernel in kernels
            for statement in statements(schedule(Normaliser(b).normal(kernel).kernel, b).body)
            if isinstance(statement, Compute)
        )

    assert work(32) <= 2.2 * work(16)


def run_normal(kernel: Kernel, b: Builder, memory: dict[Buffer, torch.Tensor]) -> None:
    normal = Normaliser(b).normal(kernel)
    for store in normal.kernel.stores:
        legality.check_store(store, normal.kernel.axes)
    flat = {}
    given = (*normal.inputs, *normal.outputs)
    lines = (*normal.kernel.inputs, *normal.kernel.outputs)
    for buffer, line in zip(given, lines, strict=True):
        flat[line] = memory[buffer].as_strided(line.sizes, (1,))
    interpreter.run_stores(normal.kernel.stores, normal.kernel.axes, flat)
    check_schedule(schedule(normal.kernel, b).body, frozenset())


def check_schedule(body: tuple[Statement, ...], known: frozenset[Node]) -> frozenset[Node]:
    """Everything is computed before it is used."""
    for statement in body:
        match statement:
            case Compute(nodes=nodes):
                for node in nodes:
                    for used in operands(node):
                        assert used in known or isinstance(used, Const), (node, used)
                    known |= {node}
            case Loop(axis=axis, body=inner, folds=folds, scans=scans):
                inside = check_schedule(inner, known | {axis} | frozenset(scans))
                for fold in folds:
                    if fold.over[-1] is axis:
                        assert fold.value in inside or isinstance(fold.value, Const)
                known |= {fold for fold in folds if fold.over[0] is axis}
            case Write(store=store):
                for node in (*store.index, store.value):
                    assert node in known or isinstance(node, Const | Axis)
    return known
