"""Tensors that are indexed by numbers which vary.

`x[n]` would make a constant of `n`, for torch takes such an index as it is; `x.select(0, n)` does
not, and is the same view.
"""

from __future__ import annotations

import operator

from jitpkg.tracer import constant_tensors, function_modes
from jitpkg.tracer.values import Constant, Number, Slice, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM


def get(vm: VM, tensor: Tensor, key: Value) -> Value:
    """`tensor[key]`"""
    if vm.asked_modes:
        found = function_modes.of_op(vm, operator.getitem, (tensor, key), {})
        if found is not None:
            return found
    view, rest = _selected(vm, tensor, key)
    return view if rest is None else vm.op(operator.getitem, (view, rest))


def set_(vm: VM, tensor: Tensor, key: Value, value: Value) -> None:
    """`tensor[key] = value`"""
    if vm.asked_modes and function_modes.of_op(vm, operator.setitem, (tensor, key, value), {}):
        return
    view, rest = _selected(vm, tensor, key)
    vm.op(operator.setitem, (view, rest or Constant(...), value))


def _selected(vm: VM, tensor: Tensor, key: Value) -> tuple[Value, Value | None]:
    """A view for the numbers in a key that vary, and what is left of the key to index it by."""
    key = vm.peek(constant_tensors.as_key(vm, key))
    given = key.items if isinstance(key, Tuple) and key.cls is tuple else (key,)
    items = [vm.peek(item) for item in given]
    places = _dims(items, len(vm.facts(tensor).size))
    if not places:
        return tensor, key
    view: Value = tensor
    for item, dim in reversed(places):
        view = vm.op("select", (view, Constant(dim), item))
    left = tuple(item for item in items if not isinstance(item, Number))
    return view, Tuple(left) if left else None


def _dims(items: list[Value], rank: int) -> list[tuple[Number, int]]:
    """The numbers that vary, each with the dim that it indexes; none where that cannot be told."""
    if not all(map(_is_plain, items)):
        return []
    ellipses = [k for k, item in enumerate(items) if _is(item, ...)]
    taken = sum(not _is(item, None) and not _is(item, ...) for item in items)
    if taken > rank or len(ellipses) > 1:
        return []
    places: list[tuple[Number, int]] = []
    dim = 0
    for item in items:
        if isinstance(item, Number):
            places.append((item, dim))
        if _is(item, ...):
            dim += rank - taken
        elif not _is(item, None):
            dim += 1
    return places


def _is_plain(item: Value) -> bool:
    """Whether an item of a key takes a dim, or makes one, or stands for those in between."""
    if isinstance(item, Number):
        return type(item.value) is int
    if isinstance(item, Constant):
        return type(item.value) is int or item.value is None or item.value is ...
    return isinstance(item, Slice)


def _is(item: Value, constant: object) -> bool:
    return isinstance(item, Constant) and item.value is constant
