"""Reductions, and ops along one dim."""

from __future__ import annotations

from typing import Any

import torch

from jitpkg.facts.layout import preserved
from jitpkg.facts.rows.common import (
    COMPLEX,
    empty,
    lies_in_order,
    rows,
    sure,
)
from jitpkg.internals.ops import overload_name


def _reduced(x: Any, dims: Any, keepdim: Any = False) -> tuple[int, ...]:
    """The size that is left; of all dims where `dims` is None or empty."""
    rank = x.dim()
    given = [dims] if isinstance(dims, int) else list(dims or range(rank))
    sure(all(type(dim) is int and -rank <= dim < rank for dim in given) and type(keepdim) is bool)
    gone = {dim % rank for dim in given}
    sure(len(gone) == len(given))
    sizes = ((1 if k in gone else n) for k, n in enumerate(x.shape) if keepdim or k not in gone)
    return tuple(sizes)


def total(func: Any, args: Any, kwargs: Any) -> Any:
    """`sum` and `prod`: of integers, a long integer."""
    x, *rest = args
    sure(kwargs.get("dtype") is None and x.dtype not in COMPLEX)
    dtype = x.dtype if x.is_floating_point() else torch.int64
    return empty(_reduced(x, *(rest or [None])), dtype)


def total_of_numbers(func: Any, args: Any, kwargs: Any) -> Any:
    """`nansum`."""
    sure(args[0].is_floating_point())
    return total(func, args, kwargs)


def mean(func: Any, args: Any, kwargs: Any) -> Any:
    x, *rest = args
    sure(kwargs.get("dtype") is None and x.is_floating_point())
    return empty(_reduced(x, *(rest or [None])), x.dtype)


def deviation(func: Any, args: Any, kwargs: Any) -> Any:
    """`var` and `std`."""
    x, *rest = args
    sure(x.is_floating_point() and len(rest) <= 1 and kwargs.keys() <= {"correction", "keepdim"})
    dims = rest[0] if rest else None
    return empty(_reduced(x, dims, kwargs.get("keepdim", False)), x.dtype)


def deviation_and_mean(func: Any, args: Any, kwargs: Any) -> Any:
    """`var_mean` and `std_mean`."""
    return deviation(func, args, kwargs), deviation(func, args, kwargs)


def along(func: Any, args: Any, kwargs: Any) -> Any:
    """`logsumexp`."""
    x, *rest = args
    sure(x.is_floating_point() and x.numel() > 0)
    return empty(_reduced(x, *rest), x.dtype)


def norm(func: Any, args: Any, kwargs: Any) -> Any:
    """`linalg_vector_norm`."""
    x, rest = args[0], args[2:]
    sure(kwargs.get("dtype") is None and x.is_floating_point() and x.numel() > 0)
    sure(len(rest) < 3)
    return empty(_reduced(x, *(rest or [None])), x.dtype)


def extreme(func: Any, args: Any, kwargs: Any) -> Any:
    """`amax` and `amin`; `max` and `min`, which have indices, too, where a dim is given."""
    x, *rest = args
    sure(x.dtype is not torch.bool and x.dtype not in COMPLEX and x.numel() > 0)
    size = _reduced(x, *(rest or [None]))
    if overload_name(func) != "dim":
        return empty(size, x.dtype)
    return empty(size, x.dtype), empty(size, torch.int64)


def extreme_index(func: Any, args: Any, kwargs: Any) -> Any:
    x, *rest = args
    sure(x.dtype is not torch.bool and x.dtype not in COMPLEX and x.numel() > 0)
    return empty(_reduced(x, *(rest or [None])), torch.int64)


def to_bool(func: Any, args: Any, kwargs: Any) -> Any:
    """`any` and `all`: of no dims, each element is one of its own."""
    x, *rest = args
    sure(x.dtype is torch.bool or x.is_floating_point())
    sure("dim" not in kwargs)
    if rest and isinstance(rest[0], list | tuple) and not rest[0]:
        sure(lies_in_order(x))
        return empty(x.shape, torch.bool)
    return empty(_reduced(x, *(rest or [None])), torch.bool)


def softmax(func: Any, args: Any, kwargs: Any) -> Any:
    """`_softmax` and `_log_softmax`."""
    x, dim, half_to_float = args
    sure(x.is_floating_point() and half_to_float is False)
    sure(-max(x.dim(), 1) <= dim < max(x.dim(), 1))
    sure(lies_in_order(x) or x.dim() not in (4, 5))
    return empty(x.shape, x.dtype)


def topk(func: Any, args: Any, kwargs: Any) -> Any:
    x, k, *rest = args
    dim = rest[0] if rest else -1
    sure(x.dim() > 0 and -x.dim() <= dim < x.dim() and 0 < k <= x.shape[dim])
    sure(x.is_floating_point() and lies_in_order(x))
    size = list(x.shape)
    size[dim] = k
    return empty(size, x.dtype), empty(size, torch.int64)


def running(func: Any, args: Any, kwargs: Any) -> Any:
    """`cumsum` and its like."""
    x = args[0]
    sure(x.dtype not in COMPLEX and -x.dim() <= args[1] < x.dim())
    dtype = x.dtype if x.is_floating_point() else torch.int64
    return empty(x.shape, kwargs.get("dtype") or dtype)


def ordered(func: Any, args: Any, kwargs: Any) -> Any:
    """`sort`."""
    x = args[0]
    sure(set(kwargs) <= {"dim", "descending", "stable"})
    dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
    sure(x.dim() > 0 and x.numel() > 0 and -x.dim() <= dim < x.dim())
    layout = preserved(tuple(x.shape), x.stride())
    return empty(x.shape, x.dtype, layout), empty(x.shape, torch.int64, layout)


def histogram(func: Any, args: Any, kwargs: Any) -> Any:
    """`histc`."""
    x = args[0]
    bins = args[1] if len(args) > 1 else 100
    sure(x.is_floating_point() and bins > 0 and not kwargs)
    return empty((bins,), x.dtype)


ROWS = rows(
    (total, "sum prod"),
    (total_of_numbers, "nansum"),
    (mean, "mean"),
    (deviation, "std var"),
    (deviation_and_mean, "std_mean var_mean"),
    (along, "logsumexp"),
    (norm, "linalg_vector_norm"),
    (extreme, "amax amin max min"),
    (extreme_index, "argmax argmin"),
    (to_bool, "any all"),
    (softmax, "_softmax _log_softmax"),
    (topk, "topk"),
    (ordered, "sort"),
    (histogram, "histc"),
    (running, "cumsum cumprod"),
)
