"""What rows are made of: a row says what one ATen op returns, as a function of meta tensors.

Few ops have a meta kernel of torch that would do: most are written in Python, take hundreds of
microseconds, and make torch import its compiler or sympy when they are first called, in a second.
A row answers only where it is sure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts.layout import Operand, is_contiguous, strides_of_format
from jitpkg.facts.tensor import contiguous_stride


class Unsure(Exception):
    """No row says what a call does."""


class Raises(Exception):
    """The real op raises, where FakeTensor and the meta device let it pass."""


Row = Callable[..., Any]
"""`row(func, args, kwargs) -> result`."""

CPU = torch.device("cpu")
"""As all tensors call it that are there; `to("cpu:0")` copies."""
META = torch.device("meta")

NARROW = (torch.bfloat16, torch.float16)
"""What kernels compute with in float32."""


def sure(condition: bool) -> None:
    if not condition:
        raise Unsure


def empty(size: Sequence[int], dtype: torch.dtype, stride: Sequence[int] | None = None) -> Any:
    size = tuple(size)
    stride = contiguous_stride(size) if stride is None else tuple(stride)
    return torch.empty_strided(size, stride, dtype=dtype, device=META)


def lies_in_order(t: Any) -> bool:
    return is_contiguous(tuple(t.shape), t.stride())


def is_usual(t: Any) -> bool:
    """Whether a result that follows a tensor's memory format is contiguous: it is not of images
    with the channels innermost, as c10's `is_channels_last_strides` sees them."""
    if t.dim() not in (4, 5):
        return True
    last, channels = t.stride()[-1], t.stride()[1]
    return bool(t.shape[-1] > 1 and channels > last) or (
        lies_in_order(t) and bool(t.shape[1] > 1 and t.shape[-1] > 1)
    )


def in_format_of(x: Any, size: Sequence[int], dtype: torch.dtype) -> Any:
    """A result in the memory format that `x` suggests. Also of what lies in order, that may be the
    one with the channels innermost: of one channel, or of one pixel."""
    return empty(size, dtype, strides_of_format(tuple(size), operand(x)))


def operand(value: Any) -> Operand:
    if isinstance(value, torch.Tensor):
        return Operand(tuple(value.shape), value.stride())
    return Operand((), ())


def tensors(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, torch.Tensor)]


COMPLEX = (torch.complex32, torch.complex64, torch.complex128)


def promoted(a: Any, b: Any) -> torch.dtype:
    """The common type of two tensors, or of a tensor and a number."""
    allowed = (torch.Tensor, bool, int, float)
    sure(isinstance(a, allowed) and isinstance(b, allowed))
    dtype = torch.result_type(a, b)
    sure(dtype not in COMPLEX)
    return dtype


def rows(*groups: tuple[Row, str]) -> Mapping[str, Row]:
    """A table: each row with the names of its ATen ops."""
    return MappingProxyType(
        {f"aten::{name}": row for row, names in groups for name in names.split()}
    )
