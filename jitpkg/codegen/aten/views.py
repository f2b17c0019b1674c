"""Views: ops whose result shows the memory of their first argument; and how to write through them.

A view of a tensor is kept as what was called. In a functional graph it is an op on the tensor's
value, and a write through it makes a new value of the whole tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.internals.ops import OpOverload, op_name, overload_name, schema

aten = torch.ops.aten
Op = OpOverload


@dataclass(frozen=True, slots=True)
class View:
    """One view of a tensor: `op(tensor, *args, **kwargs)`, or an item of what that returns."""

    op: Op
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    item: int | None = None

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        made: Any = self.op(tensor, *self.args, **self.kwargs)
        tensor_made: torch.Tensor = made if self.item is None else made[self.item]
        return tensor_made


VIEWS = frozenset(
    f"aten::{name}"
    for name in """
    view _unsafe_view _reshape_alias transpose permute t unsqueeze squeeze expand select slice
    split split_with_sizes unbind detach alias diagonal as_strided unfold
    """.split()
)
"""By name without overload."""

_SEVERAL = frozenset({"aten::split", "aten::split_with_sizes", "aten::unbind"})


def makes_several(op: Op) -> bool:
    return op_name(op) in _SEVERAL


def as_one(view: View, size: Sequence[int]) -> tuple[Op, tuple[Any, ...], Mapping[str, Any]]:
    """A view of a tensor of this size as one call that returns it."""
    if view.item is None:
        return view.op, view.args, view.kwargs
    item = view.item
    if op_name(view.op) == "aten::unbind":
        (dim,) = _filled(view, 0)
        return aten.select.int, (dim, item), {}
    given, dim = _filled(view, None, 0)
    length = size[dim % len(size)]
    if isinstance(given, list | tuple):
        start = sum(given[:item])
        end = start + given[item]
    else:
        start = item * given
        end = min(start + given, length)
    return aten.slice.Tensor, (dim, start, end), {}


def _filled(view: View, *defaults: Any) -> tuple[Any, ...]:
    """Arguments of ops whose last one is `dim`."""
    values = (*view.args, *defaults[len(view.args) :])
    return (*values[:-1], view.kwargs.get("dim", values[-1]))


class NoInverse(Exception):
    """There is no exact way to write through a view."""


Call = tuple[Op, tuple[Any, ...]]
"""An op and its arguments but the first."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How a new value of a view becomes one of the tensor that it shows."""

    op: Op | None
    """None where it is the value itself."""
    args: tuple[Any, ...]
    scatters: bool = False
    """Whether it is `op(tensor, value, *args)`, else `op(value, *args)`."""


def writing(view: View, size: Sequence[int]) -> Writing:
    """How to write through a view of a tensor of this size.

    Raises:
        NoInverse: it cannot be done.
    """
    op, args, kwargs = as_one(view, size)
    inverse = _INVERSES.get(op_name(op))
    if inverse is None or (kwargs and not inverse.__name__.startswith("_scattered")):
        raise NoInverse(f"a write through {op}")
    return inverse(op, args, kwargs, tuple(size))


def _reshaped(op: Op, args: Any, kwargs: Any, size: tuple[int, ...]) -> Writing:
    if overload_name(op) == "dtype":
        raise NoInverse("a write through a view of another dtype")
    return Writing(aten.view.default, (list(size),))


def _itself(op: Op, args: Any, kwargs: Any, size: tuple[int, ...]) -> Writing:
    return Writing(None, ())


def _transposed(op: Op, args: Any, kwargs: Any, size: tuple[int, ...]) -> Writing:
    return Writing(op, args)


def _permuted(op: Op, args: Any, kwargs: Any, size: tuple[int, ...]) -> Writing:
    order = [dim % len(size) for dim in args[0]]
    return Writing(op, ([order.index(k) for k in range(len(size))],))


def _scattered(op: Op, args: Any, kwargs: Any, size: tuple[int, ...]) -> Writing:
    given = dict(kwargs)
    names = [argument.name for argument in schema(op).arguments[1:]]
    defaults = [argument.default_value for argument in schema(op).arguments[1:]]
    rest = [given.get(name, value) for name, value in zip(names, defaults, strict=True)]
    return Writing(_SCATTERS[op], (*args, *rest[len(args) :]), scatters=True)


_SCATTERS: Mapping[Op, Op] = MappingProxyType(
    {
        aten.select.int: aten.select_scatter.default,
        aten.slice.Tensor: aten.slice_scatter.default,
        aten.diagonal.default: aten.diagonal_scatter.default,
    }
)

_INVERSES: Mapping[str, Callable[[Op, Any, Any, tuple[int, ...]], Writing]] = MappingProxyType(
    {
        "aten::view": _reshaped,
        "aten::_unsafe_view": _reshaped,
        "aten::_reshape_alias": _reshaped,
        "aten::unsqueeze": _reshaped,
        "aten::squeeze": _reshaped,
        "aten::detach": _itself,
        "aten::alias": _itself,
        "aten::t": _transposed,
        "aten::transpose": _transposed,
        "aten::permute": _permuted,
        "aten::select": _scattered,
        "aten::slice": _scattered,
        "aten::diagonal": _scattered,
    }
)
