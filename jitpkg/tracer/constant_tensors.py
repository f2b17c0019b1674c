"""Tensors that are made of constants alone: their data is known while tracing.

`torch.tensor([height, width])`, and what ops make of such a tensor, has the same data in each call.
The ops are in the graph like any other; they are computed beside it, too, as eager code does, so
that a size, an index or a branch that is read of such a tensor is a constant. A write to one, or to
what shares its memory, ends that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from jitpkg.facts.outcome import Outcome
from jitpkg.internals.ops import is_of_another_library
from jitpkg.interrupts import from_outside
from jitpkg.tracer import constants, containers
from jitpkg.tracer.values import Constant, Known, Object, Slice, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Kwargs

_MOST = 64
"""Elements of a tensor whose data is kept."""


def note(
    vm: VM, call: Callable[..., Any], args: Args, kwargs: Kwargs, outcome: Outcome, result: Value
) -> None:
    """Compute an op that has been added to the graph, if it is of constants alone."""
    results = result.items if isinstance(result, Tuple) else (result,)
    if not all(isinstance(each, Tensor) and _is_small(vm, each) for each in results):
        return
    if outcome.random or outcome.mutated or outcome.warns or is_of_another_library(call):
        return
    if "empty" in call.__name__:
        return  # the data is what was there
    try:
        given = [_real(vm, value) for value in args]
        named = {name: _real(vm, value) for name, value in kwargs.items()}
        with torch.no_grad():
            made = call(*given, **named)
    except _Unknown:
        return
    except Exception as error:
        if from_outside(error):
            raise
        return  # the program raises it, when it runs
    parts = made if isinstance(made, tuple | list) else (made,)
    for each, data in zip(results, parts, strict=False):
        assert isinstance(each, Tensor)
        facts = vm.facts(each)
        found = (data.dtype, data.shape, data.stride()) if isinstance(data, torch.Tensor) else None
        if found == (facts.dtype, facts.size, facts.stride):
            vm.constant_tensors[each] = data


def _is_small(vm: VM, tensor: Tensor) -> bool:
    facts = vm.facts(tensor)
    is_plain = facts.cls is torch.Tensor and facts.device.type == "cpu" and not facts.requires_grad
    lengths = [length for length in facts.size if isinstance(length, int)]
    return is_plain and not facts.is_symbolic and math.prod(lengths) <= _MOST


class _Unknown(Exception):
    """Something is no constant."""


def _real(vm: VM, value: Value) -> Any:
    value = vm.glance(value)
    if isinstance(value, Tensor):
        found = vm.constant_tensors.get(value)
        if found is None:
            raise _Unknown
        return found
    match value:
        case Constant():
            return value.value
        case Tuple(items, cls) if cls in (tuple, torch.Size):
            return tuple(_real(vm, item) for item in items)
        case Slice(start, stop, step):
            return slice(*(_real(vm, part) for part in (start, stop, step)))
        case Known(type() as cls) if cls in (int, float, bool):
            return cls
        case Object(cls=cls) if cls is list and value.source is None:
            return [_real(vm, item) for item in containers.list_items(vm, value)]
        case _:
            raise _Unknown


def forget(vm: VM, written: Tensor) -> None:
    """Data is known no more of what shares memory with a tensor that is written to."""
    root = vm.roots.get(written, written)
    for tensor in [t for t in vm.constant_tensors if vm.roots.get(t, t) is root]:
        del vm.constant_tensors[tensor]


def number(vm: VM, tensor: Tensor) -> Constant | None:
    """The number that a tensor of one element is known to have."""
    data = vm.constant_tensors.get(tensor)
    if data is not None:
        vm.stop_under_a_mode("the number of a tensor")
    return Constant(data.item()) if data is not None and data.numel() == 1 else None


def index(vm: VM, tensor: Tensor) -> Constant | None:
    """What `tensor.__index__()` gives, if that is known, and is a number."""
    found = number(vm, tensor)
    return found if found is not None and type(found.value) is int else None


def as_key(vm: VM, key: Value) -> Value:
    """A key of a tensor, with numbers for what is taken as one: a tensor without dimensions."""
    return _with_numbers(vm, key, _in_key) if vm.constant_tensors else key


def _in_key(vm: VM, tensor: Tensor) -> Constant | None:
    data = vm.constant_tensors.get(tensor)
    if data is None or data.dim() or data.dtype is torch.uint8:  # of which a mask is made
        return None
    return index(vm, tensor)


def listed(vm: VM, tensor: Tensor) -> Value | None:
    """`tensor.tolist()`, if that is known."""
    data = vm.constant_tensors.get(tensor)
    if data is not None:
        vm.stop_under_a_mode("the numbers of a tensor")
    return None if data is None else constants.wrapped(vm, data.tolist())


def as_numbers(vm: VM, name: str, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """The arguments of an op that makes tensors of sizes: with numbers for tensors that it would
    read as sizes."""
    if not vm.constant_tensors or name not in _SIZED:
        return args, kwargs
    first = 1 if name in _METHODS else 0
    changed = (*args[:first], *(_with_numbers(vm, value, number) for value in args[first:]))
    return changed, {key: _with_numbers(vm, value, number) for key, value in kwargs.items()}


def _with_numbers(vm: VM, value: Value, known: Callable[[VM, Tensor], Constant | None]) -> Value:
    """A value, or a tuple of them, with the numbers that are known of tensors in their place."""
    value = vm.glance(value)
    match value:
        case Tensor():
            return known(vm, value) or value
        case Tuple(items, cls) if cls is tuple:
            return Tuple(tuple(_with_numbers(vm, item, known) for item in items))
        case _:
            return value


_METHODS = frozenset(
    """
    as_strided expand narrow new_empty new_ones new_zeros repeat reshape tile unflatten view
    """.split()
)
_SIZED = _METHODS | {"arange", "empty", "ones", "zeros"}
