"""What ATen returns, against what was known of it: kernels read memory by that, unseen.

FakeTensor is wrong about some ops. Where it is, the call raises, and the original code runs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._ops import OpOverload

from jitpkg.codegen.ir.nodes import Buffer
from jitpkg.errors import InternalError
from jitpkg.facts.rows import ROWS


def is_sure(target: object) -> bool:
    """Whether FakeTensor is right about an op: its answers are compared with a row's and the op's
    by the tests."""
    return isinstance(target, OpOverload) and target._schema.name in ROWS


def as_expected(of: str, buffer: Buffer) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function that returns the tensor that it is given, if that lies in memory as expected.

    200 ns.
    """
    dtype, sizes, strides = buffer.dtype, tuple(buffer.sizes), tuple(buffer.strides)
    steps = _steps(sizes, strides)

    def checked(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is dtype and x.shape == sizes and x.stride() == strides:
            return x
        if x.dtype is dtype and x.shape == sizes and _steps(sizes, x.stride()) == steps:
            return x
        raise InternalError(
            f"{of} returns {x.dtype} {tuple(x.shape)} with strides {x.stride()}, where {dtype}"
            f" {sizes} with strides {strides} was known of it"
        )

    return checked


def _steps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The strides that matter."""
    if 0 in sizes:
        return []
    return [step for size, step in zip(sizes, strides, strict=True) if size > 1]
