"""What ATen returns, against what was known of it: kernels read memory by that, unseen.

FakeTensor is wrong about some ops. Where it is, the call raises, and the original code runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch._ops import OpOverload

from jitpkg.errors import InternalError
from jitpkg.facts.rows import ROWS


def is_sure(target: object) -> bool:
    """Whether FakeTensor is right about an op: its answers are compared with a row's and the op's
    by the tests."""
    return isinstance(target, OpOverload) and target._schema.name in ROWS


@dataclass(eq=False, slots=True)
class AsExpected:
    """A function that returns the tensor that it is given, if that lies in memory as expected.

    It looks at the first one only: what is returned depends on nothing but facts of the arguments,
    which are the same at each call.
    """

    op: str
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    is_right: bool = False

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_right:
            return x
        known = x.dtype is self.dtype and x.shape == self.sizes
        if not known or _steps(self.sizes, x.stride()) != _steps(self.sizes, self.strides):
            raise InternalError(
                f"{self.op} returns {x.dtype} {tuple(x.shape)} with strides {x.stride()}, where"
                f" {self.dtype} {self.sizes} with strides {self.strides} was known of it"
            )
        self.is_right = True
        return x


def _steps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The strides that matter."""
    if 0 in sizes:
        return []
    return [step for size, step in zip(sizes, strides, strict=True) if size > 1]
