"""Views of tensors whose sizes vary: torch's own kernels for them take numbers only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts.rows.common import Row, sure


def varies(args: Any) -> bool:
    """Whether a size is among the arguments that varies."""
    match args:
        case torch.SymInt():
            return True
        case torch.Tensor():
            return any(isinstance(n, torch.SymInt) for n in (*args.shape, *args.stride()))
        case tuple() | list():
            return any(map(varies, args))
        case _:
            return False


def _laid_out(x: Any, size: Sequence[Any], stride: Sequence[Any], offset: Any = None) -> Any:
    at = x.storage_offset() if offset is None else offset
    return torch.ops.aten.as_strided.default(x, list(size), list(stride), at)


def _dim(x: Any, dim: int, extra: int = 0) -> int:
    rank = x.dim() + extra
    sure(type(dim) is int and -rank <= dim < max(rank, 1))
    return dim % rank if rank else 0


def _filled(args: Any, required: int, *defaults: Any) -> Any:
    """Positional arguments, with defaults for those that were not given."""
    return (*args, *defaults[len(args) - required :])


def view(func: Any, args: Any, kwargs: Any) -> Any:
    x, given = args
    sure(x.numel() > 0)
    size = list(given)
    open_dims = [k for k, n in enumerate(size) if not isinstance(n, torch.SymInt) and n == -1]
    sure(len(open_dims) <= 1)
    known: Any = 1
    for k, n in enumerate(size):
        if k not in open_dims:
            sure(n > 0)
            known = known * n
    if open_dims:
        sure(x.numel() % known == 0)
        size[open_dims[0]] = x.numel() // known
    else:
        sure(x.numel() == known)
    return _laid_out(x, size, _strides_of_view(tuple(x.shape), x.stride(), size))


def _strides_of_view(size: Sequence[Any], stride: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """As `computeStride_impl` of aten/src/ATen/TensorUtils.cpp: chunk by chunk of memory."""
    found: list[Any] = [1] * len(new)
    if not size:
        return found
    at = len(new) - 1
    base, whole, done = stride[-1], 1, 1
    for dim in reversed(range(len(size))):
        whole = whole * size[dim]
        if dim and (size[dim - 1] == 1 or stride[dim - 1] == whole * base):
            continue
        while at >= 0 and (done < whole or new[at] == 1):
            found[at] = done * base
            done = done * new[at]
            at -= 1
        sure(done == whole)
        if dim:
            base, whole, done = stride[dim - 1], 1, 1
    sure(at == -1)
    return found


def transpose(func: Any, args: Any, kwargs: Any) -> Any:
    x, a, b = args
    a, b = _dim(x, a), _dim(x, b)
    order = list(range(x.dim()))
    order[a], order[b] = b, a
    return _permuted(x, order)


def permute(func: Any, args: Any, kwargs: Any) -> Any:
    x, dims = args
    order = [_dim(x, dim) for dim in dims]
    sure(sorted(order) == list(range(x.dim())))
    return _permuted(x, order)


def t(func: Any, args: Any, kwargs: Any) -> Any:
    x = args[0]
    sure(x.dim() <= 2)
    return _permuted(x, list(reversed(range(x.dim()))))


def _permuted(x: Any, order: Sequence[int]) -> Any:
    size, stride = tuple(x.shape), x.stride()
    return _laid_out(x, [size[k] for k in order], [stride[k] for k in order])


def unsqueeze(func: Any, args: Any, kwargs: Any) -> Any:
    x, dim = args
    dim = _dim(x, dim, extra=1)
    size, stride = list(x.shape), list(x.stride())
    step = size[dim] * stride[dim] if dim < len(size) else 1
    size.insert(dim, 1)
    stride.insert(dim, step)
    return _laid_out(x, size, stride)


def squeeze(func: Any, args: Any, kwargs: Any) -> Any:
    x, *rest = args
    dims = list(range(x.dim()))
    if rest:
        given = [rest[0]] if isinstance(rest[0], int) else list(rest[0])
        dims = [_dim(x, dim) for dim in given]
    kept = [k for k, n in enumerate(x.shape) if k not in dims or n != 1]
    return _laid_out(x, [x.shape[k] for k in kept], [x.stride()[k] for k in kept])


def expand(func: Any, args: Any, kwargs: Any) -> Any:
    x, given = args[:2]
    new = len(given) - x.dim()
    sure(new >= 0)
    size: list[Any] = []
    stride: list[Any] = []
    for k, n in enumerate(given):
        is_open = not isinstance(n, torch.SymInt) and n == -1
        if k < new:
            sure(not is_open)
            size.append(n)
            stride.append(0)
            continue
        own, step = x.shape[k - new], x.stride()[k - new]
        if is_open or own == n:
            size.append(own)
            stride.append(step)
        else:
            sure(own == 1)
            size.append(n)
            stride.append(0)
    return _laid_out(x, size, stride)


def select(func: Any, args: Any, kwargs: Any) -> Any:
    x, dim, index = args
    dim = _dim(x, dim)
    size, stride = list(x.shape), list(x.stride())
    sure(-size[dim] <= index and index < size[dim])
    at = index if index >= 0 else index + size[dim]
    offset = x.storage_offset() + at * stride[dim]
    del size[dim], stride[dim]
    return _laid_out(x, size, stride, offset)


def slice_(func: Any, args: Any, kwargs: Any) -> Any:
    x, dim, start, end, step = _filled(args, 1, 0, None, None, 1)
    dim = _dim(x, dim)
    sure(type(step) is int and step > 0)
    size, stride = list(x.shape), list(x.stride())
    length = size[dim]
    start = _clamped(0 if start is None else start, length)
    end = _end(end, length)
    if end < start:
        end = start
    offset = x.storage_offset() + start * stride[dim]
    size[dim] = end - start if step == 1 else (end - start + step - 1) // step
    stride[dim] = stride[dim] * step
    return _laid_out(x, size, stride, offset)


def _end(end: Any, length: Any) -> Any:
    if end is None or (type(end) is int and end >= _OPEN):
        return length
    return _clamped(end, length)


_OPEN = (1 << 63) - 1


def _clamped(bound: Any, length: Any) -> Any:
    if bound < 0:
        bound = bound + length
        return bound if bound >= 0 else 0
    return bound if bound <= length else length


def split_with_sizes(func: Any, args: Any, kwargs: Any) -> Any:
    x, lengths, dim = _filled(args, 2, 0)
    total: Any = 0
    parts = []
    for n in lengths:
        sure(n >= 0)
        parts.append(slice_(func, (x, dim, total, total + n, 1), {}))
        total = total + n
    sure(total == x.shape[_dim(x, dim)])
    return parts


def split(func: Any, args: Any, kwargs: Any) -> Any:
    """Into as many parts as now; the last one has what is left."""
    x, length, dim = _filled(args, 2, 0)
    dim = _dim(x, dim)
    whole = x.shape[dim]
    sure(length > 0 and whole > 0)
    last = int((whole - 1) // length)
    ends = [*(k * length for k in range(last + 1)), whole]
    return [slice_(func, (x, dim, a, b, 1), {}) for a, b in pairwise(ends)]


def unbind(func: Any, args: Any, kwargs: Any) -> Any:
    x, dim = _filled(args, 1, 0)
    whole = x.shape[_dim(x, dim)]
    sure(type(whole) is int)
    return [select(func, (x, dim, k), {}) for k in range(whole)]


def unfold(func: Any, args: Any, kwargs: Any) -> Any:
    """Windows along a dim, which become a dim of their own."""
    x, dim, window, step = args
    sure(x.dim() > 0 and type(step) is int and step > 0 and window > 0)
    dim = _dim(x, dim)
    size, stride = list(x.shape), list(x.stride())
    sure(window <= size[dim])
    size[dim] = (size[dim] - window) // step + 1
    step_of_element = stride[dim]
    stride[dim] = step_of_element * step
    return _laid_out(x, [*size, window], [*stride, step_of_element])


def diagonal(func: Any, args: Any, kwargs: Any) -> Any:
    x, start, *dims = _filled(args, 1, 0, 0, 1)
    first, second = (_dim(x, dim) for dim in dims)
    sure(type(start) is int and first != second)
    size, stride = list(x.shape), list(x.stride())
    rows, columns = size[first] + min(start, 0), size[second] - max(start, 0)
    length = rows if rows <= columns else columns
    sure(length > 0)
    at = x.storage_offset() + max(start, 0) * stride[second] + max(-start, 0) * stride[first]
    others = [k for k in range(x.dim()) if k not in (first, second)]
    return _laid_out(
        x,
        [*(size[k] for k in others), length],
        [*(stride[k] for k in others), stride[first] + stride[second]],
        at,
    )


def whole(func: Any, args: Any, kwargs: Any) -> Any:
    """`detach` and `alias`."""
    return func(*args, **kwargs)


def copied_into(func: Any, args: Any, kwargs: Any) -> Any:
    """`copy_`, of a tensor of the same size."""
    x, source = args[:2]
    sure(len(x.shape) == len(source.shape))
    sure(all(a == b for a, b in zip(x.shape, source.shape, strict=True)))
    return x


_OF_NAME: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "view": view,
        "_unsafe_view": view,
        "transpose": transpose,
        "permute": permute,
        "t": t,
        "unsqueeze": unsqueeze,
        "squeeze": squeeze,
        "expand": expand,
        "select": select,
        "slice": slice_,
        "split_with_sizes": split_with_sizes,
        "split": split,
        "unsafe_split": split,
        "unbind": unbind,
        "unfold": unfold,
        "diagonal": diagonal,
        "detach": whole,
        "alias": whole,
        "copy_": copied_into,
    }
)

VIEWS: Mapping[str, Row] = MappingProxyType({f"aten::{n}": row for n, row in _OF_NAME.items()})
"""In place of the rows for sizes that are numbers."""
