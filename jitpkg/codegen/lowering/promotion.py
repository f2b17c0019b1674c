"""Which dtype the operands of an op have in common: what `torch.result_type` says, without tensors.

Follows `update_result_type_state` and `combine_categories` of ATen/native/TypeProperties.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import Symbolic


class _Sized(Protocol):
    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def rank(self) -> int: ...


def promoted(operands: Iterable[_Sized | bool | int | float]) -> torch.dtype:
    """The common dtype of tensors and numbers: tensors with dims go before those without, and those
    before numbers; what goes behind counts only where it is of a higher kind."""
    found: list[torch.dtype | None] = [None, None, None]
    for x in operands:
        place, dtype = _seen(x)
        known = found[place]
        found[place] = dtype if known is None else torch.promote_types(known, dtype)
    common = _joined(found[0], _joined(found[1], found[2]))
    assert common is not None, "no operands"
    return common


def _seen(x: _Sized | bool | int | float) -> tuple[int, torch.dtype]:
    match x:
        case bool():
            return 2, torch.bool
        case int() | Symbolic():
            return 2, torch.int64
        case float():
            return 2, torch.get_default_dtype()
        case _:
            return (0 if x.rank else 1), x.dtype


def _joined(first: torch.dtype | None, second: torch.dtype | None) -> torch.dtype | None:
    if first is None or second is None:
        return first if second is None else second
    if first.is_floating_point:
        return first
    if first is torch.bool or second.is_floating_point:
        return torch.promote_types(first, second)
    return first


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """In which dtype arithmetic on this one is done."""
    return torch.float32 if dtype in ops.NARROW else dtype


def as_float(dtype: torch.dtype) -> torch.dtype:
    """What a function of reals makes of a dtype: integers become the default one."""
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def summed_in(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a sum or product: integers become int64."""
    return dtype if dtype.is_floating_point else torch.int64
