"""What ATen returns, against what was known of it: kernels read memory by that, unseen.

FakeTensor is wrong about some ops. Where it is, the call raises, and the original code runs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from jitpkg.codegen.ir.extents import varies
from jitpkg.codegen.ir.nodes import Buffer
from jitpkg.errors import InternalError
from jitpkg.facts.rows import ROWS
from jitpkg.internals.ops import OpOverload, op_name


def is_sure(target: object) -> bool:
    """Whether FakeTensor is right about an op: its answers are compared with a row's and the op's
    by the tests."""
    return isinstance(target, OpOverload) and op_name(target) in ROWS


def as_expected(of: str, buffer: Buffer) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function that returns the tensor that it is given, if that lies in memory as expected.

    It looks at the first one only: what is returned depends on nothing but facts of the arguments,
    which are the same at each call. After that it takes 50 ns.
    """
    sizes, strides = (tuple(map(_known, lengths)) for lengths in (buffer.sizes, buffer.strides))
    return as_laid_out(of, buffer.dtype, sizes, strides)


Lengths = tuple[int | None, ...]
"""Sizes, or strides; None for what varies, which is not looked at."""


def as_laid_out(
    of: str, dtype: torch.dtype, sizes: Lengths, strides: Lengths
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The same, of plain values."""
    right: list[bool] = []

    def checked(x: torch.Tensor) -> torch.Tensor:
        if right:
            return x
        if x.dtype is not dtype or not _fits(x, sizes, strides):
            raise InternalError(
                f"{of} returns {x.dtype} {tuple(x.shape)} with strides {x.stride()}, where {dtype}"
                f" {sizes} with strides {strides} was known of it"
            )
        right.append(True)
        return x

    checked.made_by = as_laid_out, (of, dtype, sizes, strides)  # type: ignore[attr-defined]
    return checked


def _known(length: int) -> int | None:
    return None if varies(length) else length


def _fits(x: torch.Tensor, sizes: Lengths, strides: Lengths) -> bool:
    if x.dim() != len(sizes):
        return False
    if any(known not in (None, size) for known, size in zip(sizes, x.shape, strict=True)):
        return False
    steps = zip(x.shape, strides, x.stride(), strict=True)
    return not x.numel() or all(n == 1 or known in (None, step) for n, known, step in steps)
