"""`copy.deepcopy` of containers, tensors and modules, and what else the standard library keeps by
identity."""

from __future__ import annotations

import copy
import enum
import types
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import torch

_ATOMIC = (
    type(None), int, float, bool, complex, bytes, str, type, range, property, types.FunctionType,
    types.BuiltinFunctionType, type(Ellipsis), type(NotImplemented), types.CodeType, torch.dtype,
)  # fmt: skip
_MISSING = object()
_MOST = 150
"""Objects: each is compared with all before, and guarded to be another one."""


def deepcopy(x: Any, memo: Any = None, _nil: Any = ()) -> Any:
    """`copy.deepcopy`"""
    if memo is not None:
        return real_deepcopy(x, memo)
    return _deepcopy(x, [])


def real_deepcopy(x: Any, memo: Any) -> Any:
    """What is not copied here: the tracer ends the trace at this call."""
    return copy.deepcopy(x, memo)


def _deepcopy(x: Any, memo: list[tuple[Any, Any]]) -> Any:
    """`memo` has the originals with their copies; few, as a rule."""
    cls = type(x)
    if cls in _ATOMIC:
        return x
    if cls is torch.Tensor and not x.is_leaf:
        return real_deepcopy(x, None)  # which raises
    for original, made in memo:
        if original is x:
            return made
    if len(memo) > _MOST:
        return real_deepcopy(x, None)
    if cls is torch.Tensor:
        return _deepcopy_tensor(x, memo)
    if cls is torch.nn.Parameter:
        data = x.data.clone(memory_format=torch.preserve_format)
        parameter = torch.nn.Parameter(data, x.requires_grad)
        memo.append((x, parameter))
        return parameter
    if cls is list:
        copied: list[Any] = []
        memo.append((x, copied))
        for item in x:
            copied.append(_deepcopy(item, memo))  # noqa: PERF401 (the list may be in itself)
        return copied
    if cls is dict or cls is OrderedDict:
        if cls is OrderedDict and x.__dict__:
            return real_deepcopy(x, None)
        made_dict: dict[Any, Any] = cls()
        memo.append((x, made_dict))
        for key, value in x.items():
            made_dict[_deepcopy(key, memo)] = _deepcopy(value, memo)
        return made_dict
    if cls is tuple:
        return _deepcopy_tuple(x, memo)
    if cls is set and not x:
        made_set: set[Any] = set()
        memo.append((x, made_set))
        return made_set
    if isinstance(x, enum.Enum):
        return x
    if hasattr(cls, "__deepcopy__"):
        return real_deepcopy(x, None)
    construct, args, state = x.__reduce_ex__(4)[:3]
    instance = construct(*args)
    memo.append((x, instance))
    if state is not None:
        copied_state = _deepcopy(state, memo)
        if hasattr(instance, "__setstate__"):
            instance.__setstate__(copied_state)
        else:
            instance.__dict__.update(copied_state)
    return instance


def _deepcopy_tensor(x: torch.Tensor, memo: list[tuple[Any, Any]]) -> torch.Tensor:
    """`torch.Tensor.__deepcopy__`"""
    made = copied_storage(x, [original for original, _ in memo])
    if x.requires_grad:
        made.requires_grad_()
    if x.grad is not None:
        made.grad = _deepcopy(x.grad, memo)
    for name, value in own_attributes(x):
        setattr(made, name, _deepcopy(value, memo))
    memo.append((x, made))
    return made


def copied_storage(x: torch.Tensor, others: list[Any]) -> torch.Tensor:
    """A tensor that fills a copy of a storage as `x` does the original, which is none of those that
    others lie in: the tracer sees to that."""
    raise NotImplementedError


def own_attributes(x: torch.Tensor) -> list[tuple[str, Any]]:
    """The items of `x.__dict__`: the tracer knows them."""
    raise NotImplementedError


def _deepcopy_tuple(x: tuple[Any, ...], memo: list[tuple[Any, Any]]) -> Any:
    items = [_deepcopy(item, memo) for item in x]
    for original, made in memo:
        if original is x:
            return made
    made_tuple: Any = x
    for old, new in zip(x, items, strict=True):
        if type(old) not in _ATOMIC and old is not new:
            made_tuple = tuple(items)
            break
    memo.append((x, made_tuple))
    return made_tuple


def count_elements(mapping: Any, iterable: Iterable[Any]) -> None:
    """`collections._count_elements`"""
    get = mapping.get
    for item in iterable:
        mapping[item] = get(item, 0) + 1
