"""A softmax, from loads to text, meaning and loops."""

import pytest
import torch

from jitpkg.codegen.fusion.kernel import Kernel, Loop, Statement
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.ir import interpreter, legality
from jitpkg.codegen.ir.builder import Builder, IllegalNode
from jitpkg.codegen.ir.nodes import Apply, Buffer, Definition, Node, Store
from jitpkg.codegen.ir.text import text_of
from jitpkg.codegen.lowering.table import Lowering
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
