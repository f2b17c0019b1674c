"""Iteration: the builtin iterators, and what is walked without one."""

from __future__ import annotations

import collections
from collections.abc import Iterator as PythonIterator
from collections.abc import Sequence
from types import FunctionType
from typing import cast

from jitpkg.errors import Break
from jitpkg.guards.kinds import ABSENT
from jitpkg.guards.sources import Source
from jitpkg.tracer import classes, constants, containers, protocols, reasons
from jitpkg.tracer.effects import CallMethod
from jitpkg.tracer.generators import resume
from jitpkg.tracer.heap import Heap
from jitpkg.tracer.values import (
    NONE,
    Constant,
    DictView,
    Generator,
    InstanceDict,
    Iterator,
    Kept,
    Object,
    Opaque,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM, Raised

EXISTS = "an iterator that exists already"

_MAX_ITEMS = 100_000
"""An iteration that gives more is taken for endless."""


def iterate(vm: VM, value: Value) -> Value:
    """`iter(value)`"""
    value = vm.look(value)
    match value:
        case Iterator() | Generator():
            return value
        case Tuple(cls=cls) if classes.inherits(vm, cls, tuple, "__iter__"):
            return Iterator("sequence", (value,))
        case Object(cls) if issubclass(cls, list) and classes.inherits(vm, cls, list, "__iter__"):
            return Iterator("sequence", (value,))
        case Object(cls) if issubclass(cls, collections.deque) and _walks_plainly(vm, cls):
            return walk_of(vm, value, containers.list_items(vm, value))
        case Object(cls) if issubclass(cls, set | frozenset) and _walks_plainly(vm, cls):
            return walk_of(vm, value, tuple(containers.elements(vm, value)))
        case Object(cls) if issubclass(cls, dict) and _walks_plainly(vm, cls):
            return iterate(vm, DictView(value, "keys"))
        case DictView():
            return walk_of_view(vm, value)
        case InstanceDict():
            return walk_of(vm, value, _keys(vm, value))
        case Constant(range()):
            return Iterator("range", (value,))
        case Constant(str()) | Constant(bytes()):
            return Iterator("string", (value,))
        case Tensor():
            return Iterator("sequence", (_rows(vm, value),))
        case Kept() | Opaque():
            vm.stop(reasons.OPAQUE, EXISTS)
    method = vm.method_of_class(value, "__iter__")
    if method is not None:
        return protocols.iterator(vm, vm.call(method, ()))
    if vm.method_of_class(value, "__getitem__") is not None:
        return Iterator("sequence", (value,))
    vm.raise_new(TypeError, f"'{classes.shown(vm.class_of(value))}' object is not iterable")


def _walks_plainly(vm: VM, cls: type) -> bool:
    base = containers.base_class(cls)
    return base is not None and classes.inherits(vm, cls, base, "__iter__")


def _rows(vm: VM, tensor: Tensor) -> Value:
    if not vm.facts(tensor).size:
        vm.raise_new(TypeError, "iteration over a 0-d tensor")
    rows = vm.op("unbind", (tensor, Constant(0)))
    assert isinstance(rows, Tuple)
    return rows


def advance(vm: VM, iterator: Value) -> Value | None:
    """`next(iterator)`, or None at its end."""
    iterator = vm.look(iterator)
    match iterator:
        case Iterator():
            item = _STEPS[iterator.kind](vm, iterator)
            if iterator.source is not None:
                note_step(vm, iterator, ended=item is None)
            return item
        case Generator():
            yielded, _ = resume(vm, iterator, NONE)
            return yielded
        case Kept() | Opaque():
            vm.stop(reasons.OPAQUE, EXISTS)
    method = vm.method_of_class(iterator, "__next__")
    if method is None:
        vm.stop(reasons.RAISES, f"a {vm.class_of(iterator).__qualname__} is no iterator")
    try:
        return vm.call(method, ())
    except Raised as raised:
        if issubclass(raised.value.cls, StopIteration):
            return None
        raise


def unpack(vm: VM, value: Value, *, hinted: bool = False) -> Sequence[Value]:
    """All that iterating gives.

    Args:
        hinted: whether it is asked how much that will be, as what makes lists and tuples does.
    """
    value = vm.look(value)
    names = ("__iter__", "__len__") if hinted else ("__iter__",)
    match value:
        case Tuple(cls=cls) if classes.inherits(vm, cls, tuple, *names):
            return value.items
        case Object(cls) if cls is list:
            return containers.list_items(vm, value)
    iterator = iterate(vm, value)
    if hinted:
        _hint(vm, value)
    items: list[Value] = []
    while (item := advance(vm, iterator)) is not None:
        items.append(item)
        if len(items) > _MAX_ITEMS:
            vm.stop(reasons.TOO_LONG, "an iterator that does not end")
    return items


def unpack_fast(vm: VM, value: Value) -> Sequence[Value]:
    """All that iterating gives, as `PySequence_Fast` does it: the iterator is asked how much."""
    value = vm.look(value)
    if isinstance(value, Object | Tuple) and value.cls in (list, tuple):
        return unpack(vm, value)
    return unpack(vm, iterate(vm, value), hinted=True)


def _hint(vm: VM, value: Value) -> None:
    """Ask for a length, if that is more than to read it; a TypeError says that there is none."""
    specials = ["__len__", "__length_hint__"]
    if isinstance(value, Iterator) and value.kind == "sequence":
        value = value.parts[0]
        if isinstance(value, Object) and issubclass(value.cls, list):
            return
        specials.pop()  # it is the iterator that has one, and asks for the other's length
    if not isinstance(value, Object | Tuple):
        return
    for special in specials:
        found = classes.lookup(vm, vm.class_of(value), special)
        if found is ABSENT:
            continue
        if not isinstance(found, FunctionType):
            return
        try:
            _length(vm, value, special)
        except Raised as raised:
            if not issubclass(raised.value.cls, TypeError):
                raise
        else:
            return


def _length(vm: VM, value: Value, special: str) -> None:
    if special == "__len__":
        vm.call_object(len, value)
        return
    method = vm.method_of_class(value, special)
    assert method is not None
    hint = vm.look(vm.call(method, ()))
    if not isinstance(hint, Constant) or hint.value is NotImplemented:
        return
    if not isinstance(hint.value, int) or hint.value < 0:
        vm.stop(reasons.RAISES, f"{special}() that returns {hint.value!r}")


def each(vm: VM, value: Value, *, hinted: bool = False) -> PythonIterator[Value]:
    """What iterating gives, one by one: the program may see what is done between two steps."""
    value = vm.look(value)
    if isinstance(value, Object) and value.cls is list:
        yield from unpack(vm, value)
        return
    iterator = iterate(vm, value)
    if hinted:
        _hint(vm, value)
    for _ in range(_MAX_ITEMS):
        item = advance(vm, iterator)
        if item is None:
            return
        yield item
    vm.stop(reasons.TOO_LONG, "an iterator that does not end")


def _advance_part(vm: VM, iterator: Iterator, part: Value) -> Value | None:
    """A step of one that another advances: of those that exist, the outer's step is replayed."""
    if iterator.source is None:
        return vm.advance(part)
    part = vm.look(part)
    if not isinstance(part, Iterator):
        vm.stop(reasons.OPAQUE, EXISTS)
    return _STEPS[part.kind](vm, part)


# Those that exist: each step is replayed, in its place among the other effects


def note_step(vm: VM, iterator: Iterator, *, ended: bool) -> None:
    """Have a step replayed that the trace has made, the last one too."""
    if iterator not in vm.begun:
        vm.begun[iterator] = vm.break_here(reasons.OPAQUE, f"{EXISTS}, and does not end here")
    vm.heap.write(iterator, "walk", "ended" if ended else "begun")
    vm.effect(CallMethod(next, iterator, (NONE,)))


def in_midst(vm: VM) -> Break | None:
    """Where the trace has begun to walk on with an iterator that is not at its end; None if there
    is none."""
    for iterator, where in vm.begun.items():
        if vm.heap.read(iterator, "walk") == "begun":
            return where
    return None


def advanced_by(iterator: Iterator) -> PythonIterator[Iterator]:
    """All that a step of an existing iterator advances."""
    yield iterator
    for part in iterator.parts:
        if isinstance(part, Iterator):
            yield from advanced_by(part)


# One step of each kind


FINISHED = 1 << 62
"""The position of an iterator that has come to its end."""


def _position(vm: VM, iterator: Iterator) -> int:
    return vm.heap.read(iterator, "position") or 0


def _next_position(vm: VM, iterator: Iterator) -> int:
    position = _position(vm, iterator)
    vm.heap.write(iterator, "position", position + 1)
    return position


def _finish(vm: VM, iterator: Iterator) -> None:
    vm.heap.write(iterator, "position", FINISHED)


def _sequence(vm: VM, iterator: Iterator) -> Value | None:
    position = _position(vm, iterator)
    if position >= FINISHED:
        return None
    sequence = iterator.parts[0]
    match sequence:
        case Tuple(items):
            pass
        case Object(cls) if issubclass(cls, list):
            items = containers.list_items(vm, sequence)
        case _:
            return _old_style(vm, iterator, sequence, position)
    if position >= len(items):
        _finish(vm, iterator)
        return None
    _next_position(vm, iterator)
    return items[position]


def backwards(vm: VM, value: Object) -> Value:
    """`reversed(value)` of a list or dict."""
    if issubclass(value.cls, list):
        count = len(containers.list_items(vm, value))
        return Iterator("reversed", (value, Constant(count)), backwards=True)
    return walk_of(vm, value, _keys(vm, value)[::-1], backwards=True)


def _walk(vm: VM, iterator: Iterator) -> Value | None:
    """A step through what was there at the start; a deque or set must not change meanwhile."""
    container = iterator.parts[1] if len(iterator.parts) > 1 else None
    if isinstance(container, Object | InstanceDict) and _position(vm, iterator) < FINISHED:
        _check_unchanged(vm, iterator, container, iterator.parts[2])
    return _sequence(vm, iterator)


def walk_of(
    vm: VM, container: Object | InstanceDict, items: tuple[Value, ...], *, backwards: bool = False
) -> Iterator:
    """An iterator over these items of a container, which must not change meanwhile."""
    parts = (Tuple(items), container, Constant(_removals(vm, container)))
    made = Iterator("walk", parts, backwards=backwards)
    return _started(vm, made, _keys(vm, container))


def walk_of_view(
    vm: VM, view: DictView, source: Source | None = None, obj: object = None
) -> Iterator:
    """An iterator over a view of a dict; `obj` where it exists, and `source` where."""
    made = Iterator("dict", (view, Constant(_removals(vm, view.of))), source=source, obj=obj)
    return _started(vm, made, _keys(vm, view.of))


def _removals(vm: VM, container: Object | InstanceDict) -> int:
    if isinstance(container, InstanceDict) or issubclass(container.cls, collections.deque):
        return 0
    return containers.entries_of(vm, container).removals


def _keys(vm: VM, container: Object | InstanceDict) -> tuple[Value, ...]:
    if isinstance(container, InstanceDict):
        return tuple(key for key, _ in containers.instance_items(vm, container))
    if issubclass(container.cls, collections.deque):
        return containers.list_items(vm, container)
    entries = containers.all_entries(vm, container).entries
    return tuple(entry.key for entry in entries.values())


def _started(vm: VM, iterator: Iterator, items: tuple[Value, ...]) -> Iterator:
    """An iterator, with what there is to walk when it is made."""
    vm.heap.write(iterator, "content", Tuple(items))
    return iterator


def walks_as_begun(heap: Heap, iterator: Iterator) -> bool:
    """Whether a new iterator over what is walked, as it is now, can take the place of this one."""
    if (heap.read(iterator, "position") or 0) >= FINISHED:
        return True
    if iterator.kind == "walk":
        return False
    if iterator.kind != "dict":
        return not _is_beyond(heap, iterator)
    view, removals = iterator.parts
    assert isinstance(view, DictView) and isinstance(removals, Constant)
    entries, before = heap.read(view.of, "entries"), heap.read(iterator, "content")
    if entries is None or not isinstance(before, Tuple):
        return False
    now = tuple(entry.key for entry in entries.entries.values())
    return before.items == now and removals.value == entries.removals


def _is_beyond(heap: Heap, iterator: Iterator) -> bool:
    """Whether a list has become shorter than what has been walked, or, backwards, than what has
    not: `__setstate__` puts an iterator inside of its list, and it would walk what is added."""
    if iterator.kind not in ("sequence", "reversed"):
        return False
    sequence, *start = iterator.parts
    items = heap.read(sequence, "items")
    if items is None or items.unread:
        return False
    position, count = heap.read(iterator, "position") or 0, len(items.items)
    if start:
        return _reversed_index(iterator, position, count) >= count
    return position > count


def _check_unchanged(
    vm: VM, iterator: Iterator, container: Object | InstanceDict, removals: Value
) -> None:
    """Raise if there are more or fewer items than at the start; other changes end the trace."""
    now, before = _keys(vm, container), vm.heap.read(iterator, "content")
    assert isinstance(before, Tuple) and isinstance(removals, Constant)
    cls = vm.class_of(container)
    if issubclass(cls, collections.OrderedDict) and len(before.items) != len(now):
        vm.stop(reasons.RAISES, "an OrderedDict that changes while it is walked")
    is_deque = issubclass(cls, collections.deque)
    kind = "dictionary changed size" if issubclass(cls, dict) else "Set changed size"
    kind = "deque mutated" if is_deque else kind
    if len(before.items) != len(now):
        if iterator.source is not None:
            vm.stop(reasons.RAISES, "a dict that changes while it is walked")
        vm.raise_new(RuntimeError, f"{kind} during iteration")
    if isinstance(container, InstanceDict):
        same = constants.python_value(vm, before) == constants.python_value(vm, Tuple(now))
    else:
        same = before.items is now if is_deque else removals.value == _removals(vm, container)
    if not same:
        vm.stop(reasons.UNSUPPORTED, "a container that changes while it is walked")


def _old_style(vm: VM, iterator: Iterator, sequence: Value, index: int) -> Value | None:
    """A step of an iteration by `__getitem__(0)`, `__getitem__(1)` and so on, or backwards, until
    IndexError."""
    get = vm.method_of_class(sequence, "__getitem__")
    assert get is not None
    _next_position(vm, iterator)
    try:
        return vm.call(get, (Constant(index),))
    except Raised as raised:
        if not issubclass(raised.value.cls, IndexError | StopIteration):
            raise
        _finish(vm, iterator)
        return None


def _reversed(vm: VM, iterator: Iterator) -> Value | None:
    walked = vm.look(iterator.parts[0])
    if isinstance(walked, Object) and containers.base_class(walked.cls) is None:
        return _by_numbers(vm, iterator, walked)
    items = (
        containers.list_items(vm, walked)
        if isinstance(walked, Object) and issubclass(walked.cls, list)
        else vm.unpack(walked)
    )
    position = _position(vm, iterator)
    index = _reversed_index(iterator, position, len(items))
    if not 0 <= index < len(items):
        _finish(vm, iterator)
        return None
    _next_position(vm, iterator)
    return items[index]


def _by_numbers(vm: VM, iterator: Iterator, sequence: Object) -> Value | None:
    """A step back, until the first item."""
    index = _reversed_index(iterator, _position(vm, iterator), 0)
    if index < 0:
        _finish(vm, iterator)
        return None
    return _old_style(vm, iterator, sequence, index)


def _reversed_index(iterator: Iterator, position: int, count: int) -> int:
    """Which item comes next; what a list has gained since is not walked."""
    if len(iterator.parts) > 1:
        start = iterator.parts[1]
        assert isinstance(start, Constant) and isinstance(start.value, int)
        count = start.value
    return count - 1 - position


def _constants(vm: VM, iterator: Iterator) -> Value | None:
    constant = iterator.parts[0]
    assert isinstance(constant, Constant)
    sequence = cast("range | str | bytes", constant.value)
    position = _position(vm, iterator)
    try:  # a range may be longer than what len() can say
        item = sequence[position]
    except IndexError:
        _finish(vm, iterator)
        return None
    _next_position(vm, iterator)
    return Constant(item)


def _dict(vm: VM, iterator: Iterator) -> Value | None:
    view = iterator.parts[0]
    assert isinstance(view, DictView)
    position = _position(vm, iterator)
    if position >= FINISHED:
        return None
    items = view_items(vm, view)
    _check_unchanged(vm, iterator, view.of, iterator.parts[1])
    if position >= len(items):
        _finish(vm, iterator)
        return None
    _next_position(vm, iterator)
    return items[position]


def view_items(vm: VM, view: DictView) -> list[Value]:
    """What walking a view of a dict gives."""
    of = vm.look(view.of)
    items = (
        containers.dict_items(vm, of)
        if isinstance(of, Object)
        else containers.mapping_items(vm, of)
    )
    match view.kind:
        case "keys":
            return [key for key, _ in items]
        case "values":
            return [value for _, value in items]
        case "items":
            return [Tuple((key, value)) for key, value in items]


def _zip(vm: VM, iterator: Iterator) -> Value | None:
    if not iterator.parts or _position(vm, iterator) >= FINISHED:
        return None
    found: list[Value] = []
    for k, part in enumerate(iterator.parts):
        item = _advance_part(vm, iterator, part)
        if item is None:
            _finish(vm, iterator)
            if iterator.strict:
                _check_strict(vm, iterator, k)
            return None
        found.append(item)
    _next_position(vm, iterator)
    return Tuple(tuple(found))


def _check_strict(vm: VM, iterator: Iterator, k: int) -> None:
    def named(count: int) -> str:
        return "argument 1" if count == 1 else f"arguments 1-{count}"

    if k:
        vm.raise_new(ValueError, f"zip() argument {k + 1} is shorter than {named(k)}")
    for j, part in enumerate(iterator.parts[1:], 1):
        if _advance_part(vm, iterator, part) is not None:
            vm.raise_new(ValueError, f"zip() argument {j + 1} is longer than {named(j)}")


def _enumerate(vm: VM, iterator: Iterator) -> Value | None:
    start = vm.look(iterator.parts[1])
    assert isinstance(start, Constant) and isinstance(start.value, int)
    item = _advance_part(vm, iterator, iterator.parts[0])
    if item is None:
        return None
    return Tuple((Constant(start.value + _next_position(vm, iterator)), item))


def _map(vm: VM, iterator: Iterator) -> Value | None:
    function, *parts = iterator.parts
    items: list[Value] = []
    for part in parts:
        item = vm.advance(part)
        if item is None:
            return None
        items.append(item)
    return vm.call(function, tuple(items))


def _filter(vm: VM, iterator: Iterator) -> Value | None:
    function, part = iterator.parts
    by_truth = vm.same(function, NONE)
    while (item := vm.advance(part)) is not None:
        if vm.truth(item if by_truth else vm.call(function, (item,))):
            return item
    return None


_STEPS = {
    "sequence": _sequence,
    "walk": _walk,
    "range": _constants,
    "string": _constants,
    "reversed": _reversed,
    "dict": _dict,
    "zip": _zip,
    "enumerate": _enumerate,
    "map": _map,
    "filter": _filter,
}
