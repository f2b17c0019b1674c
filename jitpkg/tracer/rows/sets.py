"""Methods of set and frozenset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from jitpkg.tracer import classes, containers, reasons
from jitpkg.tracer.heap import Entry
from jitpkg.tracer.iterators import each, walk_of
from jitpkg.tracer.keys import key_of
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import NONE, Constant, Object, Value
from jitpkg.tracer.vm import VM

TABLE = CallTable()


def _set(vm: VM, value: Value) -> Object:
    value = vm.look(value)
    if isinstance(value, Object) and issubclass(value.cls, set | frozenset):
        return value
    vm.stop(reasons.OPAQUE, "a set method on something else")


def _each_member(vm: VM, value: Value) -> Iterator[Value]:
    """Elements of a set, or of any iterable, in an order that must not be observed."""
    value = vm.look(value)
    if isinstance(value, Object) and issubclass(value.cls, set | frozenset):
        yield from [entry.key for entry in containers.all_entries(vm, value).entries.values()]
    else:
        yield from each(vm, value)


def _members(vm: VM, value: Value) -> list[Value]:
    return list(_each_member(vm, value))


@TABLE.row(set.add)
def add(vm: VM, target: Value, item: Value, /) -> Value:
    containers.add(vm, _set(vm, target), item)
    return NONE


@TABLE.row(set.discard)
def discard(vm: VM, target: Value, item: Value, /) -> Value:
    if containers.has_key(vm, _set(vm, target), item):
        containers.remove(vm, _set(vm, target), item, set.discard)
    return NONE


@TABLE.row(set.remove)
def remove(vm: VM, target: Value, item: Value, /) -> Value:
    if not containers.has_key(vm, _set(vm, target), item):
        vm.raise_new(KeyError, item)
    containers.remove(vm, _set(vm, target), item, set.remove)
    return NONE


@TABLE.row(set.clear)
def clear(vm: VM, target: Value, /) -> Value:
    nothing: list[Entry] = []
    containers.replace_entries(vm, _set(vm, target), nothing, set.clear)
    return NONE


@TABLE.row(set.update)
def update(vm: VM, target: Value, /, *iterables: Value) -> Value:
    for iterable in iterables:
        for item in _each_member(vm, iterable):
            containers.add(vm, _set(vm, target), item)
        if issubclass(vm.class_of(iterable), set | frozenset):
            containers.mark_reordered(vm, _set(vm, target))
    return NONE


@TABLE.row(set.__init__)
def init(vm: VM, target: Value, iterable: Value | None = None, /) -> Value:
    if iterable is not None:
        update(vm, target, iterable)
    return NONE


@TABLE.row(set.__len__, frozenset.__len__)
def len_(vm: VM, target: Value, /) -> Value:
    return Constant(containers.length(vm, _set(vm, target)))


@TABLE.row(set.__contains__, frozenset.__contains__)
def contains(vm: VM, target: Value, item: Value, /) -> Value:
    return Constant(containers.has_key(vm, _set(vm, target), item))


@TABLE.row(set.copy, frozenset.copy)
def copy(vm: VM, target: Value, /) -> Value:
    value = _set(vm, target)
    if value.cls is frozenset:
        return value
    made = containers.new_set(vm, _members(vm, value), _class(vm, value))
    return containers.mark_reordered(vm, made)


@TABLE.row(set.__iter__, frozenset.__iter__)
def iter_(vm: VM, target: Value, /) -> Value:
    value = _set(vm, target)
    return walk_of(vm, value, tuple(containers.elements(vm, value)))


# Algebra


def _class(vm: VM, value: Value) -> type:
    return frozenset if issubclass(_set(vm, value).cls, frozenset) else set


def _keys(vm: VM, members: Sequence[Value]) -> set[object]:
    return {key_of(vm, member) for member in members}


def _union(vm: VM, left: list[Value], right: list[Value]) -> list[Value]:
    return [*left, *right]


def _intersection(vm: VM, left: list[Value], right: list[Value]) -> list[Value]:
    keys = _keys(vm, right)
    return [member for member in left if key_of(vm, member) in keys]


def _difference(vm: VM, left: list[Value], right: list[Value]) -> list[Value]:
    keys = _keys(vm, right)
    return [member for member in left if key_of(vm, member) not in keys]


def _symmetric(vm: VM, left: list[Value], right: list[Value]) -> list[Value]:
    return [*_difference(vm, left, right), *_difference(vm, right, left)]


Operation = Callable[[VM, list[Value], list[Value]], list[Value]]


def _method_row(operation: Operation) -> Callable[..., Value]:
    def row(vm: VM, target: Value, /, *others: Value) -> Value:
        members = _members(vm, target)
        for other in others:
            members = operation(vm, members, _members(vm, other))
        return containers.mark_reordered(vm, containers.new_set(vm, members, _class(vm, target)))

    return row


def _operator_row(operation: Operation) -> Callable[..., Value]:
    def row(vm: VM, a: Value, b: Value, /) -> Value:
        if not issubclass(vm.class_of(b), set | frozenset):
            return Constant(NotImplemented)
        members = operation(vm, _members(vm, a), _members(vm, b))
        return containers.mark_reordered(vm, containers.new_set(vm, members, _class(vm, a)))

    return row


for _cls in (set, frozenset):
    for _name, _special, _operation in (
        ("union", "__or__", _union),
        ("intersection", "__and__", _intersection),
        ("difference", "__sub__", _difference),
        ("symmetric_difference", "__xor__", _symmetric),
    ):
        TABLE.add(getattr(_cls, _name), _method_row(_operation))
        TABLE.add(getattr(_cls, _special), _operator_row(_operation))


def _relation(compare: Callable[[set[object], set[object]], bool]) -> Callable[..., Value]:
    def row(vm: VM, a: Value, b: Value, /) -> Value:
        if not issubclass(vm.class_of(b), set | frozenset):
            return Constant(NotImplemented)
        return Constant(compare(_keys(vm, _members(vm, a)), _keys(vm, _members(vm, b))))

    return row


def _test(compare: Callable[[set[object], set[object]], bool]) -> Callable[..., Value]:
    def row(vm: VM, a: Value, b: Value, /) -> Value:
        return Constant(compare(_keys(vm, _members(vm, a)), _keys(vm, _members(vm, b))))

    return row


@TABLE.row(set.isdisjoint, frozenset.isdisjoint)
def isdisjoint(vm: VM, target: Value, other: Value, /) -> Value:
    """Takes no more of an iterable than it needs."""
    other = vm.look(other)
    cls, of = vm.class_of(other), _set(vm, target)
    base = set if issubclass(cls, set) else frozenset
    if issubclass(cls, base) and classes.inherits(vm, cls, base, "__iter__"):
        return Constant(_keys(vm, _members(vm, of)).isdisjoint(_keys(vm, _members(vm, other))))
    return Constant(not any(containers.has_key(vm, of, item) for item in each(vm, other)))


for _cls in (set, frozenset):
    TABLE.add(_cls.__eq__, _relation(lambda a, b: a == b))
    TABLE.add(_cls.__ne__, _relation(lambda a, b: a != b))
    TABLE.add(_cls.__le__, _relation(lambda a, b: a <= b))
    TABLE.add(_cls.__lt__, _relation(lambda a, b: a < b))
    TABLE.add(_cls.__ge__, _relation(lambda a, b: a >= b))
    TABLE.add(_cls.__gt__, _relation(lambda a, b: a > b))
    TABLE.add(_cls.issubset, _test(lambda a, b: a <= b))
    TABLE.add(_cls.issuperset, _test(lambda a, b: a >= b))


# Changing by algebra


def _keep(vm: VM, target: Value, kept: list[Value]) -> Value:
    """Take everything else out of a set."""
    keys = _keys(vm, kept)
    for member in _members(vm, target):
        if key_of(vm, member) not in keys:
            containers.remove(vm, _set(vm, target), member, set.discard)
    return NONE


@TABLE.row(set.difference_update)
def difference_update(vm: VM, target: Value, /, *others: Value) -> Value:
    for other in others:
        for item in _each_member(vm, other):
            discard(vm, target, item)
    return NONE


@TABLE.row(set.intersection_update)
def intersection_update(vm: VM, target: Value, /, *others: Value) -> Value:
    for other in others:
        _keep(vm, target, _intersection(vm, _members(vm, target), _members(vm, other)))
    return NONE


@TABLE.row(set.symmetric_difference_update)
def symmetric_difference_update(vm: VM, target: Value, other: Value, /) -> Value:
    members = containers.new_list(vm, _members(vm, other))
    new = _difference(vm, _members(vm, members), _members(vm, target))
    difference_update(vm, target, members)
    return update(vm, target, containers.new_list(vm, new))


def _in_place(method: Callable[..., Value]) -> Callable[..., Value]:
    def row(vm: VM, target: Value, other: Value, /) -> Value:
        if not issubclass(vm.class_of(other), set | frozenset):
            return Constant(NotImplemented)
        method(vm, target, other)
        return target

    return row


TABLE.add(set.__ior__, _in_place(update))
TABLE.add(set.__iand__, _in_place(intersection_update))
TABLE.add(set.__isub__, _in_place(difference_update))
TABLE.add(set.__ixor__, _in_place(symmetric_difference_update))


@TABLE.row(set.pop)
def pop(vm: VM, target: Value, /) -> Value:
    members = _members(vm, target)
    if not members:
        vm.raise_new(KeyError, "pop from an empty set")
    if len(members) > 1:
        vm.stop(reasons.UNORDERED, "set.pop()")
    containers.remove(vm, _set(vm, target), members[0], set.discard)
    return members[0]
