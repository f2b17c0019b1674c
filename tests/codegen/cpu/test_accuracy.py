"""How far functions of float32 are from the exact result, at all scales."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch

from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.math import OWN
from jitpkg.codegen.ir import ops
from tests.codegen.cpu import fitted
from tests.codegen.cpu.support import host, needs_llvm
from tests.codegen.cpu.test_scalar_ops import TWO, by_kernel

pytestmark = needs_llvm

DOCS = Path(__file__).parents[3] / "docs" / "backends.md"
STRIDE = 9973
"""Of so many neighbouring floats one is tried."""


def off(found: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """By how many units in the last place; infinite where one of them is NaN or infinite alone."""
    _, power = torch.frexp(exact.abs().clamp(min=2.0**-126))
    units = (found.double() - exact).abs() / torch.ldexp(torch.ones_like(exact), power - 24)
    same = (found == exact.float()) | (found.isnan() & exact.isnan())
    is_odd = ~torch.isfinite(exact.float())
    units = torch.where(units.isnan() | is_odd, torch.full_like(units, math.inf), units)
    return torch.where(same & is_odd, torch.zeros_like(units), units)


def floats(stride: int) -> torch.Tensor:
    positive = torch.arange(0, 0x7F800001, stride, dtype=torch.int32).view(torch.float32)
    ordinary = torch.linspace(0, 12, 40_000)
    return torch.cat([positive, -positive, ordinary, -ordinary])


def arguments(name: str) -> list[torch.Tensor]:
    """Of any two sizes, of about one size, and with a small second one."""
    x = floats(STRIDE)
    if name not in TWO:
        return [x]
    random = torch.rand(len(x), generator=torch.Generator().manual_seed(3))
    others = [x.roll(7).flip(0), x * (1 + random), 40 * (random - 0.5), (64 * random).round() - 32]
    return [x.repeat(len(others)), torch.cat(others)]


def stated() -> dict[str, float]:
    """The table of the documentation."""
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", DOCS.read_text(), re.MULTILINE)
    return {name: float(units) for name, units in rows}


def test_the_table_has_all_functions() -> None:
    assert set(stated()) == set(OWN)
    assert max(stated().values()) <= 2


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("name", OWN)
def test_no_result_is_farther_off_than_is_stated(name: str, bits: int) -> None:
    if host().bits < bits:
        pytest.skip("the vectors of this machine are narrow")
    given = arguments(name)
    exact = ops.OPS[name].reference(*(t.double() for t in given))
    units = off(by_kernel(name, given, on=Host(bits)), exact)
    worst = int(units.argmax())
    shown = f"{name}({', '.join(str(t[worst].item()) for t in given)})"
    assert units[worst] <= stated()[name], f"{shown}: {units[worst]:.2f}"


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_a_large_argument_changes_no_other_result(name: str) -> None:
    """What is large is computed in another way, for its own lane only."""
    usual = torch.linspace(-70_000, 70_000, 333)
    mixed = usual.clone()
    mixed[::5] = torch.tensor([1e6, -3e38, math.inf, math.nan]).repeat(17)[: len(mixed[::5])]
    found, alone = by_kernel(name, [mixed]), by_kernel(name, [usual])
    kept = torch.ones(333, dtype=torch.bool)
    kept[::5] = False
    assert torch.equal(found[kept], alone[kept])
    one = torch.cat([by_kernel(name, [mixed[k : k + 1]]) for k in range(0, 333, 37)])
    assert torch.equal(torch.nan_to_num(one, 7.0), torch.nan_to_num(found[::37], 7.0))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_no_wave_is_above_one(name: str) -> None:
    near = torch.arange(-200, 201)[:, None] * (math.pi / 2) + torch.linspace(-1e-3, 1e-3, 2001)
    assert by_kernel(name, [near.flatten().float()]).abs().max() <= 1.0


@pytest.mark.parametrize("name", fitted.FITS)
def test_factors_are_those_that_are_found(name: str) -> None:
    used, fit = fitted.FITS[name]
    found, error = fit(len(used))
    assert error < 2.0**-25
    assert found == pytest.approx(used, rel=0.05)
