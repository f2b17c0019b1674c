"""Builtin classes, called."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import torch

from jitpkg.tracer import (
    classes,
    constants,
    construction,
    containers,
    formatting,
    protocols,
    readings,
    reasons,
    subscripts,
)
from jitpkg.tracer.iterators import each
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import (
    FALSE,
    NONE,
    Constant,
    InstanceDict,
    Known,
    Method,
    Number,
    Object,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM, Raised

TABLE = CallTable()


@TABLE.row(bool)
def bool_(vm: VM, value: Value | None = None, /) -> Value:
    if value is None:
        return FALSE
    value = vm.glance(value)
    read = readings.by_class(vm, bool, (value,), {}) if isinstance(value, Tensor) else None
    return Constant(vm.truth(value)) if read is None else read


def _number(cls: type, special: str) -> Callable[..., Value]:
    def row(vm: VM, *args: Value, **kwargs: Value) -> Value:
        if constants.foldable(vm, args, kwargs):
            return constants.fold(vm, cls, args, kwargs)
        value = vm.look(args[0])
        if isinstance(value, Tensor):
            read = readings.by_class(vm, cls, args, kwargs)
            if read is not None:
                return read
            vm.stop(reasons.DATA_VALUE, f"{cls.__name__}() of a tensor")
        for name, gives in ((special, cls), ("__index__", int)):
            method = vm.method_of_class(value, name)
            if method is not None and len(args) == 1 and not kwargs:
                found = protocols.of_class(vm, gives, name, vm.call(method, ()))
                return found if gives is cls else vm.call_object(cls, found)
        vm.stop(reasons.RAISES, f"{cls.__name__}() of a {vm.class_of(value).__qualname__}")

    return row


TABLE.add(int, _number(int, "__int__"))
TABLE.add(float, _number(float, "__float__"))
TABLE.add(complex, _number(complex, "__complex__"))


@TABLE.row(str)
def str_(vm: VM, *args: Value, **kwargs: Value) -> Value:
    if not args and not kwargs:
        return Constant("")
    if len(args) == 1 and not kwargs:
        return formatting.text(vm, args[0])
    if constants.foldable(vm, args, kwargs):
        return constants.fold(vm, str, args, kwargs)
    vm.stop(reasons.UNSUPPORTED, "str() with an encoding")


@TABLE.row(range)
def range_(vm: VM, *bounds: Value) -> Value:
    if constants.foldable(vm, bounds, {}):
        return constants.fold(vm, range, bounds)
    indices = tuple(Constant(subscripts.constant_index(vm, bound)) for bound in bounds)
    return constants.fold(vm, range, indices)


@TABLE.row(type)
def type_(vm: VM, *args: Value, **kwargs: Value) -> Value:
    if len(args) != 1 or kwargs:
        vm.stop(reasons.STATEMENT, "a class made by type()")
    value = vm.glance(args[0])
    if isinstance(value, Method):
        vm.stop(reasons.UNSUPPORTED, "type() of a bound method")
    return vm.trusted(vm.class_of(value))


# Containers


@TABLE.row(tuple)
def tuple_(vm: VM, iterable: Value | None = None, /) -> Value:
    if iterable is None:
        return Tuple(())
    value = vm.look(iterable)
    if isinstance(value, Tuple) and value.cls is tuple:
        return value
    return Tuple(tuple(vm.unpack(value, hinted=True)))


@TABLE.row(list)
def list_(vm: VM, iterable: Value | None = None, /) -> Value:
    items = () if iterable is None else vm.unpack(iterable, hinted=True)
    return containers.new_list(vm, tuple(items))


@TABLE.row(set)
def set_(vm: VM, iterable: Value | None = None, /) -> Value:
    return _new_set(vm, iterable, set)


@TABLE.row(frozenset)
def frozenset_(vm: VM, iterable: Value | None = None, /) -> Value:
    value = None if iterable is None else vm.look(iterable)
    if isinstance(value, Object) and value.cls is frozenset:
        return value
    return _new_set(vm, value, frozenset)


def _new_set(vm: VM, iterable: Value | None, cls: type) -> Value:
    if iterable is None:
        return containers.new_set(vm, (), cls)
    given = vm.look(iterable)
    if isinstance(given, Object) and issubclass(given.cls, set | frozenset):
        members = [entry.key for entry in containers.all_entries(vm, given).entries.values()]
        return containers.mark_reordered(vm, containers.new_set(vm, members, cls))
    return containers.new_set(vm, vm.unpack(given), cls)


@TABLE.row(dict)
def dict_(vm: VM, *args: Value, **kwargs: Value) -> Value:
    made = containers.new_dict(vm, ())
    update_mapping(vm, made, args, kwargs)
    return made


def update_mapping(vm: VM, target: Object, args: tuple[Value, ...], kwargs: Any) -> None:
    """What `dict(*args, **kwargs)` puts into a dict; an OrderedDict by its own `__setitem__`."""
    if len(args) > 1:
        vm.stop(reasons.RAISES, "dict() takes one mapping")
    ordered = issubclass(target.cls, collections.OrderedDict)
    put = subscripts.set_ if ordered else containers.set_item
    if args:
        for key, value in _pairs_for(vm, target, args[0]):
            put(vm, target, key, value)
    for name, value in kwargs.items():
        put(vm, target, Constant(name), value)


def _pairs_for(vm: VM, target: Object, mapping: Value) -> Iterator[tuple[Value, Value]]:
    try:
        yield from pairs(vm, mapping)
    except Raised as raised:
        if issubclass(target.cls, collections.OrderedDict):  # it words its errors in its own way
            vm.stop(reasons.RAISES, raised.value.cls.__name__)
        raise


def pairs(vm: VM, mapping: Value) -> Iterator[tuple[Value, Value]]:
    """Keys and values of a mapping, or of an iterable of pairs."""
    mapping = vm.look(mapping)
    if isinstance(mapping, InstanceDict) or (
        isinstance(mapping, Object) and vm.method_of_class(mapping, "keys") is not None
    ):
        yield from containers.mapping_items(vm, mapping)
        return
    for k, item in enumerate(each(vm, mapping)):
        yield _pair(vm, k, item)


def _pair(vm: VM, k: int, item: Value) -> tuple[Value, Value]:
    where = f"dictionary update sequence element #{k}"
    try:
        parts = vm.unpack(item)
    except Raised as raised:
        if not issubclass(raised.value.cls, TypeError):
            raise
        vm.raise_new(TypeError, f"cannot convert {where} to a sequence")
    if len(parts) != 2:
        vm.raise_new(ValueError, f"{where} has length {len(parts)}; 2 is required")
    return parts[0], parts[1]


@TABLE.row(collections.OrderedDict)
def ordered_dict(vm: VM, *args: Value, **kwargs: Value) -> Value:
    made = containers.new_dict(vm, (), collections.OrderedDict)
    update_mapping(vm, made, args, kwargs)
    return made


@TABLE.row(collections.defaultdict)
def defaultdict(vm: VM, factory: Value = NONE, /, *args: Value, **kwargs: Value) -> Value:
    made = containers.new_dict(vm, (), collections.defaultdict)
    containers.set_factory(vm, made, factory)
    update_mapping(vm, made, args, kwargs)
    return made


def _maxlen(vm: VM, maxlen: Value) -> int | None:
    maxlen = vm.look(maxlen)
    if not isinstance(maxlen, Constant) or not isinstance(maxlen.value, int | None):
        vm.stop(reasons.RAISES, "a deque's maxlen that is no number")
    if maxlen.value is not None and maxlen.value < 0:
        vm.raise_new(ValueError, "maxlen must be non-negative")
    return maxlen.value


@TABLE.row(collections.deque)
def deque(vm: VM, iterable: Value | None = None, maxlen: Value = NONE) -> Value:
    limit = _maxlen(vm, maxlen)
    items = () if iterable is None else tuple(vm.unpack(iterable))
    kept = items if limit is None else items[max(0, len(items) - limit) :]
    made = containers.new_list(vm, kept, collections.deque)
    containers.set_limit(vm, made, limit)
    return made


# Wrappers


@TABLE.row(object)
def object_(vm: VM) -> Value:
    return Object(object)


@TABLE.row(torch.Size)
def size(vm: VM, iterable: Value | None = None, /) -> Value:
    items = () if iterable is None else tuple(map(vm.peek, vm.unpack(iterable)))
    if not all(isinstance(item, Constant | Number) and type(item.value) is int for item in items):
        vm.stop(reasons.UNSUPPORTED, "torch.Size() of something else than numbers")
    return Tuple(items, torch.Size)


@TABLE.row(type.__call__)
def type_call(vm: VM, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    return construction.type_call(vm, cls, args, kwargs)


@TABLE.row(
    object.__new__,
    list.__new__,
    dict.__new__,
    set.__new__,
    frozenset.__new__,
    tuple.__new__,
    BaseException.__new__,
)
def new(vm: VM, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    cls = vm.look(cls)
    assert isinstance(cls, Known) and isinstance(cls.obj, type)
    base = next(b for b in classes.mro(cls.obj) if b.__module__ in ("builtins", "collections"))
    return construction.builtin_new(vm, cls.obj, base.__new__, args, kwargs)
