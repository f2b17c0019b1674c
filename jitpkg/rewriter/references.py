"""What new values refer to, and whether they can be made real."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import assert_never

from jitpkg.guards.numbers import Expression, read_by
from jitpkg.guards.sources import Source
from jitpkg.tracer.effects import Effect, SetAttribute
from jitpkg.tracer.heap import Heap
from jitpkg.tracer.iterators import walks_as_begun
from jitpkg.tracer.look import source_of
from jitpkg.tracer.polyfills import transforms
from jitpkg.tracer.reached import parts, reachable
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


def can_rebuild(heap: Heap, values: Sequence[Value]) -> bool:
    """Whether all of these values, and what they refer to, can be made real."""
    return all(_has_row(heap, value) for value in reachable(heap, values))


def _holds_itself(heap: Heap, iterator: Iterator) -> bool:
    """Whether an iterator is among the items that it walks."""
    seen: set[Value] = set()
    todo = list(iterator.parts)
    while todo:
        value = todo.pop()
        if value is iterator:
            return True
        if value not in seen and source_of(value) is None:
            seen.add(value)
            todo.extend(parts(heap, value))
    return False


def _has_row(heap: Heap, value: Value) -> bool:
    match value:
        case Generator() | Kept():
            return False
        case Iterator(source=None):
            return walks_as_begun(heap, value) and not _holds_itself(heap, value)
        case Function(code, closure=closure):
            if value.namespace is vars(transforms):
                return False  # what it calls means something in a trace alone
            return len(closure) == len(code.co_freevars)  # else it is still in the making
        case Array(owns=True):
            return not heap.read(value, "shared")  # it would not own the memory
        case Object(cls, None):
            raised = "__traceback__" in (heap.read(value, "attributes") or {})
            return (
                cls is not types.TracebackType and not raised and not heap.read(value, "remembered")
            )
        case (
            Marker()
            | Lazy()
            | Constant()
            | Number()
            | String()
            | Known()
            | Tensor()
            | Array()
            | Reading()
            | Tuple()
            | Slice()
            | Object()
            | InstanceDict()
            | DictView()
            | Cell()
            | Method()
            | Super()
            | Iterator()
            | Opaque()
            | Continuation()
        ):
            return True
        case _:
            assert_never(value)


def gradients_of_made(heap: Heap, made: Sequence[Tensor | Reading]) -> list[Effect]:
    """What gives tensors that a trace has made the gradients that these have got there."""
    found = [(each, heap.read(each, "grad")) for each in made]
    return [SetAttribute(each, "grad", grad) for each, grad in found if grad is not None]


def attributes_of_made(heap: Heap, made: Sequence[Tensor | Reading]) -> list[SetAttribute]:
    """The same for attributes of the user's."""
    return [
        SetAttribute(each, name, value)
        for each in made
        for name, value in (heap.read(each, "attributes") or {}).items()
    ]


def needed(
    heap: Heap, values: Sequence[Value]
) -> tuple[list[Source], list[Tensor | Reading], list[Expression]]:
    """The paths to read and the numbers to compute before the graph runs, and the tensors and
    readings that it must return."""
    sources: list[Source] = []
    numbers: list[Expression] = []
    tensors: list[Tensor | Reading] = []
    seen: set[Value] = set()
    todo = list(reversed(values))
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        source = source_of(value)
        if source is not None:
            sources.append(source)
        elif isinstance(value, Tensor) and (array := heap.read(value, "of_array")) is not None:
            todo.append(array)
        elif isinstance(value, Tensor | Reading):
            tensors.append(value)
            todo.extend(parts(heap, value))
        elif isinstance(value, Number | String):
            sources.extend(read_by(value.expression))
            numbers.append(value.expression)
        else:
            if isinstance(value, Function | Continuation):
                sources.append(value.globals)
            todo.extend(reversed(parts(heap, value)))
    return sources, tensors, list(dict.fromkeys(numbers))
