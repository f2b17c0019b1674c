"""`copy.deepcopy` of containers, and what else the standard library keeps by identity."""

from __future__ import annotations

import copy
import enum
import types
from collections.abc import Iterable
from typing import Any

_ATOMIC = (
    type(None), int, float, bool, complex, bytes, str, type, range, property, types.FunctionType,
    types.BuiltinFunctionType, type(Ellipsis), type(NotImplemented), types.CodeType,
)  # fmt: skip
_MISSING = object()


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
    for original, made in memo:
        if original is x:
            return made
    if cls is list:
        copied: list[Any] = []
        memo.append((x, copied))
        for item in x:
            copied.append(_deepcopy(item, memo))  # noqa: PERF401 (the list may be in itself)
        return copied
    if cls is dict:
        made_dict: dict[Any, Any] = {}
        memo.append((x, made_dict))
        for key, value in x.items():
            made_dict[_deepcopy(key, memo)] = _deepcopy(value, memo)
        return made_dict
    if cls is tuple:
        return _deepcopy_tuple(x, memo)
    if isinstance(x, enum.Enum):
        return x
    if hasattr(cls, "__deepcopy__") or hasattr(cls, "__setstate__"):
        return real_deepcopy(x, None)
    construct, args, state = x.__reduce_ex__(4)[:3]
    instance = construct(*args)
    memo.append((x, instance))
    if state is not None:
        instance.__dict__.update(_deepcopy(state, memo))
    return instance


def _deepcopy_tuple(x: tuple[Any, ...], memo: list[tuple[Any, Any]]) -> Any:
    items = [_deepcopy(item, memo) for item in x]
    for original, made in memo:
        if original is x:
            return made
    made_tuple: Any = x
    for old, new in zip(x, items, strict=True):
        if old is not new:
            made_tuple = tuple(items)
            break
    memo.append((x, made_tuple))
    return made_tuple


def count_elements(mapping: Any, iterable: Iterable[Any]) -> None:
    """`collections._count_elements`"""
    get = mapping.get
    for item in iterable:
        mapping[item] = get(item, 0) + 1
