"""Tensors made of nothing, of the layout of others, or as views of them."""

from __future__ import annotations

from typing import Any

import torch

from jitpkg.facts.layout import preserved
from jitpkg.facts.rows.common import META, Unsure, empty, rows, sure


def as_it_is(func: Any, args: Any, kwargs: Any) -> Any:
    """torch's own meta kernel, where it is not written in Python."""
    return func(*args, **kwargs)


def plain(kwargs: Any) -> None:
    """What is made lies in main memory, in the usual way."""
    device = kwargs.get("device")
    sure(device is None or torch.device(device).type in ("cpu", "meta"))
    sure(kwargs.get("layout") in (None, torch.strided) and not kwargs.get("pin_memory"))
    sure(kwargs.get("memory_format") in (None, torch.preserve_format))


def factory(func: Any, args: Any, kwargs: Any) -> Any:
    """What makes a tensor of nothing."""
    plain(kwargs)
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    return empty(args[0], dtype)


def full(func: Any, args: Any, kwargs: Any) -> Any:
    plain(kwargs)
    return empty(args[0], kwargs.get("dtype") or _dtype_of(args[1]))


def _dtype_of(number: object) -> torch.dtype:
    """The dtype that a tensor full of a number has."""
    match number:
        case bool() | torch.SymBool():
            return torch.bool
        case int() | torch.SymInt():
            return torch.int64
        case float() | torch.SymFloat():
            return torch.get_default_dtype()
        case _:
            raise Unsure


def scalar_tensor(func: Any, args: Any, kwargs: Any) -> Any:
    return factory(func, ((),), kwargs)


def like(func: Any, args: Any, kwargs: Any) -> Any:
    """A tensor of the layout of another one."""
    plain(kwargs)
    x = args[0]
    sure(isinstance(x, torch.Tensor))  # a transform may copy a number
    layout = preserved(tuple(x.shape), x.stride())
    return empty(x.shape, kwargs.get("dtype") or x.dtype, layout)


def new(func: Any, args: Any, kwargs: Any) -> Any:
    """A tensor of the dtype of another one."""
    plain(kwargs)
    return empty(args[1], kwargs.get("dtype") or args[0].dtype)


def clone(func: Any, args: Any, kwargs: Any) -> Any:
    x = args[0]
    if kwargs.get("memory_format") is torch.contiguous_format:
        return empty(x.shape, x.dtype)
    return like(func, args, kwargs)


def arange(func: Any, args: Any, kwargs: Any) -> Any:
    """Of integers."""
    dtype = kwargs.get("dtype") or torch.int64
    sure(dtype in (torch.int64, torch.int32))
    kwargs = {**kwargs, "dtype": dtype}
    if any(isinstance(arg, torch.SymInt) for arg in args):
        start, end = (0, *args) if len(args) == 1 else args[:2]
        sure(len(args) <= 2 and type(start) in (int, torch.SymInt) and end > start)
        return factory(func, ([end - start],), kwargs)
    sure(all(type(arg) is int for arg in args))
    length = len(range(*args))
    sure(length > 0)
    return factory(func, ([length],), kwargs)


def random_integers(func: Any, args: Any, kwargs: Any) -> Any:
    """`randint`."""
    *_, size = args
    return factory(func, (size,), {**kwargs, "dtype": kwargs.get("dtype") or torch.int64})


def linspace(func: Any, args: Any, kwargs: Any) -> Any:
    start, end, steps = args
    sure(all(type(n) in (int, float) for n in (start, end)) and type(steps) is int and steps > 0)
    return factory(func, ([steps],), kwargs)


def converted(func: Any, args: Any, kwargs: Any) -> Any:
    """A copy of another dtype. For another device it is one only if that is not the tensor's."""
    sure(kwargs.get("device") in (None, META))
    if kwargs.get("memory_format") is torch.contiguous_format:
        return empty(args[0].shape, kwargs.get("dtype") or args[0].dtype)
    return like(func, args, {**kwargs, "device": None})


ROWS = rows(
    (
        as_it_is,
        """
        view transpose permute t unsqueeze squeeze expand select slice split split_with_sizes
        unbind detach alias diagonal copy_ _unsafe_view unfold unsafe_split
        """,
    ),
    (factory, "zeros ones empty rand randn"),
    (random_integers, "randint"),
    (linspace, "linspace"),
    (full, "full"),
    (scalar_tensor, "scalar_tensor"),
    (like, "zeros_like ones_like empty_like full_like rand_like randn_like"),
    (new, "new_zeros new_empty new_ones new_full"),
    (clone, "clone"),
    (arange, "arange"),
    (converted, "_to_copy"),
)
