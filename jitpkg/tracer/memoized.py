"""Calls of what `functools.lru_cache` has made, where only the messages that they write matter.

Whether a result is remembered cannot be told while tracing, and calling the function then would
remember it too early. A function that can return nothing but None, and that writes messages at
most, is the same to the rest of the program either way: its call is replayed as it is, and writes
what it would have written.
"""

from __future__ import annotations

import dis
import functools
import gc
import types
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NoReturn

from jitpkg.code.analysis import is_generator
from jitpkg.guards.kinds import Answers, Is
from jitpkg.guards.sources import Held
from jitpkg.tracer import reasons, replayed
from jitpkg.tracer.effects import CallMethod, Effect
from jitpkg.tracer.keys import hashes_by_identity
from jitpkg.tracer.values import NONE, Constant, Known, Object, Value
from jitpkg.tracer.vm import VM, Args, Raised

Memoized = type(functools.lru_cache(len))


def call(vm: VM, function: Known, args: Args, kwargs: Mapping[str, Value]) -> Value:
    """`function(*args)`"""
    inner = _function(function.obj)
    if inner is None or kwargs or not _returns_nothing(vm.originals.of(inner.__code__)):
        _refuse(vm, function)
    given = tuple(_plain(vm, function, arg) for arg in args)
    if not _is_remembered(vm, function, given):
        _check_messages(vm, function, inner, args)
    vm.effect(CallMethod(replayed.call, function, given))
    return NONE


def _is_remembered(vm: VM, function: Known, args: Args) -> bool:
    """Whether the call does nothing, as one with these arguments was made before; guarded."""
    known = tuple(arg.value if isinstance(arg, Constant) else arg.obj for arg in args)  # type: ignore[union-attr]
    if not remembers(function.obj, *known):
        return False
    for arg in args:
        if isinstance(arg, Object) and arg.source is not None:
            vm.guard(Is(arg.source, arg.obj))
    asked = "what a function remembers"
    vm.guard(Answers(function.source, remembers, known, answer=True, what=asked))
    return True


def remembers(wrapper: Any, *args: object) -> bool:
    """Whether an unbounded cache has the result of a call; one with a bound cannot be read."""
    alone = len(args) == 1 and type(args[0]) in (str, int)
    return any(
        type(found) is dict
        and found is not wrapper.__dict__
        and (args[0] if alone else args) in found
        for found in gc.get_referents(wrapper)
    )


def _check_messages(vm: VM, function: Known, inner: types.FunctionType, args: Args) -> None:
    """Trace the function's body, to see that it writes messages and does nothing else."""
    before = vm.mark()
    try:
        vm.call(Known(inner, Held(inner)), args)
    except Raised:  # that is not remembered, and a result from before may be
        _refuse(vm, function)
    after = vm.mark()
    if (after.graph, after.mutations) != (before.graph, before.mutations):
        _refuse(vm, function)
    if not all(_is_message_of(effect, inner.__code__) for effect in vm.effects[before.effects :]):
        _refuse(vm, function)
    del vm.effects[before.effects :]


def _refuse(vm: VM, function: Known) -> NoReturn:
    vm.stop(reasons.OPAQUE, f"a function that remembers its results: {_name(function.obj)}")


def _name(wrapper: Any) -> str:
    return str(getattr(wrapper, "__qualname__", Memoized.__name__))


def _function(wrapper: object) -> types.FunctionType | None:
    """What is called where no result is remembered: that never changes."""
    found = getattr(wrapper, "__wrapped__", None)
    is_it = any(found is obj for obj in gc.get_referents(wrapper))
    return found if is_it and isinstance(found, types.FunctionType) else None


def _plain(vm: VM, function: Known, arg: Value) -> Value:
    """An argument that can be looked for in a dict without running the program's code."""
    arg = vm.look(arg)
    match arg:
        case Constant(value) if type(value) in (str, int, bool, type(None)):
            return arg
        case Known(obj) if type(obj) in (types.FunctionType, type):
            return vm.identify(arg)
        case Object(cls, source) if source is not None and hashes_by_identity(vm, cls):
            return arg
    _refuse(vm, function)


def _returns_nothing(code: types.CodeType) -> bool:
    """Whether a call can only return None."""
    if is_generator(code):
        return False
    for before, instruction in pairwise(dis.get_instructions(code)):
        if instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return False
        if instruction.opname == "RETURN_VALUE":
            is_none = before.opname == "LOAD_CONST" and before.argval is None
            if instruction.is_jump_target or not is_none:
                return False
    return True


_MESSAGES: Mapping[object, Callable[[Args], tuple[Value, Value]]] = MappingProxyType(
    {
        replayed.log: lambda args: (args[4], args[5]),
        replayed.warn: lambda args: (args[2], args[3]),
    }
)
"""Where the place that a message comes from is among the arguments of an effect."""


def _is_message_of(effect: Effect, code: types.CodeType) -> bool:
    """Whether an effect is a message of a function's own, not one that names its caller."""
    if not isinstance(effect, CallMethod) or effect.method not in _MESSAGES:
        return False
    file, line = _MESSAGES[effect.method](effect.arguments)
    lines = {line for *_, line in code.co_lines()}
    return (
        isinstance(file, Constant)
        and isinstance(line, Constant)
        and file.value == code.co_filename
        and line.value in lines
    )
