"""What is known of how far from 0 values are, and what is printed once only."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jitpkg.codegen.cpu.angles import FAR, NEAR
from jitpkg.codegen.cpu.arithmetic import Arithmetic, Writer
from jitpkg.codegen.cpu.bounds import _INTEGERS, _RESULTS, bound
from jitpkg.codegen.cpu.printer import llvm_of
from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Definition, Node, Store
from tests.codegen.cpu.support import buffer, check, host, needs_llvm
from tests.codegen.cpu.test_scalar_ops import ODD

NUMBERS = torch.tensor([*ODD, 1e4, -65535.0, 65537.0, 1e30, 3.0, -7.25, 0.785, 1.57, 3.14159])

UNARY = sorted(op for op in _RESULTS if op != "atan2")
OPS = [*UNARY, "neg", "abs", "atan2", "add", "sub", "mul", "maximum", "minimum", "where", "const"]
OPS += [*("sqrt", "exp"), *_INTEGERS]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(OPS), *[st.integers(0, 10**6)] * 2), max_size=12))
def test_no_value_is_farther_from_zero(steps: list[tuple[Any, int, int]]) -> None:
    b = Builder()
    (i,) = b.axes((len(NUMBERS),))
    nodes: list[Node] = [b.load(buffer("x", len(NUMBERS)), (i,))]
    values, known = [NUMBERS], {}
    for op, one, other in steps:
        at = one % len(nodes), other % len(nodes)
        args, given_ = [nodes[k] for k in at], [values[k] for k in at]
        if op == "const":
            number = float(NUMBERS[one % len(NUMBERS)])
            node, value = b.const(number, torch.float32), torch.full_like(NUMBERS, number)
        elif op in _INTEGERS:
            whole = given_[0].nan_to_num(0, 9e4, -9e4).to(torch.int32).to(op)
            source = b.load(buffer("n", len(NUMBERS), dtype=op), (i,))
            node, value = b.cast(source, torch.float32), whole.float()
        elif op == "where":
            test = b.apply("lt", *args)
            node, value = b.apply(op, test, *args), torch.where(given_[0] < given_[1], *given_)
        else:
            count = 2 if op in ("atan2", "add", "sub", "mul", "maximum", "minimum") else 1
            node, value = b.apply(op, *args[:count]), ops.OPS[op].reference(*given_[:count])
        known[node] = bound(node, known)
        nodes.append(node)
        values.append(value)
        assert not (value.abs() > known[node]).any(), (op, known[node], value)


@needs_llvm
@pytest.mark.parametrize("op", sorted(NEAR))
@pytest.mark.parametrize(
    ("dtype", "factor", "looks"),
    [
        (torch.float32, 1.0, True),
        (torch.int16, 1.5, False),
        (torch.int16, 3.0, True),
        (torch.int32, 0.001, True),
        (torch.bool, FAR - 1, False),
    ],
)
def test_what_is_near_is_not_looked_at(
    op: str, dtype: torch.dtype, factor: float, looks: bool
) -> None:
    b = Builder()
    (i,) = b.axes((1000,))
    x = buffer("x", 1000, dtype=dtype)
    value = b.load(x, (i,))
    if dtype is not torch.float32:
        value = b.cast(value, torch.float32)
    value = b.apply(op, b.apply("mul", value, b.const(factor, torch.float32)))
    out = buffer("out", 1000)
    kernel = kernel_of("k", [Store(out, (i,), value)])
    text = llvm_of(schedule(kernel, b), host())
    assert ("\nrare." in text) is looks
    numbers = torch.randn(1000) * 10.0 ** torch.randint(-3, 5, (1000,))
    if dtype is torch.float32:
        numbers[: len(NUMBERS)] = NUMBERS
    numbers = numbers.clamp(-32768, 32767) if dtype is torch.int16 else numbers
    check(b, [Definition(out, (i,), value)], {x: numbers.to(dtype)})


def test_an_instruction_is_printed_once_where_its_result_is_known() -> None:
    w = Writer()
    f = Arithmetic(w, torch.float32, 4, 512)
    one = f.add("%x", "%y")
    assert f.add("%x", "%y") == one
    assert f.add("%y", "%x") != one

    def otherwise() -> str:
        inner = f.mul("%x", "%y")
        assert f.add("%x", "%y") != one  # that block has its own; the other's would do
        return inner

    found = f.rarely("%c", one, otherwise)
    assert found != one
    assert f.add("%x", "%y") == one
    lines = len(w.lines)
    f.mul("%x", "%y")  # what was computed aside is not known here
    assert len(w.lines) == lines + 1
    w.label("loop.1")
    assert f.add("%x", "%y") != one
