"""Methods of list, tuple, deque and str."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import NoReturn

from jitpkg.tracer import classes, constants, containers, formatting, reasons, subscripts
from jitpkg.tracer.iterators import backwards, each, unpack_fast, walk_of
from jitpkg.tracer.operators import equal_items
from jitpkg.tracer.rows.functions import sorted_items
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import NONE, Constant, Iterator, Object, Tuple, Value
from jitpkg.tracer.vm import VM, Raised

TABLE = CallTable()


def _list(vm: VM, value: Value) -> Object:
    value = vm.look(value)
    if isinstance(value, Object) and issubclass(value.cls, list | collections.deque):
        return value
    vm.stop(reasons.OPAQUE, "a list method on something else")


def _items(vm: VM, value: Value) -> tuple[Value, ...]:
    value = vm.look(value)
    if isinstance(value, Tuple):
        return value.items
    return containers.list_items(vm, _list(vm, value))


def _raise_not_found(vm: VM, method: str, target: Value, item: Value) -> Value:
    """Raise what the method raises for an item that is not there; Pythons word it differently."""
    real = getattr(containers.base_class(_list(vm, target).cls), method)
    nothing = containers.new_list(vm, ())
    if real.__objclass__ is list and constants.is_constant(vm, item):
        return constants.fold(vm, real, (nothing, item))
    vm.stop(reasons.RAISES, "ValueError: an item is not there")


# Changing


@TABLE.row(list.append, collections.deque.append)
def append(vm: VM, target: Value, item: Value, /) -> Value:
    containers.append(vm, _list(vm, target), item)
    return NONE


@TABLE.row(list.extend, collections.deque.extend)
def extend(vm: VM, target: Value, iterable: Value, /) -> Value:
    itself = vm.look(iterable) is vm.look(target)
    hinted = not issubclass(vm.class_of(target), collections.deque)
    for item in _items(vm, target) if itself else each(vm, iterable, hinted=hinted):
        containers.append(vm, _list(vm, target), item)
    return NONE


@TABLE.row(list.__iadd__, collections.deque.__iadd__)
def iadd(vm: VM, target: Value, iterable: Value, /) -> Value:
    extend(vm, target, iterable)
    return target


@TABLE.row(list.insert)
def insert(vm: VM, target: Value, index: Value, item: Value, /) -> Value:
    changed = list(_items(vm, target))
    at = subscripts.constant_index(vm, index)
    changed.insert(at, item)
    containers.change_list(vm, _list(vm, target), changed, "insert", Constant(at), item)
    return NONE


@TABLE.row(list.pop)
def pop(vm: VM, target: Value, index: Value | None = None, /) -> Value:
    changed = list(_items(vm, target))
    at = -1 if index is None else subscripts.constant_index(vm, index)
    if not changed:
        vm.raise_new(IndexError, "pop from empty list")
    if not -len(changed) <= at < len(changed):
        vm.raise_new(IndexError, "pop index out of range")
    item = changed.pop(at)
    containers.change_list(vm, _list(vm, target), changed, "pop", Constant(at))
    return item


@TABLE.row(list.remove)
def remove(vm: VM, target: Value, item: Value, /) -> Value:
    changed = list(_items(vm, target))
    for at, member in enumerate(changed):
        if vm.equal(member, item):
            del changed[at]
            containers.change_list(vm, _list(vm, target), changed, "__delitem__", Constant(at))
            return NONE
    vm.raise_new(ValueError, "list.remove(x): x not in list")


@TABLE.row(list.clear, collections.deque.clear)
def clear(vm: VM, target: Value, /) -> Value:
    containers.change_list(vm, _list(vm, target), (), "clear")
    return NONE


@TABLE.row(list.reverse, collections.deque.reverse)
def reverse(vm: VM, target: Value, /) -> Value:
    containers.change_list(vm, _list(vm, target), _items(vm, target)[::-1], "reverse")
    return NONE


@TABLE.row(list.sort)
def sort(
    vm: VM, target: Value, /, *, key: Value | None = None, reverse: Value | None = None
) -> Value:
    try:
        changed = sorted_items(vm, list(_items(vm, target)), key, reverse)
    except Raised as raised:  # it would leave the list half sorted
        vm.stop(reasons.RAISES, raised.value.cls.__name__)
    everything = vm.call_object(slice, NONE, NONE)
    made = containers.new_list(vm, changed)
    containers.change_list(vm, _list(vm, target), changed, "__setitem__", everything, made)
    return NONE


@TABLE.row(list.__init__)
def init(vm: VM, target: Value, iterable: Value | None = None, /) -> Value:
    items = () if iterable is None else tuple(vm.unpack(iterable, hinted=True))
    made = containers.new_list(vm, items)
    containers.change_list(vm, _list(vm, target), items, "__init__", made)
    return NONE


@TABLE.row(list.__setitem__, collections.deque.__setitem__)
def setitem(vm: VM, target: Value, key: Value, value: Value, /) -> Value:
    subscripts.set_container_item(vm, _list(vm, target), vm.look(key), value)
    return NONE


@TABLE.row(list.__delitem__, collections.deque.__delitem__)
def delitem(vm: VM, target: Value, key: Value, /) -> Value:
    subscripts.delete_container_item(vm, _list(vm, target), vm.look(key))
    return NONE


@TABLE.row(collections.deque.appendleft)
def appendleft(vm: VM, target: Value, item: Value, /) -> Value:
    limit = containers.limit(vm, _list(vm, target))
    changed = (item, *_items(vm, target))[:limit]
    containers.change_list(vm, _list(vm, target), changed, "appendleft", item)
    return NONE


@TABLE.row(collections.deque.extendleft)
def extendleft(vm: VM, target: Value, iterable: Value, /) -> Value:
    itself = vm.look(iterable) is vm.look(target)
    for item in _items(vm, target) if itself else each(vm, iterable):
        appendleft(vm, target, item)
    return NONE


def _pop_end(method: str, at: int) -> Callable[..., Value]:
    def row(vm: VM, target: Value, /) -> Value:
        changed = list(_items(vm, target))
        if not changed:
            vm.raise_new(IndexError, "pop from an empty deque")
        item = changed.pop(at)
        containers.change_list(vm, _list(vm, target), changed, method)
        return item

    return row


TABLE.add(collections.deque.pop, _pop_end("pop", -1))
TABLE.add(collections.deque.popleft, _pop_end("popleft", 0))


@TABLE.row(collections.deque.rotate)
def rotate(vm: VM, target: Value, count: Value | None = None, /) -> Value:
    by = 1 if count is None else subscripts.constant_index(vm, count)
    changed = collections.deque(_items(vm, target))
    changed.rotate(by)
    containers.change_list(vm, _list(vm, target), tuple(changed), "rotate", Constant(by))
    return NONE


@TABLE.row(collections.deque.insert)
def deque_insert(vm: VM, target: Value, index: Value, item: Value, /) -> Value:
    index = Constant(subscripts.constant_index(vm, index))
    limit = containers.limit(vm, _list(vm, target))
    if limit is not None and len(_items(vm, target)) >= limit:
        vm.raise_new(IndexError, "deque already at its maximum size")
    return insert(vm, target, index, item)


@TABLE.row(collections.deque.remove)
def deque_remove(vm: VM, target: Value, item: Value, /) -> Value:
    changed = list(_items(vm, target))
    for at, member in enumerate(changed):
        if vm.equal(member, item):
            del changed[at]
            containers.change_list(vm, _list(vm, target), changed, "__delitem__", Constant(at))
            return NONE
    return _raise_not_found(vm, "remove", target, item)


# Reading


def _deque_like(vm: VM, model: Value, items: Sequence[Value]) -> Value:
    """A new deque with the `maxlen` of another."""
    model = _list(vm, model)
    if model.cls is not collections.deque:
        vm.stop(reasons.UNSUPPORTED, "a copy of a subclass of deque")
    limit = containers.limit(vm, model)
    kept = tuple(items) if limit is None else tuple(items)[max(0, len(items) - limit) :]
    made = containers.new_list(vm, kept, collections.deque)
    containers.set_limit(vm, made, limit)
    return made


@TABLE.row(collections.deque.copy, collections.deque.__copy__)
def deque_copy(vm: VM, target: Value, /) -> Value:
    return _deque_like(vm, target, _items(vm, target))


@TABLE.row(collections.deque.__add__)
def deque_add(vm: VM, a: Value, b: Value, /) -> Value:
    if not issubclass(vm.class_of(b), collections.deque):
        _refuse_concatenation(vm, a, b)
    return _deque_like(vm, a, (*_items(vm, a), *_items(vm, b)))


@TABLE.row(collections.deque.__mul__, collections.deque.__rmul__)
def deque_mul(vm: VM, a: Value, times: Value, /) -> Value:
    return _deque_like(vm, a, _items(vm, a) * subscripts.constant_index(vm, times))


@TABLE.row(collections.deque.__reversed__, list.__reversed__)
def reversed_(vm: VM, target: Value, /) -> Value:
    value = _list(vm, target)
    if issubclass(value.cls, collections.deque):
        return walk_of(vm, value, _items(vm, value)[::-1], backwards=True)
    return backwards(vm, value)


@TABLE.row(list.copy)
def copy(vm: VM, target: Value, /) -> Value:
    return containers.new_list(vm, _items(vm, target))


@TABLE.row(list.index, tuple.index, collections.deque.index)
def index(
    vm: VM, target: Value, item: Value, start: Value | None = None, stop: Value | None = None, /
) -> Value:
    items = _items(vm, target)
    first = 0 if start is None else subscripts.constant_index(vm, start)
    last = len(items) if stop is None else subscripts.constant_index(vm, stop)
    for at in range(len(items))[first:last]:
        if vm.equal(items[at], item):
            return Constant(at)
    if isinstance(vm.look(target), Tuple):
        vm.raise_new(ValueError, "tuple.index(x): x not in tuple")
    return _raise_not_found(vm, "index", target, item)


@TABLE.row(list.count, tuple.count, collections.deque.count)
def count_(vm: VM, target: Value, item: Value, /) -> Value:
    return Constant(sum(vm.equal(member, item) for member in _items(vm, target)))


@TABLE.row(list.__getitem__, tuple.__getitem__, collections.deque.__getitem__)
def getitem(vm: VM, target: Value, key: Value, /) -> Value:
    value = vm.look(target)
    if isinstance(value, Tuple):
        return subscripts.get(vm, Tuple(value.items), key)
    return subscripts.container_item(vm, _list(vm, target), vm.look(key))


@TABLE.row(list.__len__, collections.deque.__len__)
def len_(vm: VM, target: Value, /) -> Value:
    return Constant(containers.length(vm, _list(vm, target)))


@TABLE.row(tuple.__len__)
def tuple_len(vm: VM, target: Value, /) -> Value:
    return Constant(len(_items(vm, target)))


@TABLE.row(list.__iter__, tuple.__iter__, collections.deque.__iter__)
def iter_(vm: VM, target: Value, /) -> Value:
    value = vm.look(target)
    if isinstance(value, Tuple):
        return vm.iterate(Tuple(value.items))
    value = _list(vm, value)
    if issubclass(value.cls, collections.deque):
        return walk_of(vm, value, _items(vm, value))
    return Iterator("sequence", (value,))


@TABLE.row(list.__contains__, tuple.__contains__, collections.deque.__contains__)
def contains(vm: VM, target: Value, item: Value, /) -> Value:
    return Constant(any(vm.equal(member, item) for member in _items(vm, target)))


def _same_kind(vm: VM, a: Value, b: Value) -> bool:
    b = vm.look(b)
    own = vm.class_of(a)
    kind = next(cls for cls in (tuple, list, collections.deque) if issubclass(own, cls))
    return issubclass(vm.class_of(b), kind)


def _refuse_concatenation(vm: VM, a: Value, b: Value) -> NoReturn:
    own = vm.class_of(a)
    kind = next(cls for cls in (tuple, list, collections.deque) if issubclass(own, cls)).__name__
    other = classes.shown(vm.class_of(b))
    vm.raise_new(TypeError, f'can only concatenate {kind} (not "{other}") to {kind}')


@TABLE.row(list.__add__, tuple.__add__)
def add(vm: VM, a: Value, b: Value, /) -> Value:
    if not _same_kind(vm, a, b):
        _refuse_concatenation(vm, a, b)
    a, b = vm.look(a), vm.look(b)
    items = (*_items(vm, a), *_items(vm, b))
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        for whole, nothing in ((a, b), (b, a)):  # adding () gives the very tuple
            if not nothing.items and whole.cls is tuple:
                return whole
        return Tuple(items)
    return containers.new_list(vm, items)


@TABLE.row(list.__mul__, list.__rmul__, tuple.__mul__, tuple.__rmul__)
def mul(vm: VM, a: Value, times: Value, /) -> Value:
    count = subscripts.constant_index(vm, times)
    items = _items(vm, a) * count
    a = vm.look(a)
    if isinstance(a, Tuple):
        return a if count == 1 and a.cls is tuple else Tuple(items)
    return containers.new_list(vm, items)


@TABLE.row(list.__imul__)
def imul(vm: VM, target: Value, times: Value, /) -> Value:
    by = subscripts.constant_index(vm, times)
    changed = _items(vm, target) * by
    containers.change_list(vm, _list(vm, target), changed, "__imul__", Constant(by))
    return target


def _compare_row(cls: type, name: str) -> Callable[..., Value]:
    """Sequences are compared by their first items that differ, then by length."""

    def row(vm: VM, a: Value, b: Value, /) -> Value:
        if not _same_kind(vm, a, b):
            return Constant(NotImplemented)
        left, right = _items(vm, a), _items(vm, b)
        if name in ("==", "!="):
            equal = equal_items(vm, left, right, of_tuples=cls is tuple)
            return Constant(equal == (name == "=="))
        for x, y in zip(left, right, strict=False):
            if not vm.equal(x, y):
                return vm.compare(name, x, y)
        return vm.compare(name, Constant(len(left)), Constant(len(right)))

    return row


for _cls in (list, tuple, collections.deque):
    for _name, _method in (
        ("==", "__eq__"),
        ("!=", "__ne__"),
        ("<", "__lt__"),
        ("<=", "__le__"),
        (">", "__gt__"),
        (">=", "__ge__"),
    ):
        TABLE.add(getattr(_cls, _method), _compare_row(_cls, _name))


# str


@TABLE.row(str.join, bytes.join)
def join(vm: VM, separator: Value, iterable: Value, /) -> Value:
    items: Sequence[Value] = unpack_fast(vm, iterable)
    pieces = Tuple(tuple(items))
    if not constants.foldable(vm, (separator, pieces), {}):
        vm.stop(reasons.RAISES, "join() of something that is no string")
    first = constants.python_value(vm, separator)
    return constants.fold(vm, type(first).join, (separator, pieces))


@TABLE.row(str.format)
def format_(vm: VM, template: Value, /, *args: Value, **kwargs: Value) -> Value:
    made = None if kwargs else formatting.of_numbers(vm, str.format, (template, *args))
    if made is not None:
        return made
    if constants.foldable(vm, (template, *args), kwargs):
        return constants.fold(vm, str.format, (template, *args), kwargs)
    vm.stop(reasons.UNSUPPORTED, "str.format() of objects")
