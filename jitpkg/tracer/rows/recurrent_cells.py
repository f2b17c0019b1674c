"""Cells of recurrent layers: the functions in C++ take no batch size that varies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts import sizes
from jitpkg.facts.tensor import TensorFacts
from jitpkg.tracer import containers, numbers
from jitpkg.tracer.polyfills import recurrent_cells
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import Constant, Object, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM, Args

TABLE = CallTable()

_GATES: Mapping[Callable[..., Any], int] = MappingProxyType(
    {
        recurrent_cells.gru_cell: 3,
        recurrent_cells.lstm_cell: 4,
        recurrent_cells.rnn_tanh_cell: 1,
        recurrent_cells.rnn_relu_cell: 1,
    }
)


def _row(real: Callable[..., Any], polyfill: Callable[..., Any]) -> Callable[..., Value]:
    def row(vm: VM, *args: Value, **kwargs: Value) -> Value:
        if not kwargs and len(args) in (4, 6):
            given = tuple(vm.look(value) for value in args)
            if _fit(vm, given, _GATES[polyfill]):
                return vm.call(vm.trusted(polyfill), given)
        return vm.op(real, args, kwargs)

    return row


def _fit(vm: VM, args: Args, gates: int) -> bool:
    """Whether a batch varies, and all sizes are as they must be; what raises is left to torch."""
    x, state, w_ih, w_hh, *biases = args
    states = _members(vm, state) if gates == 4 else [state]
    if len(states) != (2 if gates == 4 else 1):
        return False
    if all(isinstance(b, Constant) and b.value is None for b in biases):
        biases = []
    every = [x, *states, w_ih, w_hh, *biases]
    if not all(isinstance(value, Tensor) for value in every):
        return False
    facts = [vm.facts(value) for value in every if isinstance(value, Tensor)]
    given, *hidden, inner, outer = facts[: len(facts) - len(biases)]
    if not given.is_symbolic or any(f.dtype is not given.dtype for f in facts):
        return False
    if any(len(f.size) != 2 for f in (given, *hidden, inner, outer)):
        return False
    width = outer.size[1]
    rows = gates * width
    if inner.size != (rows, given.size[1]) or outer.size != (rows, width):
        return False
    if any(bias.size != (rows,) for bias in facts[len(facts) - len(biases) :]):
        return False
    return all(f.size[1] == width and _one_batch(vm, given, f) for f in hidden)


def _members(vm: VM, state: Value) -> list[Value]:
    match state:
        case Tuple():
            return [vm.look(item) for item in state.items]
        case Object() if state.cls is list:
            return [vm.look(item) for item in containers.list_items(vm, state)]
        case _:
            return []


def _one_batch(vm: VM, given: TensorFacts, hidden: TensorFacts) -> bool:
    """Whether they are of one batch size, now and wherever the entry is used."""
    batch, other = sizes.of(given.size[0]), sizes.of(hidden.size[0])
    values = vm.int_values()
    if batch.value(values) != other.value(values):
        return False
    numbers.require(vm, sizes.compare("==", batch, other))
    return True


for _polyfill in _GATES:
    _real = getattr(torch, _polyfill.__name__)
    TABLE.add(_real, _row(_real, _polyfill))
