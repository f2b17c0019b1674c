"""Methods of torch.Size, where sizes vary; of constants they are folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jitpkg.tracer import constants, reasons
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import Constant, Number, Tuple, Value
from jitpkg.tracer.vm import VM

TABLE = CallTable()


def _items(vm: VM, value: Value) -> list[Value] | None:
    """The items of a tuple of integers."""
    value = vm.look(value)
    if not isinstance(value, Tuple) or value.cls not in (tuple, torch.Size):
        return None
    items = [vm.peek(item) for item in value.items]
    if all(isinstance(i, Constant | Number) and type(i.value) is int for i in items):
        return items
    return None


def _vary(items: list[Value]) -> bool:
    return any(isinstance(item, Number) for item in items)


def _folded(vm: VM, function: Callable[..., Any], args: tuple[Value, ...]) -> Value:
    if constants.foldable(vm, args, {}):
        return constants.fold(vm, function, args)
    vm.stop(reasons.FOREIGN_CALL, f"torch.Size.{function.__name__}")


@TABLE.row(torch.Size.__add__)
def add(vm: VM, a: Value, b: Value, /) -> Value:
    left, right = _items(vm, a), _items(vm, b)
    if left is None or right is None or not _vary([*left, *right]):
        return _folded(vm, torch.Size.__add__, (a, b))
    return Tuple((*left, *right), torch.Size)


if "__radd__" in vars(torch.Size):

    @TABLE.row(vars(torch.Size)["__radd__"])
    def radd(vm: VM, a: Value, b: Value, /) -> Value:
        left, right = _items(vm, b), _items(vm, a)
        if left is None or right is None or not _vary([*left, *right]):
            return _folded(vm, vars(torch.Size)["__radd__"], (a, b))
        return Tuple((*left, *right), torch.Size)


@TABLE.row(torch.Size.numel)
def numel(vm: VM, size: Value, /) -> Value:
    items = _items(vm, size)
    if items is None or not _vary(items):
        return _folded(vm, torch.Size.numel, (size,))
    count: Value = Constant(1)
    for item in items:
        count = vm.binary("*", count, item)
    return count
