"""Tensors out of numbers and positions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import INDEX
from jitpkg.codegen.ir.extents import varies
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.table import (
    Lowering,
    Row,
    Scalar,
    Tensor,
    dim_of,
    named,
    require,
)


def asked_dtype(k: Lowering, given: Mapping[str, Any], default: torch.dtype) -> torch.dtype:
    """The dtype that is asked for. The device must be the one that kernels are made for."""
    layout, device = given.get("layout"), given.get("device")
    require(layout in (None, torch.strided), f"{layout}")
    require(device is None or torch.device(device) == k.device, "another device")
    require(not given.get("pin_memory"), "pinned memory")
    asked: torch.dtype | None = given.get("dtype")
    dtype = default if asked is None else asked
    require(dtype in ops.EVERY, f"{dtype} is left to ATen")
    return dtype


def filled(k: Lowering, sizes: Sequence[int], value: Scalar, dtype: torch.dtype) -> Tensor:
    number = k.number(value, dtype)
    return k.define(sizes, dtype, lambda *_: number)


def _of_number(value: Scalar) -> torch.dtype:
    if isinstance(value, bool):
        return torch.bool
    is_int = isinstance(value, int) or varies(value)
    return torch.int64 if is_int else torch.get_default_dtype()


def _full(k: Lowering, sizes: Sequence[int], value: Scalar, **given: Any) -> Tensor:
    return filled(k, sizes, value, asked_dtype(k, given, _of_number(value)))


def _scalar_tensor(k: Lowering, value: Scalar, **given: Any) -> Tensor:
    return filled(k, (), value, asked_dtype(k, given, torch.get_default_dtype()))


def _of_sizes(value: Scalar) -> Row:
    def row(k: Lowering, sizes: Sequence[int], *_: Any, **given: Any) -> Tensor:
        return filled(k, sizes, value, asked_dtype(k, given, torch.get_default_dtype()))

    return row


def _like(value: Scalar) -> Row:
    def row(k: Lowering, x: Tensor, **given: Any) -> Tensor:
        return filled(k, x.sizes, value, asked_dtype(k, given, x.dtype))

    return row


def _new(value: Scalar) -> Row:
    def row(k: Lowering, x: Tensor, sizes: Sequence[int], *_: Any, **given: Any) -> Tensor:
        return filled(k, sizes, value, asked_dtype(k, given, x.dtype))

    return row


def _empty(row: Row) -> Row:
    """Of what is empty nobody may depend on what it holds, but where deterministic algorithms are
    asked for: then ATen may fill it."""

    def filled_or_not(k: Lowering, *args: Any, **given: Any) -> Any:
        require(not torch.are_deterministic_algorithms_enabled(), "what is empty may be filled")
        return row(k, *args, **given)

    return filled_or_not


def _strided(row: Row) -> Row:
    def checked(k: Lowering, *args: Any, **given: Any) -> Any:
        require(all(step >= 0 for step in args[-1]), "negative strides: they are refused")
        return row(k, *args, **given)

    return checked


def _full_like(k: Lowering, x: Tensor, value: Scalar, **given: Any) -> Tensor:
    return filled(k, x.sizes, value, asked_dtype(k, given, x.dtype))


def _new_full(k: Lowering, x: Tensor, sizes: Sequence[int], value: Scalar, **given: Any) -> Tensor:
    return filled(k, sizes, value, asked_dtype(k, given, x.dtype))


def _fill(k: Lowering, x: Tensor, value: Tensor | Scalar) -> Tensor:
    if not isinstance(value, Tensor):
        return filled(k, x.sizes, value, x.dtype)
    require(value.rank == 0, "a value with dims")
    return k.define(x.sizes, x.dtype, lambda *_: value.get())


def _arange(k: Lowering, end: Scalar, **given: Any) -> Tensor:
    return _arange_from(k, 0, end, 1, **given)


def _arange_from(k: Lowering, start: Scalar, end: Scalar, step: Scalar = 1, **given: Any) -> Tensor:
    numbers = (start, end, step)
    integers = all(isinstance(x, int) for x in numbers)
    require(step != 0 and all(math.isfinite(x) for x in numbers), "no such range")
    dtype = asked_dtype(k, given, torch.int64 if integers else torch.get_default_dtype())
    if integers:
        count = max(-((int(start) - int(end)) // int(step)), 0)
    else:
        require(dtype.is_floating_point, "integers from floats")
        count = max(math.ceil((end - start) / step), 0)
    wide = INDEX if integers and not dtype.is_floating_point else torch.float64

    def element(at: Expr) -> Expr:
        return at.cast(wide) * k.number(step, wide) + k.number(start, wide)

    return k.define([count], dtype, element)


def _linspace(k: Lowering, start: Scalar, end: Scalar, steps: int, **given: Any) -> Tensor:
    """From both ends to the middle, as ATen does it."""
    dtype = asked_dtype(k, given, torch.get_default_dtype())
    require(dtype in ops.FLOATS and steps >= 0, "no such range")
    step = (end - start) / max(steps - 1, 1)

    def element(at: Expr) -> Expr:
        from_start = at.cast(dtype) * step + start
        from_end = end - ((steps - 1) - at).cast(dtype) * step
        return (at < max(steps // 2, 1)).where(from_start, from_end)

    return k.define([steps], dtype, element)


def _eye(k: Lowering, n: int, *m: int, **given: Any) -> Tensor:
    dtype = asked_dtype(k, given, torch.get_default_dtype())
    return k.define([n, *(m or (n,))], dtype, lambda i, j: i.eq(j))


def _one_hot(k: Lowering, x: Tensor, classes: int = -1) -> Tensor:
    require(classes > 0 and x.dtype is torch.int64, "a number of classes that comes from data")

    def element(*at: Expr) -> Expr:
        return x.get(*at[:-1]).checked_from_zero(classes).eq(at[-1])

    return k.define([*x.sizes, classes], torch.int64, element)


def _diag_embed(k: Lowering, x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    rank = x.rank + 1
    dim1, dim2 = dim_of(dim1, rank), dim_of(dim2, rank)
    require(x.rank > 0 and dim1 != dim2, "one dim")
    kept = [d for d in range(rank) if d not in (dim1, dim2)]
    sizes = [x.sizes[-1] + abs(offset)] * rank
    for place, d in enumerate(kept):
        sizes[d] = x.sizes[place]

    def element(*at: Expr) -> Expr:
        on = (at[dim2] - at[dim1]).eq(offset)
        return x.get(*(at[d] for d in kept), at[dim1] - max(-offset, 0), where=on)

    return k.define(sizes, x.dtype, element)


ROWS: Mapping[str, Any] = named(
    {
        "full": _full,
        "scalar_tensor": _scalar_tensor,
        "zeros": _of_sizes(0),
        "empty.memory_format": _empty(_of_sizes(0)),
        "empty_strided": _strided(_empty(_of_sizes(0))),
        "ones": _of_sizes(1),
        "zeros_like": _like(0),
        "empty_like": _empty(_like(0)),
        "ones_like": _like(1),
        "new_zeros": _new(0),
        "new_empty": _empty(_new(0)),
        "new_empty_strided": _strided(_empty(_new(0))),
        "new_ones": _new(1),
        "full_like": _full_like,
        "new_full": _new_full,
        "fill": _fill,
        "zero": _like(0),
        "arange": _arange,
        "arange.start arange.start_step": _arange_from,
        "linspace": _linspace,
        "eye eye.m": _eye,
        "one_hot": _one_hot,
        "diag_embed": _diag_embed,
    }
)
