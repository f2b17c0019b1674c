"""Joining tensors, and reading by index."""

from __future__ import annotations

from typing import Any

import torch

from jitpkg.facts.layout import Operand, broadcast, is_dense, preserved, strides, strides_of_format
from jitpkg.facts.rows.common import empty, is_usual, lies_in_order, operand, rows, sure
from jitpkg.internals.ops import op_name


def cat(func: Any, args: Any, kwargs: Any) -> Any:
    tensors, dim = args[0], args[1] if len(args) > 1 else 0
    first = tensors[0]
    rank = first.dim()
    sure(-rank <= dim < rank)
    dim %= rank
    for t in tensors:
        sure(t.dim() == rank and t.dtype is first.dtype and t.numel() > 0 and is_usual(t))
        sure(t.shape[:dim] == first.shape[:dim] and t.shape[dim + 1 :] == first.shape[dim + 1 :])
    size = list(first.shape)
    size[dim] = sum(t.shape[dim] for t in tensors)
    return empty(size, first.dtype)


def index(func: Any, args: Any, kwargs: Any) -> Any:
    """By tensors of integers; follows `AdvancedIndex` of aten/src/ATen/native/TensorAdvanced…"""
    x, indices = args
    indices = [*indices, *[None] * (x.dim() - len(indices))]
    by = [k for k, at in enumerate(indices) if at is not None]
    sure(len(indices) == x.dim() and bool(by) and x.numel() > 0)
    for k in by:
        sure(indices[k].dtype in (torch.int64, torch.int32) and indices[k].numel() > 0)
    found = broadcast([tuple(indices[k].shape) for k in by])
    sure(found is not None)
    assert found is not None
    rest = [k for k in range(x.dim()) if indices[k] is None]
    before = by[0] if by == list(range(by[0], by[-1] + 1)) else 0
    lead, trail = rest[:before], rest[before:]
    size = (*(x.shape[k] for k in lead), *found, *(x.shape[k] for k in trail))
    walked = (*(x.stride(k) for k in lead), *(0 for _ in found), *(x.stride(k) for k in trail))
    shape = (*(1 for _ in lead), *found, *(1 for _ in trail))
    read = [operand(_long(indices[k].expand(found)).reshape(shape)) for k in by]
    return empty(size, x.dtype, strides(size, [Operand(size, walked), *read]))


def _long(at: Any) -> Any:
    if at.dtype is torch.int64:
        return at
    return empty(at.shape, torch.int64, preserved(tuple(at.shape), at.stride()))


def written(func: Any, args: Any, kwargs: Any) -> Any:
    """`index_put_`, by integers, or a number by a mask; `index_put` writes to a copy."""
    x, indices, value = args[:3]
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype is torch.bool:
        mask = indices[0]
        sure(0 < mask.dim() <= x.dim() and mask.shape == x.shape[: mask.dim()])
        sure(value.dtype is x.dtype and value.numel() == 1 and len(args) == 3)
        return _written_to(func, x)
    size = tuple(index(func, (x, indices), {}).shape)
    sure(value.dtype is x.dtype and broadcast([size, tuple(value.shape)]) == size)
    return _written_to(func, x)


def filled(func: Any, args: Any, kwargs: Any) -> Any:
    """`index_fill_`, by a number; `index_fill` writes to a copy."""
    x, dim, at, value = args
    sure(type(value) in (bool, int) or (type(value) is float and x.dtype.is_floating_point))
    sure(at.dtype is torch.int64 and at.dim() == 1 and -x.dim() <= dim < x.dim())
    sure(x.numel() > 0 and not kwargs)
    return _written_to(func, x)


def _written_to(func: Any, x: Any) -> Any:
    if op_name(func).endswith("_"):
        return x
    return empty(x.shape, x.dtype, preserved(tuple(x.shape), x.stride()))


def stack(func: Any, args: Any, kwargs: Any) -> Any:
    tensors, dim = args[0], args[1] if len(args) > 1 else 0
    first = tensors[0]
    rank = first.dim() + 1
    sure(-rank <= dim < rank)
    for t in tensors:
        sure(t.shape == first.shape and t.dtype is first.dtype)
        sure(lies_in_order(t) or t.dim() < 3)
    at, size = dim % rank, list(first.shape)
    if at == first.dim():
        return _joined([t.unsqueeze(at) for t in tensors], [*size, len(tensors)], first.dtype)
    size[at] *= len(tensors)
    return _joined(tensors, size, first.dtype).unflatten(at, (len(tensors), first.shape[at]))


def _joined(parts: Any, size: Any, dtype: torch.dtype) -> Any:
    """In the memory format that all parts suggest."""
    suggested = {strides_of_format(tuple(size), operand(part)) for part in parts}
    return empty(size, dtype, suggested.pop() if len(suggested) == 1 else None)


def gather(func: Any, args: Any, kwargs: Any) -> Any:
    x, dim, at = args
    sure(x.dim() > 0 and at.dim() == x.dim() and -x.dim() <= dim < x.dim() and not kwargs)
    sure(at.dtype is torch.int64 and lies_in_order(at) and x.numel() > 0)
    lengths = zip(at.shape, x.shape, strict=True)
    sure(all(n <= of or k == dim % x.dim() for k, (n, of) in enumerate(lengths)))
    return empty(at.shape, x.dtype)


def index_select(func: Any, args: Any, kwargs: Any) -> Any:
    x, dim, at = args
    sure(at.dtype is torch.int64 and at.dim() == 1 and -x.dim() <= dim < x.dim())
    sure(lies_in_order(x) and x.numel() > 0)
    size = list(x.shape)
    size[dim] = at.shape[0]
    return empty(size, x.dtype)


def scattered(func: Any, args: Any, kwargs: Any) -> Any:
    """`scatter` and `scatter_add`, of tensors or a number."""
    x, dim, at, value = args
    sure(not kwargs and x.dim() > 0 and at.dim() == x.dim() and -x.dim() <= dim < x.dim())
    sure(at.dtype is torch.int64 and at.numel() > 0 and x.numel() > 0)
    lengths = zip(at.shape, x.shape, strict=True)
    sure(all(n <= of or k == dim % x.dim() for k, (n, of) in enumerate(lengths)))
    if isinstance(value, torch.Tensor):
        sure(value.dtype is x.dtype and value.dim() == x.dim())
        sure(all(n <= of for n, of in zip(at.shape, value.shape, strict=True)))
    if op_name(func).endswith("_"):
        sure(is_dense(tuple(x.shape), x.stride()))
        return x
    return empty(x.shape, x.dtype)


def flip(func: Any, args: Any, kwargs: Any) -> Any:
    x, dims = args
    _check_dims(x, dims)
    return empty(x.shape, x.dtype, preserved(tuple(x.shape), x.stride()))


def roll(func: Any, args: Any, kwargs: Any) -> Any:
    x, shifts, *dims = args
    sure(lies_in_order(x) and is_usual(x) and x.numel() > 0)
    for given in dims:
        _check_dims(x, given)
    sure(len(shifts) == (len(dims[0]) if dims and dims[0] else 1))
    return empty(x.shape, x.dtype)


def _check_dims(x: Any, dims: Any) -> None:
    sure(x.dim() > 0 and all(-x.dim() <= dim < x.dim() for dim in dims))
    sure(len({dim % x.dim() for dim in dims}) == len(dims))


def reflected(func: Any, args: Any, kwargs: Any) -> Any:
    """`reflection_pad1d` and its like."""
    x, ends = args
    dims = len(ends) // 2
    sure(x.dim() in (dims + 1, dims + 2) and x.numel() > 0 and x.is_floating_point())
    sure(lies_in_order(x) and is_usual(x) and all(n >= 0 for n in ends))
    size = list(x.shape)
    for k in range(dims):
        sure(max(ends[2 * k], ends[2 * k + 1]) < size[-1 - k])
        size[-1 - k] = size[-1 - k] + ends[2 * k] + ends[2 * k + 1]
    return empty(size, x.dtype)


def embedding(func: Any, args: Any, kwargs: Any) -> Any:
    weight, at, *_ = args
    sure(at.dtype in (torch.int64, torch.int32) and weight.dim() == 2)
    sure(at.numel() > 0 and lies_in_order(weight))
    return empty((*at.shape, weight.shape[1]), weight.dtype)


def padded(func: Any, args: Any, kwargs: Any) -> Any:
    """`constant_pad_nd`."""
    x, ends = args[:2]
    sure(len(ends) % 2 == 0 and len(ends) <= 2 * x.dim() and x.numel() > 0 and is_usual(x))
    sure(any(n > 0 for n in ends) or (lies_in_order(x) and any(n < 0 for n in ends)))
    sure(all(n >= 0 for n in ends) or all(n <= 0 for n in ends))
    size = list(x.shape)
    for k in range(len(ends) // 2):
        size[-1 - k] = size[-1 - k] + ends[2 * k] + ends[2 * k + 1]
        sure(size[-1 - k] > 0)
    return empty(size, x.dtype)


def repeated(func: Any, args: Any, kwargs: Any) -> Any:
    x, counts = args
    missing = len(counts) - x.dim()
    sure(missing >= 0 and all(n > 0 for n in counts))
    lengths = (*(1 for _ in range(missing)), *x.shape)
    return empty([n * m for n, m in zip(lengths, counts, strict=True)], x.dtype)


def triangle(func: Any, args: Any, kwargs: Any) -> Any:
    """`tril` and `triu`."""
    x = args[0]
    sure(x.dim() >= 2)
    return empty(x.shape, x.dtype)


ROWS = rows(
    (triangle, "tril triu"),
    (padded, "constant_pad_nd"),
    (repeated, "repeat"),
    (written, "index_put index_put_"),
    (filled, "index_fill index_fill_"),
    (cat, "cat"),
    (stack, "stack"),
    (index, "index"),
    (gather, "gather"),
    (scattered, "scatter scatter_ scatter_add scatter_add_"),
    (roll, "roll"),
    (flip, "flip"),
    (reflected, "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d"),
    (index_select, "index_select"),
    (embedding, "embedding"),
)
