"""Calls of functions that change nothing, for what remembers their results.

Whether a function changes nothing is found by tracing the call. Where its arguments are known, it
is made for real then, and what the program gets is the very object that is remembered. Where they
are numbers that vary, the traced result stands for that object: it can be read, and nothing else,
for the trace made it and the program would get one that others have.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from jitpkg.guards.kinds import CodeIs, Exists, Guard, Has, Is, sources_of
from jitpkg.guards.sources import Attr, Held, Source, steps_of
from jitpkg.interrupts import from_outside
from jitpkg.tracer import containers
from jitpkg.tracer.look import source_of
from jitpkg.tracer.lookahead import changed, lookahead
from jitpkg.tracer.values import Constant, Known, Lazy, Number, Object, Slice, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Kwargs, Mark, Raised

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments, by position and by name."""


def is_pure(vm: VM, function: FunctionType, args: Args, kwargs: Kwargs, call: Call) -> bool:
    """Whether a call changes nothing, and returns now what it would return at its place.

    It is traced, and made: `call` has what the arguments stand for.
    """
    with lookahead(vm) as before:
        try:
            with vm.heap.noting_reads() as reads:
                traced = vm.call(Known(function, Held(function)), args, kwargs)
        except Raised:
            return False
        if not _changes_nothing(vm, before) or _was_changed(vm, reads):
            return False
        try:
            real = function(*call[0], **call[1])
        except Exception as error:
            if from_outside(error):
                raise
            return False
        found = _is_as(vm, traced, real)
    del vm.guards[before.guards :]
    return found


def traced(vm: VM, function: FunctionType, args: Args, kwargs: Kwargs) -> Value | None:
    """The result of a call that changes nothing and depends on its arguments alone, which is only
    to be read; None where it is not known to be such a call."""
    before = vm.mark()
    try:
        with vm.heap.noting_reads() as reads:
            result = vm.call(Known(function, Held(function)), args, kwargs)
    except Raised:
        return None
    sources = {source for value in args if (source := source_of(value)) is not None}
    if not _changes_nothing(vm, before) or _was_changed(vm, reads):
        return None
    if not all(_is_of(guard, sources) for guard in vm.guards[before.guards :]):
        return None
    return result if _keep(vm, [result], before) else None


def _was_changed(vm: VM, reads: set[Value]) -> bool:
    """Whether something that was read was changed in the trace: for others it is as it was."""
    return any(effect.target in reads for effect in vm.effects)


def _changes_nothing(vm: VM, before: Mark) -> bool:
    after = vm.mark()
    same = (after.graph, after.effects, after.mutations, after.guesses, after.levels) == (
        before.graph,
        before.effects,
        before.mutations,
        before.guesses,
        before.levels,
    )
    made = (value for value in changed(vm, before) if source_of(value) is None)
    return same and next(made, None) is None


def _is_of(guard: Guard, sources: set[Source]) -> bool:
    """Whether a guard says what a name means or a function does, or something of the arguments."""
    if isinstance(guard, CodeIs | Exists | Has):
        return True
    if isinstance(guard, Is) and isinstance(guard.obj, _NAMED):
        return True
    return all(
        any(step in sources or _is_of_function(step) for step in steps_of(at))
        for at in sources_of(guard)
    )


_NAMED = (FunctionType, BuiltinFunctionType, ModuleType, type)
"""What is what it is, and not data."""


def _is_of_function(step: Source) -> bool:
    return isinstance(step, Attr) and step.name in ("__defaults__", "__kwdefaults__")


def _keep(vm: VM, values: Sequence[Value], before: Mark) -> bool:
    """Mark what a call has made as something that is only read."""
    known, todo = set(vm.heap.as_of(before.heap).known()), list(values)
    while todo:
        value = todo.pop()
        if isinstance(value, Lazy | Constant | Known | Number) or source_of(value) is not None:
            continue
        match value:
            case Tuple(items):
                todo.extend(items)
            case Object(cls) if cls in _READ and value not in known:
                todo.extend(_parts(vm, value))
                vm.heap.write(value, "remembered", True)
            case _:
                return False
    return True


_READ = (list, dict, set, frozenset)


def _parts(vm: VM, value: Object) -> list[Value]:
    if value.cls is list:
        return list(containers.list_items(vm, value))
    entries = containers.entries_of(vm, value).entries.values()
    return [part for entry in entries for part in (entry.key, entry.value)]


# What was traced beside what is real


def _is_as(vm: VM, value: Value, real: Any) -> bool:
    """Whether a traced value is an object, or one that the trace has made is like it."""
    if isinstance(value, Lazy | Known):
        return value.obj is real
    if isinstance(value, Constant):
        return type(value.value) is type(real) and _are_equal(value.value, real)
    if isinstance(value, Object) and value.source is not None:
        return value.obj is real
    if isinstance(value, Tuple):
        is_tuple = isinstance(real, tuple) and type(real) is value.cls
        return is_tuple and _are_as(vm, value.items, tuple.__iter__(real))
    if isinstance(value, Slice):
        parts = (value.start, value.stop, value.step)
        return type(real) is slice and _are_as(vm, parts, (real.start, real.stop, real.step))
    return isinstance(value, Object) and type(real) is value.cls and _is_like(vm, value, real)


def _are_as(vm: VM, values: Sequence[Value], reals: Any) -> bool:
    listed = list(reals)
    return len(values) == len(listed) and all(
        _is_as(vm, value, real) for value, real in zip(values, listed, strict=True)
    )


def _is_like(vm: VM, value: Object, real: Any) -> bool:
    attributes = vm.heap.read(value, "attributes") or {}
    if attributes or hasattr(real, "__dict__"):
        names = vars(real) if hasattr(real, "__dict__") else {}
        if attributes.keys() != names.keys():
            return False
        if not all(_is_as(vm, attributes[name], names[name]) for name in names):
            return False
    match containers.base_class(value.cls):
        case None:
            return True
        case builtin if builtin is list:
            return _are_as(vm, containers.list_items(vm, value), list.__iter__(real))
        case builtin if builtin in (set, frozenset):
            return _are_elements(vm, value, real)
        case builtin if builtin in (dict, collections.OrderedDict):
            pairs = containers.dict_items(vm, value)
            keys, items = [key for key, _ in pairs], [item for _, item in pairs]
            return _are_as(vm, keys, dict.keys(real)) and _are_as(vm, items, dict.values(real))
        case _:
            return False


def _are_elements(vm: VM, value: Object, real: Any) -> bool:
    elements = [entry.key for entry in containers.entries_of(vm, value).entries.values()]
    constants = [each.value for each in elements if isinstance(each, Constant)]
    simple = all(type(each) in (str, int) for each in (*constants, *real))
    return simple and len(constants) == len(elements) and set(constants) == set(real)


def _are_equal(a: Any, b: Any) -> bool:
    if isinstance(a, float):
        same_sign = math.copysign(1.0, a) == math.copysign(1.0, b)
        return same_sign and (a == b or (math.isnan(a) and math.isnan(b)))
    if isinstance(a, complex):
        return _are_equal(a.real, b.real) and _are_equal(a.imag, b.imag)
    return bool(a == b)
