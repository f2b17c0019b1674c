"""Torch's state: grad mode, autocast, settings. The graph changes it, and so does the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts.thread_state import mode_switches, setters, snapshot
from jitpkg.guards import state as guards_of_state
from jitpkg.internals import settings
from jitpkg.tracer import constants, reasons, switches
from jitpkg.tracer.torch_calls import state_getters
from jitpkg.tracer.values import NONE, Constant, Object, Value
from jitpkg.tracer.vm import VM, Args, Kwargs

Row = Callable[[VM, Args, Kwargs], Value]


def _set(setter: Callable[..., Any]) -> Row:
    def row(vm: VM, args: Args, kwargs: Kwargs) -> Value:
        """Add the change to the graph, and make it now: what is traced next runs under it."""
        if not constants.foldable(vm, args, kwargs):
            vm.stop(reasons.RANDOM_STATE, setter.__name__)
        values = [constants.python_value(vm, value) for value in args]
        named = {name: constants.python_value(vm, value) for name, value in kwargs.items()}
        if setter is torch.set_autocast_enabled:
            _guard_dtype(vm, values)
        try:
            result = setter(*values, **named)
        except (TypeError, ValueError, RuntimeError) as error:
            vm.raise_new(type(error), *error.args)
        if setter in mode_switches():
            vm.switched = True
            vm.outcomes.clear()
        vm.graph.call_function(setter, tuple(values), named)
        vm.sets_modes |= not _is_of_block(vm)
        return Constant(result) if isinstance(result, int) else NONE

    return row


def _is_of_block(vm: VM) -> bool:
    """Whether a `with` block does it that begins in this trace: its end puts back what it sets."""
    for caller, frame in pairwise(vm.frames):
        match frame.program.code.co_name:
            case "__enter__":
                return caller.program.ops[caller.at - 1].name == "BEFORE_WITH"
            case "__exit__":
                context = frame.locals[0]
                return isinstance(context, Object) and context.source is None
    return False


def _get(getter: Callable[..., Any]) -> Row:
    def row(vm: VM, args: Args, kwargs: Kwargs) -> Value:
        if getter is torch.get_autocast_dtype and constants.foldable(vm, args, kwargs):
            _guard_dtype(vm, [constants.python_value(vm, value) for value in args])
        return constants.fold(vm, getter, args, kwargs)

    return row


def _get_switch(name: str) -> Row:
    """What a setting is that `sdpa_kernel` changes."""

    def row(vm: VM, args: Args, kwargs: Kwargs) -> Value:
        switches.guard(vm, name)
        return Constant(bool(settings.SWITCH[name].get()()))

    return row


def _guard_dtype(vm: VM, args: Sequence[object]) -> None:
    """Guard what autocast for this kind of device casts to, where that is from before the trace."""
    if not args or type(args[0]) is not str:
        return  # it raises
    for node in vm.graph.graph.nodes:
        if node.target is torch.set_autocast_dtype and node.args[:1] == (args[0],):
            return
    with suppress(RuntimeError):  # so does this: there is no such kind
        vm.guard(guards_of_state.autocast_dtype(args[0]))


@cache
def rows() -> Mapping[object, Row]:
    """What calling a function of torch's state means."""
    return MappingProxyType(
        {
            **{setter: _set(setter) for setter in setters()},
            **{getter: _get(getter) for getter in state_getters()},
            **{
                getter: _get_switch(name)
                for name in settings.ATTENTION_SETTERS
                if (getter := settings.SWITCH[name].found()) is not None
            },
        }
    )


@contextmanager
def preserved() -> Iterator[None]:
    """Put torch's thread-local state back at the end: a trace changes nothing."""
    restore = snapshot()
    try:
        yield
    finally:
        restore()
