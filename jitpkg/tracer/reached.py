"""What new values refer to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from jitpkg.tracer.heap import Heap
from jitpkg.tracer.look import source_of
from jitpkg.tracer.values import (
    Array,
    Cell,
    Constant,
    Continuation,
    DictView,
    Function,
    Generator,
    InstanceDict,
    Iterator,
    Kept,
    Known,
    Lazy,
    Marker,
    Method,
    Number,
    Object,
    Opaque,
    Reading,
    Slice,
    String,
    Super,
    Tensor,
    Tuple,
    Value,
)


def reachable(heap: Heap, values: Sequence[Value], *, cells: bool = False) -> set[Value]:
    """All of these values, and what they refer to; with `cells` what existing cells hold, too."""
    seen: set[Value] = set()
    todo = list(values)
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        if source_of(value) is None or isinstance(value, Object | Cell if cells else Object):
            todo.extend(parts(heap, value))
    return seen


def parts(heap: Heap, value: Value) -> list[Value]:
    """What a new value refers to."""
    match value:
        case Tuple():
            return list(value.items)
        case Slice():
            return [value.start, value.stop, value.step]
        case Object():
            return _object_parts(heap, value)
        case InstanceDict() | DictView():
            return [value.of]
        case Cell():
            content = heap.read(value, "content")
            return [] if content is None else [content]
        case Function():
            optional = (value.defaults, value.keyword_defaults, value.annotations)
            attributes = heap.read(value, "attributes") or {}
            return [*value.closure, *(v for v in optional if v is not None), *attributes.values()]
        case Method():
            return [value.function, value.receiver]
        case Super():
            return [value.receiver]
        case Iterator():
            return list(value.parts)
        case Continuation():
            return [*value.locals, *value.stack]
        case Array():
            if value.view is not None:
                return [*value.view.args, *value.view.kwargs.values()]
            return [heap.read(value, "content") or value.memory]
        case Tensor():
            given = heap.read(value, "grad"), heap.read(value, "of_array")
            own = heap.read(value, "attributes") or {}
            return [*own.values(), *(each for each in given if each is not None)]
        case (
            Marker()
            | Lazy()
            | Constant()
            | Number()
            | String()
            | Known()
            | Reading()
            | Generator()
            | Opaque()
            | Kept()
        ):
            return []
        case _:
            assert_never(value)


def _object_parts(heap: Heap, value: Object) -> list[Value]:
    if value.source is not None:
        return []
    found: list[Value] = []
    if (items := heap.read(value, "items")) is not None:
        found.extend(items.items)
    if (entries := heap.read(value, "entries")) is not None:
        for entry in entries.entries.values():
            found.extend((entry.key, entry.value))
        if entries.factory is not None:
            found.append(entries.factory)
    if (content := heap.read(value, "content")) is not None:
        found.append(content)
    found.extend((heap.read(value, "attributes") or {}).values())
    return found
