"""Iterators that were begun before the trace: it walks on from where they stand.

A walk is traced to its end or
not at all: a graph that begins in the midst of one is good for that place only, where a graph of
the loop's body is good for all.
"""

from __future__ import annotations

from typing import Any

from jitpkg.guards.kinds import TypeIs
from jitpkg.guards.sources import Item, Source, WalkOf
from jitpkg.guards.walks import VIEWS, walk_of
from jitpkg.tracer import containers
from jitpkg.tracer.iterators import EXISTS, walk_of_view
from jitpkg.tracer.values import (
    Constant,
    DictView,
    Iterator,
    Object,
    Opaque,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM

_MOST_LEFT = 128
"""Items: a loop that has more to go is compiled by its body."""


def existing(vm: VM, obj: Any, source: Source) -> Value:
    """An iterator that exists, of a class that `walks.READERS` knows."""
    vm.guard(TypeIs(source, type(obj)))
    made = _walking(vm, obj, source)
    return Opaque(source, obj, EXISTS) if made is None else made


def _walking(vm: VM, obj: Any, source: Source) -> Iterator | None:
    try:
        position, *walked = walk_of(obj)
    except LookupError:
        return None
    assert isinstance(position, int)
    path = WalkOf(source)
    parts = tuple(vm.look(vm.wrap(each, Item(path, k))) for k, each in enumerate(walked, 1))
    at = Item(path, 0)
    if isinstance(obj, zip | enumerate):
        if not all(isinstance(part, Iterator) for part in parts):
            return None
        number = vm.look(vm.wrap(position, at))
        if isinstance(obj, zip):
            return Iterator("zip", parts, strict=bool(position), source=source, obj=obj)
        return Iterator("enumerate", (*parts, number), source=source, obj=obj)
    if not vm.history.begins(source, position) or _length(vm, parts[0]) - position > _MOST_LEFT:
        return None
    vm.look(vm.wrap(position, at))
    return _leaf(vm, obj, source, parts[0], position)


def _length(vm: VM, walked: Value) -> int:
    match walked:
        case Constant(range() as numbers):
            return len(numbers)
        case Tuple(items):
            return len(items)
        case Object(cls) if issubclass(cls, list | dict):
            return containers.length(vm, walked)
        case _:
            return 1 << 62


def _leaf(vm: VM, obj: Any, source: Source, walked: Value, position: int) -> Iterator | None:
    """One that walks something itself."""
    match walked:
        case Constant():
            return Iterator("range", (walked,), source=source, obj=obj)
        case Object(cls) if issubclass(cls, dict):
            return _of_dict(vm, obj, source, walked, position)
        case _ if isinstance(obj, type(reversed([]))):
            parts = walked, Constant(position + 1)
            return Iterator("reversed", parts, backwards=True, source=source, obj=obj)
        case _:
            made = Iterator("sequence", (walked,), source=source, obj=obj)
    vm.heap.write(made, "position", position)
    return made


def _of_dict(vm: VM, obj: Any, source: Source, walked: Object, position: int) -> Iterator | None:
    if any(effect.target is walked for effect in vm.effects):
        return None  # that was read as it is before the trace
    made = walk_of_view(vm, DictView(walked, VIEWS[type(obj)]), source, obj)
    vm.heap.write(made, "position", position)
    return made
