"""Every scalar op and cast for every dtype, on ordinary and on odd numbers."""

from __future__ import annotations

import itertools

import pytest
import torch

from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.math import OWN
from jitpkg.codegen.cpu.sleef import SLEEF
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Definition
from tests.codegen.cpu.support import buffer, host, needs_llvm
from tests.codegen.printers import CPU, Printer, each_printer

COUNT = 333
ODD = (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -1.0, 0.5, -0.5, 2.0)
ODD += (1e-40, -1e-40, 1e-45, 89.0, -104.0, 88.7, 3.4e38, -3.4e38)

TWO = frozenset({"atan2", "pow", "hypot", "fmod"})
"""Functions of two numbers."""


def numbers(dtype: torch.dtype, seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, (COUNT,), generator=draw).bool()
    if dtype.is_floating_point:
        sizes = torch.exp(3 * torch.randn(COUNT, generator=draw))
        found = (torch.randn(COUNT, generator=draw) * sizes).to(dtype)
        odd = torch.tensor(ODD, dtype=dtype)[torch.randperm(len(ODD), generator=draw)]
        found[: len(ODD)] = odd
        return found
    ends = torch.iinfo(dtype)
    low, high = max(ends.min, -(2**62)), min(ends.max, 2**62)
    wide = torch.randint(low, high, (COUNT,), generator=draw).to(dtype)
    small = torch.randint(-6, 7, (COUNT,), generator=draw).to(dtype)
    found = torch.where(torch.rand(COUNT, generator=draw) < 0.5, wide, small)
    found[:2] = torch.tensor([ends.min, ends.max], dtype=dtype)
    return found


def operands(op: str, dtypes: tuple[torch.dtype, ...]) -> list[torch.Tensor]:
    """Those that the op is defined for."""
    found = [numbers(dtype, 5 + k) for k, dtype in enumerate(dtypes)]
    dtype = dtypes[-1]
    if op in ("shl", "shr"):
        found[1] = (found[1].to(torch.int64) % (8 * dtype.itemsize)).to(dtype)
    if op in ("truncdiv", "floordiv", "mod", "fmod") and not dtype.is_floating_point:
        found[1] = torch.where(found[1] == 0, torch.ones((), dtype=dtype), found[1])
        if dtype is not torch.uint8:
            overflows = (found[1] == -1) & (found[0] == torch.iinfo(dtype).min)
            found[0] = torch.where(overflows, torch.zeros((), dtype=dtype), found[0])
    return found


def signatures(op: str) -> list[tuple[torch.dtype, ...]]:
    row = ops.OPS[op]
    dtypes = sorted(ops.EVERY, key=str)
    found = [(d,) * n for d, n in itertools.product(dtypes, (1, 2))]
    found += [(torch.bool, dtype, dtype) for dtype in dtypes]
    return [each for each in found if row.signature(each) is not None]


def by_kernel(
    op: str,
    given: list[torch.Tensor],
    to: torch.dtype | None = None,
    on: Host | None = None,
    printer: Printer = CPU,
) -> torch.Tensor:
    builder = Builder()
    (axis,) = builder.axes([given[0].numel()])
    buffers = [buffer(f"x{k}", t.numel(), dtype=t.dtype) for k, t in enumerate(given)]
    loads = [builder.load(each, [axis]) for each in buffers]
    value = builder.apply(op, *loads) if to is None else builder.cast(loads[0], to)
    out = buffer("out", axis.extent, dtype=value.dtype)
    memory = dict(zip(buffers, given, strict=True))
    definition = Definition(out, (axis,), value)
    return printer.computed(builder, [definition], memory, on)[0]


def ordered(values: torch.Tensor) -> torch.Tensor:
    """Neighbouring floats as neighbouring integers."""
    bits = values.view(torch.int32 if values.dtype is torch.float32 else torch.int64)
    bits = bits.to(torch.int64)
    least = -(2**31) if values.dtype is torch.float32 else -(2**63)
    return torch.where(bits < 0, least - bits, bits)


def assert_near(found: torch.Tensor, exact: torch.Tensor, given: list[torch.Tensor]) -> None:
    """Within 2 ulp, with NaNs, infinities and zeros as they should be."""
    wanted = exact.to(found.dtype)
    same = found.isnan() & wanted.isnan()
    far = (ordered(found) - ordered(wanted)).abs() > 2
    signs = (wanted == 0) & (found.signbit() != wanted.signbit())
    wrong = ~same & (far | signs | (found.isnan() != wanted.isnan()))
    rows = [*given, found, wanted]
    shown = [[t[k].item() for t in rows] for k in wrong.nonzero().flatten()[:5].tolist()]
    assert not shown, f"operands, found, wanted: {shown}"


@each_printer
@pytest.mark.parametrize("op", ops.OPS)
def test_op_is_what_the_table_says(printer: Printer, op: str) -> None:
    for dtypes in signatures(op):
        given = operands(op, dtypes)
        found = by_kernel(op, given, printer=printer)
        if dtypes[-1] in ops.FLOATS and found.dtype in ops.FLOATS and op != "where":
            wide = [t.double() for t in given]
            assert_near(found, ops.OPS[op].reference(*wide), given)
        else:
            wanted = ops.OPS[op].reference(*given)
            assert torch.equal(torch.nan_to_num(found), torch.nan_to_num(wanted)), dtypes


@each_printer
@pytest.mark.parametrize("dtype", sorted(ops.EVERY, key=str), ids=str)
def test_casts(printer: Printer, dtype: torch.dtype) -> None:
    for to in sorted(ops.EVERY - {dtype}, key=str):
        given = numbers(dtype, 3)
        if dtype.is_floating_point and not to.is_floating_point and to is not torch.bool:
            low = 0 if to is torch.uint8 else -100
            given = torch.nan_to_num(given.double(), 0, 0, 0).clamp(low, 100).to(dtype)
        found, wanted = by_kernel("cast", [given], to, printer=printer), given.to(to)
        assert torch.equal(found.isnan(), wanted.isnan()), to
        assert torch.equal(torch.nan_to_num(found.double()), torch.nan_to_num(wanted.double())), to


@each_printer
@pytest.mark.parametrize("op", ["atan2", "pow", "hypot", "fmod", "div"])
def test_two_odd_numbers(printer: Printer, op: str) -> None:
    odd = torch.tensor(ODD)
    given = [odd.repeat_interleave(len(odd)), odd.repeat(len(odd))]
    exact = ops.OPS[op].reference(*(t.double() for t in given))
    assert_near(by_kernel(op, given, printer=printer), exact, given)


@needs_llvm
@pytest.mark.parametrize("op", OWN)
def test_no_function_makes_a_nan_that_rounding_would_overflow(op: str) -> None:
    """See `low_half`: of operands that bfloat16 holds, NaNs have an empty low half."""
    numbers = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
    given = [numbers, numbers.roll(4099).flip(0)] if op in TWO else [numbers]
    for bits in {256, host().bits}:
        found = by_kernel(op, given, on=Host(bits))
        lows = found[found.isnan()].view(torch.int32) & 0xFFFF
        assert len(lows) > 0
        assert not lows.any()


@needs_llvm
@pytest.mark.parametrize("op", SLEEF)
def test_function_on_random_bits(op: str) -> None:
    draw = torch.Generator().manual_seed(1)
    bits = torch.randint(-(2**31), 2**31 - 1, (50_000,), generator=draw).to(torch.int32)
    given = [torch.cat([bits.view(torch.float32), 4 * torch.randn(50_000, generator=draw)])]
    if op in TWO:
        given.append(given[0].roll(7).flip(0))
    exact = ops.OPS[op].reference(*(t.double() for t in given))
    assert_near(by_kernel(op, given), exact, given)


@needs_llvm
@pytest.mark.parametrize("op", ["exp", "tanh", "erf", "log", "sinh", "cosh"])
@pytest.mark.parametrize("bits", [256, 512])
def test_function_at_all_scales(op: str, bits: int) -> None:
    if host().bits < bits:
        pytest.skip("the vectors of this machine are narrow")
    positive = torch.arange(0, 0x7F800000, 6007, dtype=torch.int32).view(torch.float32)
    ends = torch.arange(4096) * (33 / 1024)  # where one interval of a table begins, and others
    near = [torch.nextafter(ends, torch.tensor(to)) for to in (-1.0, 1e9)]
    positive = torch.cat([positive, ends, *near])
    given = [torch.cat([positive, -positive])]
    exact = ops.OPS[op].reference(given[0].double())
    assert_near(by_kernel(op, given, on=Host(bits)), exact, given)


@needs_llvm
@pytest.mark.parametrize("op", ["erf", "tanh"])
def test_functions_of_large_numbers_are_one(op: str) -> None:
    """What gelu multiplies by the difference from 1 may be large."""
    x = torch.linspace(9.5, 200, 333)
    assert torch.equal(by_kernel(op, [x]), torch.ones_like(x))


@needs_llvm
@pytest.mark.parametrize("op", ["sin", "add", "maximum", "round"])
def test_narrower_vectors(op: str) -> None:
    if host().bits < 512:
        pytest.skip("the vectors of this machine are narrow")
    dtypes = signatures(op)[0]
    given = operands(op, dtypes)
    found, narrow = by_kernel(op, given), by_kernel(op, given, on=Host(256))
    assert torch.equal(torch.nan_to_num(found), torch.nan_to_num(narrow))


@each_printer
@pytest.mark.parametrize("dtype", sorted(ops.INTEGERS, key=str), ids=str)
@pytest.mark.parametrize("op", ["truncdiv", "floordiv", "mod", "fmod"])
def test_division_by_zero_does_not_trap(printer: Printer, op: str, dtype: torch.dtype) -> None:
    least = torch.iinfo(dtype).min
    for count in (1, 40):
        x = torch.tensor([least, 5], dtype=dtype).repeat(count)[: 2 * count - 1]
        y = torch.tensor([-1, 0], dtype=torch.int64).to(dtype).repeat(count)[: 2 * count - 1]
        by_kernel(op, [x, y], printer=printer)
        by_kernel(op, [y, x], printer=printer)


@each_printer
def test_numbers_are_as_wide_as_the_values_beside_them(printer: Printer) -> None:
    """Python numbers alone would be a float32 and an int32 to Triton."""
    b = Builder()
    x = buffer("x", 4, dtype=torch.float64)
    (axis,) = b.axes((4,))
    value = b.load(x, [axis])
    reaches = b.apply("ge", value, b.const(0.1, torch.float64))
    large = b.where(reaches, b.const(50_000, torch.int64), b.const(-3, torch.int64))
    square = Definition(
        buffer("square", 4, dtype=torch.int64), (axis,), b.apply("mul", large, large)
    )
    given = torch.tensor([0.1, 0.2, -1.0, 0.0], dtype=torch.float64)
    found = printer.computed(b, [square], {x: given})
    assert found[0].tolist() == [2_500_000_000, 2_500_000_000, 9, 9]
