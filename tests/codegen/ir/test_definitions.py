"""A softmax, from loads to text, meaning and loops."""

from math import prod
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jitpkg.codegen.fusion.kernel import Kernel, Loop, Statement
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.ir import interpreter, legality
from jitpkg.codegen.ir.builder import Builder, IllegalNode
from jitpkg.codegen.ir.nodes import Apply, Buffer, Definition, Load, Node, Store
from jitpkg.codegen.ir.text import text_of
from jitpkg.codegen.lowering.table import Lowering
from jitpkg.codegen.lowering.views import view
from jitpkg.facts.tensor import contiguous_stride


def buffer(name: str, *sizes: int, dtype: torch.dtype = torch.float32) -> Buffer:
    return Buffer(name, dtype, sizes, contiguous_stride(sizes))


def softmax(b: Builder, x: Buffer, dim: int) -> Definition:
    k = Lowering(b)
    most = k.reduce("max", k.of_buffer(x), [dim], keepdim=True)
    powers = k.elementwise(
        lambda v, m: b.apply("exp", b.apply("sub", v, m)), [k.of_buffer(x), most]
    )
    total = k.reduce("sum", powers, [dim], keepdim=True)
    shares = k.elementwise(lambda e, s: b.apply("div", e, s), [powers, total])
    return Definition(buffer("out", *x.sizes), shares.axes, shares.value)


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_means_what_it_should(dim: int) -> None:
    b, x = Builder(), buffer("x", 5, 7)
    defined = softmax(b, x, dim)
    legality.check(defined)
    given = torch.randn(5, 7)
    torch.testing.assert_close(interpreter.evaluate(defined, {x: given}), given.softmax(dim))


def test_text() -> None:
    assert text_of(softmax(Builder(), buffer("x", 5, 7), 1)).splitlines() == [
        "    v0 = max(x[i, k] for k < 7)",
        "out[i, j] : float32[5, 7] = (exp((x[i, j] - v0)) / sum(exp((x[i, l] - v0)) for l < 7))",
    ]


def nest(statements: tuple[Statement, ...]) -> list[object]:
    """The loops only: extent, names of folds, what is inside."""
    return [
        (s.axis.extent, [fold.op for fold in s.folds], nest(s.body))
        for s in statements
        if isinstance(s, Loop)
    ]


def test_folds_stand_in_the_loop_over_rows_before_the_loop_over_columns() -> None:
    b, x = Builder(), buffer("x", 5, 7)
    defined = softmax(b, x, 1)
    store = Store(defined.buffer, defined.axes, defined.value)
    made = schedule(Kernel("k", defined.axes, (store,), (x,), (defined.buffer,)), b)
    assert nest(made.body) == [(5, [], [(7, ["max"], []), (7, ["sum"], []), (7, [], [])])]


def test_equal_nodes_are_one() -> None:
    b, x = Builder(), buffer("x", 4)
    (i,) = b.axes([4])
    one = b.apply("add", b.load(x, [i]), b.const(1.0, torch.float32))
    assert one is b.apply("add", b.load(x, [i]), b.const(1.0, torch.float32))
    assert b.const(0.0, torch.float32) is not b.const(-0.0, torch.float32)


def test_indices_have_one_form() -> None:
    b = Builder()
    i, j = b.axes([4, 6])

    def n(value: int) -> Node:
        return b.index(value)

    flat = b.apply("add", b.apply("mul", i, n(6)), j)
    assert flat is b.apply("add", j, b.apply("mul", n(6), i))
    assert b.apply("floordiv", flat, n(6)) is i
    assert b.apply("mod", flat, n(6)) is j
    assert b.apply("sub", flat, flat) is n(0)
    assert b.apply("lt", j, n(6)) is b.const(True, torch.bool)
    assert isinstance(b.apply("lt", j, n(5)), Apply)


@st.composite
def shapes(draw: st.DrawFn) -> list[list[int]]:
    """Shapes that one tensor can have in turn, a row first and last."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5]), min_size=1, max_size=4))
    row = [prod(factors)]
    made = [row]
    for _ in range(draw(st.integers(1, 3))):
        order = draw(st.permutations(factors))
        ends = sorted({*draw(st.lists(st.integers(1, len(order)), max_size=3)), len(order)})
        starts = [0, *ends[:-1]]
        made.append([prod(order[a:b]) for a, b in zip(starts, ends, strict=True)])
    return [*made, row]


@given(shapes())
def test_a_tensor_that_is_reshaped_back_is_read_in_a_row(turns: list[list[int]]) -> None:
    b = Builder()
    k = Lowering(b)
    x = k.of_buffer(buffer("x", *turns[0]))
    for sizes in turns[1:]:
        x = view(k, x, sizes)
    (axis,) = x.axes
    assert isinstance(x.value, Load)
    assert x.value.index == ((axis,) if axis.extent > 1 else (b.index(0),))


@given(
    st.lists(st.tuples(st.sampled_from(["floordiv", "mod"]), st.integers(1, 12)), max_size=4),
    st.lists(st.tuples(st.sampled_from(["floordiv", "mod"]), st.integers(1, 12)), max_size=4),
    st.integers(-6, 6),
    st.integers(-6, 6),
)
def test_quotients_and_remainders_in_one_form_are_the_same_numbers(
    some: list[tuple[str, int]], others: list[tuple[str, int]], factor: int, other: int
) -> None:
    b = Builder()
    axis = b.axis(200)
    numbers = torch.arange(200)
    total, expected = b.index(0), torch.zeros_like(numbers)
    for chain, times in ((some, factor), (others, other)):
        node, value = axis, numbers
        for op, by in chain:
            node = b.apply(op, node, b.index(by))
            value = value // by if op == "floordiv" else value % by
        total = b.apply("add", total, b.apply("mul", node, b.index(times)))
        expected = expected + value * times
    line = buffer("line", 200, dtype=torch.int64)
    found = interpreter.evaluate(Definition(line, (axis,), total), {})
    assert torch.equal(found, expected)


def test_division_of_data_that_may_have_wrapped_around_stays() -> None:
    b, x = Builder(), buffer("x", 4, dtype=torch.int64)
    (i,) = b.axes([4])
    times_two = b.apply("mul", b.load(x, [i]), b.index(2))
    assert b.apply("floordiv", times_two, b.index(2)) is not b.load(x, [i])


def test_what_the_table_lacks_is_refused() -> None:
    b, x = Builder(), buffer("x", 4, dtype=torch.bfloat16)
    (i,) = b.axes([4])
    with pytest.raises(IllegalNode, match=r"exp\(bfloat16\) is not in the table"):
        b.apply("exp", b.load(x, [i]))
    with pytest.raises(IllegalNode, match="2 indices for x, which has 1"):
        b.load(x, [i, i])


def test_value_that_depends_on_no_loop_is_refused() -> None:
    b, x = Builder(), buffer("x", 4)
    (i,) = b.axes([4])
    stray = b.axis(4)
    with pytest.raises(IllegalNode, match="an axis that nothing runs along"):
        legality.check(Definition(buffer("y", 4), (i,), b.load(x, [stray])))


class Counting(Builder):
    """Counts the nodes that substitutions make again."""

    rebuilt = 0

    def _rebuilt(self, *args: Any) -> Node:
        self.rebuilt += 1
        return super()._rebuilt(*args)


def test_a_substitution_goes_through_folds_in_folds_once() -> None:
    def steps(depth: int) -> int:
        b, x = Counting(), buffer("x", 4, 4)
        i, other = b.axis(4), b.axis(4)
        value = b.load(x, (i, i))
        for axis in [b.axis(4) for _ in range(depth)]:
            value = b.reduce("sum", b.apply("mul", b.load(x, (i, axis)), value), [axis])
        b.rebuilt = 0
        b.substitute(value, {i: other})
        return b.rebuilt

    assert steps(14) <= 2 * steps(7) + 2
