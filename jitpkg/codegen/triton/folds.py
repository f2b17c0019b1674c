"""Folds and running folds: what they start with, how they go on, and how a tile becomes a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.triton.dims import Dim
from jitpkg.codegen.triton.frame import Frame
from jitpkg.codegen.triton.scalar_ops import TYPES, literal, rows

_AS_INTEGER: Mapping[torch.dtype, torch.dtype] = MappingProxyType({torch.bool: torch.int32})
"""Bools are folded as these where it is their order or number that counts."""

LAST = {"tl.int32": (1 << 31) - 1, "tl.int64": (1 << 63) - 1}
"""The position of nothing."""


def held(op: str, dtype: torch.dtype) -> torch.dtype:
    """What a fold of such values is computed in."""
    return dtype if op in ("any", "all") else _AS_INTEGER.get(dtype, dtype)


def start(op: str, dtype: torch.dtype) -> str:
    """What changes no result, as a literal of what the fold is held in."""
    dtype = held(op, dtype)
    if op.startswith("arg"):
        op = op.removeprefix("arg")
    identity = ops.REDUCTIONS[op].identity
    assert identity is not None
    return literal(identity(dtype), dtype)


def step(op: str, dtype: torch.dtype, old: str, new: str) -> str:
    """Two combined; both are names."""
    combine = ops.REDUCTIONS[op].combine
    assert combine is not None
    return rows(held(op, dtype))[combine](old, new)


def across(
    frame: Frame, op: str, dtype: torch.dtype, names: Sequence[str], dims: frozenset[str], dim: Dim
) -> str:
    """Tiles of these dims folded along one of them."""
    axis = frame.dims.index(dim.letter)
    if dims == {dim.letter} and len(frame.dims) > 1:
        names, axis = [f"tl.reshape({name}, [{dim.block}])" for name in names], 0
    return frame.row(f"jl.fold_{_kind(op, dtype)}({', '.join(names)}, {axis})", dim, dims)


def running(op: str, dtype: torch.dtype, text: str, axis: int) -> str:
    """A running fold along a dim."""
    return f"jl.scan_{_kind(op, dtype)}({text}, {axis})"


def _kind(op: str, dtype: torch.dtype) -> str:
    dtype = held(op, dtype)
    if op not in ("max", "min") or dtype is torch.float32:
        return op
    return f"{op}64" if dtype is torch.float64 else f"i{op}"


def typed(op: str, dtype: torch.dtype) -> str:
    return TYPES[held(op, dtype)]


def sized(name: str, dtype: torch.dtype) -> str:
    """The name of a function that float64 has one of its own of."""
    return f"{name}64" if dtype is torch.float64 else name
