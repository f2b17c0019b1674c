"""Sizes and strides of elementwise results: what ATen's TensorIterator does, step by step.

Follows `compute_shape`, `fast_set_up` and `reorder_dimensions` of aten/src/ATen/TensorIterator.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.facts.tensor import TensorFacts, contiguous_stride, size_of, stride_of

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """Sizes and strides of an input; those of a number are empty."""

    size: Sizes
    stride: Sizes


def broadcast(sizes: Sequence[Sizes]) -> Sizes | None:
    """The size of what comes of inputs of these sizes; None where they do not go together."""
    found: list[int] = []
    for k in range(1, max(map(len, sizes), default=0) + 1):
        length = 1
        for size in sizes:
            if len(size) < k or size[-k] == 1:
                continue
            if length == 1:
                length = size[-k]
            elif size[-k] != length:
                return None
        found.append(length)
    return tuple(reversed(found))


def strides(size: Sizes, operands: Sequence[Operand]) -> Sizes:
    """The strides of a result of this size that is allocated for these inputs."""
    if all(len(o.size) == len(size) and o.size == size for o in operands):
        quick = _strides_of_equals(size, operands)
        if quick is not None:
            return quick
    return _in_order(size, _order(size, [_expanded(operand, size) for operand in operands]))


def preserved(size: Sizes, stride: Sizes) -> Sizes:
    """The strides of a new tensor in the format of another one, as `empty_like`, `clone` and `to`
    make it: of a dense one all, those that say nothing, too.

    Follows `infer_dense_strides` of aten/src/ATen/ExpandUtils.cpp.
    """
    if is_dense(size, stride):
        return stride
    return _in_order(size, _order(size, [stride]))


def _in_order(size: Sizes, order: Sequence[int]) -> Sizes:
    """The strides where these dims lie in each other, the innermost first."""
    if order == list(reversed(range(len(size)))):
        return contiguous_stride(size)
    found = [0] * len(size)
    step = 1
    for dim in order:
        found[dim] = step
        step *= size[dim]
    return tuple(found)


def _strides_of_equals(size: Sizes, operands: Sequence[Operand]) -> Sizes | None:
    """The strides where all inputs have one layout that the result can have, too."""
    if all(is_contiguous(size, operand.stride) for operand in operands):
        return contiguous_stride(size)
    if all(is_channels_last(size, operand.stride) for operand in operands):
        return channels_last_stride(size)
    first = operands[0].stride
    if all(operand.stride == first for operand in operands) and is_dense(size, first):
        return first
    return None


def is_contiguous(size: Sizes, stride: Sizes) -> bool:
    """Whether elements lie in order without gaps; strides of dims of length 1 do not matter."""
    step = 1
    for length, stepped in zip(reversed(size), reversed(stride), strict=True):
        if length != 1 and stepped != step and 0 not in size:
            return False
        step *= length
    return True


def is_channels_last(size: Sizes, stride: Sizes) -> bool:
    """Whether a batch of images lies in memory with the channels innermost."""
    if len(size) != 4:
        return False
    step = 1
    for dim in (1, 3, 2, 0):
        if size[dim] != 1:
            if stride[dim] != step:
                return False
            step *= size[dim]
    return True


def channels_last_stride(size: Sizes) -> Sizes:
    """Strides of a batch of images with the channels innermost."""
    batch, channels, height, width = (max(length, 1) for length in size)
    del batch
    return (height * width * channels, 1, width * channels, channels)


def strides_of_format(size: Sizes, like: Operand) -> Sizes:
    """The strides of what is allocated in the memory format that a tensor suggests: with the
    channels innermost where it has them so."""
    if not is_like_channels_last(like.size, like.stride):
        return contiguous_stride(size)
    found, step = [0] * len(size), 1
    for dim in (1, *reversed(range(2, len(size))), 0):
        found[dim] = step
        step *= max(size[dim], 1)
    return tuple(found)


def is_like_channels_last(size: Sizes, stride: Sizes) -> bool:
    """`is_channels_last_strides` of c10/core/MemoryFormat.h."""
    if len(size) not in (4, 5) or stride[1] == 0:
        return False
    least = 0
    for dim in (1, *reversed(range(2, len(size))), 0):
        if size[dim] == 0 or stride[dim] < least or (dim == 0 and least == stride[1]):
            return False
        least = stride[dim] * max(size[dim], 1)
    return True


def is_dense(size: Sizes, stride: Sizes) -> bool:
    """Whether elements lie without gaps or overlaps, in whatever order of dims."""
    step = 1
    dims = [k for k in range(len(size)) if size[k] != 1]
    if any(size[k] == 0 for k in dims):
        return True
    for dim in sorted(dims, key=lambda k: stride[k]):
        if stride[dim] != step:
            return False
        step *= size[dim]
    return True


def overlaps(size: Sequence[Any], stride: Sequence[Any]) -> bool:
    """Whether two elements may lie at one place. Sizes and strides may vary."""
    reach: Any = 1
    for step, extent in sorted(zip(stride, size, strict=True)):
        if extent == 1:
            continue
        if step < reach:
            return 0 not in size
        reach = step * extent
    return False


def overlaps_itself(x: torch.Tensor) -> bool:
    """Whether two elements of a tensor may lie at one place. Sizes and strides may vary."""
    return not x.is_contiguous() and overlaps(x.shape, x.stride())


def _expanded(operand: Operand, size: Sizes) -> Sizes:
    """Strides at which an input is walked: 0 where it is repeated."""
    missing = len(size) - len(operand.size)
    own = (
        0 if length == 1 and size[missing + k] != 1 else operand.stride[k]
        for k, length in enumerate(operand.size)
    )
    return (*(0,) * missing, *own)


def _order(size: Sizes, walked: Sequence[Sizes]) -> list[int]:
    """The dims, innermost first: an insertion sort in which a comparison may be undecided."""
    order = list(reversed(range(len(size))))
    for i in range(1, len(size)):
        at = i
        for before in range(i - 1, -1, -1):
            relation = _compared(order[before], order[at], size, walked)
            if relation > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif relation < 0:
                break
    return order


def _compared(a: int, b: int, size: Sizes, walked: Sequence[Sizes]) -> int:
    for stride in walked:
        if stride[a] == 0 or stride[b] == 0:
            continue
        if stride[a] != stride[b]:
            return -1 if stride[a] < stride[b] else 1
        if size[a] > size[b]:
            return 1
    return 0


def gradient_of(leaf: TensorFacts) -> TensorFacts | None:
    """What autograd leaves in the `.grad` of a leaf: a tensor that lies as the leaf does, where
    that has no gaps, and else in order.

    None where that depends on who has computed it: so do the strides of dims of size 1, unless they
    are those of a tensor in order. And where sizes vary, unless the leaf is in order.
    """
    in_order = contiguous_stride(leaf.size)
    if leaf.is_symbolic:
        if leaf.stride != in_order:
            return None
        return replace(leaf, cls=torch.Tensor, requires_grad=False, is_leaf=True)
    size, stride = size_of(leaf), stride_of(leaf)
    if any(n == 1 and a != b for n, a, b in zip(size, stride, in_order, strict=True)):
        return None
    laid = stride if _is_dense(size, stride) else in_order
    return replace(leaf, cls=torch.Tensor, stride=laid, requires_grad=False, is_leaf=True)


def _is_dense(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the elements fill their memory without gaps, in whatever order."""
    if 0 in size:
        return True
    reach = 1
    for step, extent in sorted(zip(stride, size, strict=True)):
        if extent == 1:
            continue
        if step != reach:
            return False
        reach *= extent
    return True
