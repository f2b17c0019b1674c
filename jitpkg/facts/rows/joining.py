"""Joining tensors, and reading by index."""

from __future__ import annotations

from typing import Any

import torch

from jitpkg.facts.rows.common import (
    empty,
    lies_in_order,
    rows,
    sure,
)


def cat(func: Any, args: Any, kwargs: Any) -> Any:
    tensors, dim = args[0], args[1] if len(args) > 1 else 0
    first = tensors[0]
    rank = first.dim()
    sure(-rank <= dim < rank)
    dim %= rank
    for t in tensors:
        sure(t.dim() == rank and t.dtype is first.dtype and lies_in_order(t))
        sure(t.shape[:dim] == first.shape[:dim] and t.shape[dim + 1 :] == first.shape[dim + 1 :])
    size = list(first.shape)
    size[dim] = sum(t.shape[dim] for t in tensors)
    return empty(size, first.dtype)


def index(func: Any, args: Any, kwargs: Any) -> Any:
    """By one tensor of integers, in the first dim."""
    x, indices = args
    sure(len(indices) == 1 and x.dim() > 0 and lies_in_order(x) and x.numel() > 0)
    (at,) = indices
    sure(at is not None and at.dtype in (torch.int64, torch.int32) and at.numel() > 0)
    sure(lies_in_order(at))
    return empty((*at.shape, *x.shape[1:]), x.dtype)


def stack(func: Any, args: Any, kwargs: Any) -> Any:
    tensors, dim = args[0], args[1] if len(args) > 1 else 0
    first = tensors[0]
    rank = first.dim() + 1
    sure(-rank <= dim < rank)
    for t in tensors:
        sure(t.shape == first.shape and t.dtype is first.dtype and lies_in_order(t))
    size = list(first.shape)
    size.insert(dim % rank, len(tensors))
    return empty(size, first.dtype)


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


def embedding(func: Any, args: Any, kwargs: Any) -> Any:
    weight, at, *_ = args
    sure(at.dtype in (torch.int64, torch.int32) and weight.dim() == 2)
    sure(lies_in_order(at) and at.numel() > 0 and lies_in_order(weight))
    return empty((*at.shape, weight.shape[1]), weight.dtype)


ROWS = rows(
    (cat, "cat"),
    (stack, "stack"),
    (index, "index"),
    (gather, "gather"),
    (index_select, "index_select"),
    (embedding, "embedding"),
)
