"""Running folds. One can be read along its own axis only: so it is a whole definition.

bfloat16, float16 and float32 run in float32, where ATen runs in float64 for the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from jitpkg.codegen.ir.builder import INDEX
from jitpkg.codegen.ir.nodes import Axis
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.promotion import computed_in, summed_in
from jitpkg.codegen.lowering.table import Lowering, Row, Tensor, dim_of, named, require


def running(k: Lowering, op: str, value: Expr, along: Expr) -> Expr:
    assert isinstance(along.node, Axis)
    return k.expr(k.builder.scan(op, value.node, along.node))


def _total(op: str) -> Row:
    def row(k: Lowering, x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
        dtype = summed_in(x.dtype) if dtype is None else dtype
        require(dtype is not torch.bool, "a sum of truths as one")
        dim = dim_of(dim, x.rank)
        if x.rank == 0 or x.numel == 0:
            return k.cast(x, dtype)
        wide = computed_in(dtype)

        def element(*at: Expr) -> Expr:
            return running(k, op, x.get(*at).cast(dtype).cast(wide), at[dim])

        return k.define(x.sizes, dtype, element)

    return row


def _extreme(op: str) -> Row:
    """The extreme so far, and where the last of those equal to it stands; a NaN is the most."""

    def row(k: Lowering, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        dim = dim_of(dim, x.rank)
        if x.rank == 0 or x.numel == 0:
            return x, k.define(x.sizes, INDEX, lambda *_: k.index(0))
        wide = computed_in(x.dtype)

        def best(at: tuple[Expr, ...]) -> Expr:
            return running(k, op, x.get(*at).cast(wide), at[dim])

        def place(*at: Expr) -> Expr:
            value, so_far = x.get(*at).cast(wide), best(at)
            is_new = value >= so_far if op == "max" else value <= so_far
            is_new = is_new | value.is_nan()
            return running(k, "max", is_new.where(at[dim], k.index(0)), at[dim])

        return k.define(x.sizes, x.dtype, lambda *at: best(at)), k.define(x.sizes, INDEX, place)

    return row


ROWS: Mapping[str, Any] = named(
    {
        "cumsum": _total("sum"),
        "cumprod": _total("prod"),
        "cummax": _extreme("max"),
        "cummin": _extreme("min"),
    }
)
