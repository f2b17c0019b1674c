"""Norms with parameters of another dtype than their input: rows say what ATen returns."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.facts.rows import ROWS
from jitpkg.facts.rows.common import META, Unsure
from jitpkg.internals.ops import op_name

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
FORWARD = torch.ops.aten.native_layer_norm.default
BACKWARD = torch.ops.aten.native_layer_norm_backward.default


def by_row(op: Any, args: tuple[Any, ...]) -> Any:
    """What a row says; None where it is not sure."""
    given = [arg.to(META) if isinstance(arg, Tensor) else arg for arg in args]
    try:
        return ROWS[op_name(op)](op, given, {})
    except Unsure:
        return None


def check(op: Any, args: tuple[Any, ...]) -> Any:
    """Returns what the op returns, or None if it raises; then no row may say that it does not."""
    said = by_row(op, args)
    try:
        made = op(*args)
    except RuntimeError:
        assert said is None
        return None
    for real, row in zip(made, said or made, strict=True):
        assert (real is None) == (row is None)
        if real is not None:
            assert (real.dtype, real.shape) == (row.dtype, row.shape)
            assert real.stride() == row.stride()
    return made


@pytest.mark.parametrize("shape", [(4, 8), (2, 3, 8), (8,), (0, 8)])
@pytest.mark.parametrize("of_parameters", [None, *FLOATS])
@pytest.mark.parametrize("dtype", FLOATS)
def test_as_aten(
    dtype: torch.dtype, of_parameters: torch.dtype | None, shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape).to(dtype)
    parameter = None if of_parameters is None else torch.ones(8, dtype=of_parameters)
    for bias in (parameter, None):
        made = check(FORWARD, (x, [8], parameter, bias, 1e-5))
        if made is None:
            continue
        _, mean, scale = made
        for mask in itertools.product((True, False), repeat=3):
            if (mask[1] and parameter is None) or (mask[2] and bias is None):
                continue  # nobody asks for these
            check(BACKWARD, (x, x, [8], mean, scale, parameter, bias, list(mask)))


def test_what_autocast_gives_is_known() -> None:
    x, parameter = torch.randn(4, 8).bfloat16(), torch.ones(8)
    assert by_row(FORWARD, (x, [8], parameter, parameter, 1e-5)) is not None
    statistic = torch.ones(4, 1)
    mask = [True, True, True]
    given = (x, x, [8], statistic, statistic, parameter, parameter, mask)
    assert by_row(BACKWARD, given) is not None


@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 4), (2, 4, 3, 5), (0, 4, 3), (2, 4, 0)])
@pytest.mark.parametrize("of_parameters", [None, *FLOATS])
@pytest.mark.parametrize("dtype", FLOATS)
def test_group_norm_as_aten(
    dtype: torch.dtype, of_parameters: torch.dtype | None, shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape).to(dtype)
    parameter = None if of_parameters is None else torch.ones(4, dtype=of_parameters)
    inner = math.prod(shape[2:])
    op = torch.ops.aten.native_group_norm.default
    for bias, laid in itertools.product((parameter, None), (x, x.transpose(0, -1).contiguous())):
        given = laid.transpose(0, -1) if laid is not x else x
        for groups, channels in ((2, 4), (3, 4), (2, 3)):
            check(op, (given, parameter, bias, shape[0], channels, inner, groups, 1e-5))
