"""Methods of dict and its relatives, and of their views."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any, NoReturn

from jitpkg.tracer import classes, containers, reasons, subscripts
from jitpkg.tracer.heap import Entry
from jitpkg.tracer.iterators import backwards
from jitpkg.tracer.keys import key_of
from jitpkg.tracer.polyfills.builtin_functions import (
    copy_ordered,
    reversed_items,
    reversed_values,
    setdefault_ordered,
)
from jitpkg.tracer.rows.conversions import pairs, update_mapping
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import (
    NONE,
    TRUE,
    Constant,
    DictView,
    InstanceDict,
    Known,
    Object,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM

TABLE = CallTable()
OrderedDict = collections.OrderedDict
Proxy = types.MappingProxyType


def _dict(vm: VM, value: Value) -> Object:
    value = vm.look(value)
    if isinstance(value, Object) and issubclass(value.cls, dict):
        return value
    vm.stop(reasons.UNSUPPORTED, "a change of an attribute dictionary")


def _proxied(vm: VM, target: Value) -> Value:
    """What a mapping proxy shows; anything else is itself."""
    target = vm.look(target)
    if isinstance(target, Object) and target.cls is types.MappingProxyType:
        content = vm.heap.read(target, "content")
        assert content is not None
        return vm.look(content)
    return target


def _find(vm: VM, target: Value, key: Value) -> Value | None:
    target = _proxied(vm, target)
    if isinstance(target, Known) and isinstance(target.obj, type):
        name = vm.look(key)
        if not isinstance(name, Constant) or not isinstance(name.value, str):
            return None
        return classes.own_member(vm, target.obj, name.value)
    if isinstance(target, InstanceDict):
        name = vm.look(key)
        if not isinstance(name, Constant) or not isinstance(name.value, str):
            return None
        return vm.instance_attribute(target.of, name.value)
    return containers.find(vm, _dict(vm, target), key)


# Reading


@TABLE.row(dict.get, Proxy.get)
def get(vm: VM, target: Value, key: Value, default: Value = NONE, /) -> Value:
    found = _find(vm, target, key)
    return default if found is None else found


@TABLE.row(dict.__getitem__, Proxy.__getitem__)
def getitem(vm: VM, target: Value, key: Value, /) -> Value:
    value = _proxied(vm, target)
    if isinstance(value, Known):
        found = _find(vm, value, key)
        if found is None:
            vm.raise_new(KeyError, key)
        return found
    if isinstance(value, InstanceDict):
        return subscripts.get(vm, value, key)
    return subscripts.container_item(vm, _dict(vm, value), vm.look(key))


@TABLE.row(collections.defaultdict.__missing__)
def missing(vm: VM, target: Value, key: Value, /) -> Value:
    return subscripts.missing_default(vm, _dict(vm, target), key)


@TABLE.row(dict.__contains__, Proxy.__contains__)
def contains(vm: VM, target: Value, key: Value, /) -> Value:
    return Constant(_find(vm, target, key) is not None)


@TABLE.row(dict.__len__, Proxy.__len__)
def len_(vm: VM, target: Value, /) -> Value:
    value = _proxied(vm, target)
    if isinstance(value, InstanceDict):
        return Constant(len(containers.instance_items(vm, value)))
    return Constant(containers.length(vm, _dict(vm, value)))


@TABLE.row(dict.__iter__, OrderedDict.__iter__, Proxy.__iter__)
def iter_(vm: VM, target: Value, /) -> Value:
    return vm.iterate(keys(vm, target))


def _of(vm: VM, target: Value) -> Object | InstanceDict:
    target = _proxied(vm, target)
    return target if isinstance(target, InstanceDict) else _dict(vm, target)


@TABLE.row(dict.keys, OrderedDict.keys, Proxy.keys)
def keys(vm: VM, target: Value, /) -> Value:
    return DictView(_of(vm, target), "keys")


@TABLE.row(dict.values, OrderedDict.values, Proxy.values)
def values(vm: VM, target: Value, /) -> Value:
    return DictView(_of(vm, target), "values")


@TABLE.row(dict.items, OrderedDict.items, Proxy.items)
def items(vm: VM, target: Value, /) -> Value:
    return DictView(_of(vm, target), "items")


@TABLE.row(dict.copy, OrderedDict.copy, Proxy.copy)
def copy(vm: VM, target: Value, /) -> Value:
    value = _of(vm, target)
    if _is_ordered_subclass(value) and vm.look(target) is value:
        return vm.call_object(copy_ordered, value)
    cls = OrderedDict if isinstance(value, Object) and value.cls is OrderedDict else dict
    return containers.new_dict(vm, containers.mapping_items(vm, value), cls)


@TABLE.row(dict.__eq__, OrderedDict.__eq__)
def eq(vm: VM, a: Value, b: Value, /) -> Value:
    equal = _equal(vm, a, b)
    return Constant(NotImplemented if equal is None else equal)


@TABLE.row(dict.__ne__, OrderedDict.__ne__)
def ne(vm: VM, a: Value, b: Value, /) -> Value:
    equal = _equal(vm, a, b)
    return Constant(NotImplemented if equal is None else not equal)


def _equal(vm: VM, a: Value, b: Value) -> bool | None:
    b = vm.look(b)
    if not issubclass(vm.class_of(b), dict):
        return None
    left, right = containers.dict_items(vm, _dict(vm, a)), _dict(vm, b)
    others = containers.dict_items(vm, right)
    if len(left) != len(others):
        return False
    if all(issubclass(vm.class_of(side), OrderedDict) for side in (a, b)):
        return all(
            vm.equal(k, j) and vm.equal(v, w) for (k, v), (j, w) in zip(left, others, strict=True)
        )
    for key, value in left:
        found = containers.find(vm, right, key)
        if found is None or not vm.equal(value, found):
            return False
    return True


@TABLE.row(dict.__or__)
def or_(vm: VM, a: Value, b: Value, /) -> Value:
    if not issubclass(vm.class_of(b), dict):
        return Constant(NotImplemented)
    merged = containers.new_dict(vm, containers.dict_items(vm, _dict(vm, a)))
    for key, value in containers.dict_items(vm, _dict(vm, b)):
        containers.set_item(vm, merged, key, value)
    return merged


# Changing


@TABLE.row(dict.__setitem__, OrderedDict.__setitem__)
def setitem(vm: VM, target: Value, key: Value, value: Value, /) -> Value:
    attributes = vm.look(target)
    if isinstance(attributes, InstanceDict):
        subscripts.set_(vm, attributes, key, value)
    else:
        containers.set_item(vm, _dict(vm, target), key, value)
    return NONE


@TABLE.row(dict.__delitem__, OrderedDict.__delitem__)
def delitem(vm: VM, target: Value, key: Value, /) -> Value:
    attributes = vm.look(target)
    if isinstance(attributes, InstanceDict):
        subscripts.delete(vm, attributes, key)
    else:
        subscripts.delete_container_item(vm, _dict(vm, target), vm.look(key))
    return NONE


def _is_ordered_subclass(value: Value) -> bool:
    """Whether it is of a subclass of OrderedDict, some of whose methods call others."""
    if not isinstance(value, Object):
        return False
    return issubclass(value.cls, OrderedDict) and value.cls is not OrderedDict


@TABLE.row(dict.setdefault, OrderedDict.setdefault)
def setdefault(vm: VM, target: Value, key: Value, default: Value = NONE, /) -> Value:
    if _is_ordered_subclass(vm.look(target)):
        return vm.call_object(setdefault_ordered, target, key, default)
    found = _find(vm, target, key)
    if found is None:
        setitem(vm, target, key, default)
        return default
    return found


@TABLE.row(dict.pop, OrderedDict.pop)
def pop(vm: VM, target: Value, key: Value, default: Value | None = None, /) -> Value:
    is_dict = not issubclass(vm.class_of(target), OrderedDict)
    is_empty = is_dict and not vm.truth(len_(vm, target))  # then the key is not hashed
    found = None if is_empty else _find(vm, target, key)
    if found is not None:
        delitem(vm, target, key)
        return found
    if default is None:
        _raise_key_error(vm, vm.look(target), key)
    return default


def _raise_key_error(vm: VM, target: Value, key: Value) -> NoReturn:
    """An OrderedDict takes None for no argument, and a tuple for several."""
    key = vm.look(key)
    is_plain = isinstance(key, Constant) and key.value is not None
    if issubclass(vm.class_of(target), OrderedDict) and not is_plain:
        vm.stop(reasons.RAISES, "KeyError")
    vm.raise_new(KeyError, key)


@TABLE.row(dict.popitem)
def popitem(vm: VM, target: Value, /) -> Value:
    entries = containers.dict_items(vm, _dict(vm, target))
    if not entries:
        vm.raise_new(KeyError, "popitem(): dictionary is empty")
    key, value = entries[-1]
    containers.delete_item(vm, _dict(vm, target), key)
    return Tuple((key, value))


@TABLE.row(OrderedDict.popitem)
def ordered_popitem(vm: VM, target: Value, last: Value = TRUE) -> Value:
    entries = containers.dict_items(vm, _dict(vm, target))
    if not entries:
        vm.raise_new(KeyError, "dictionary is empty")
    key, value = entries[-1] if vm.truth(last) else entries[0]
    containers.delete_item(vm, _dict(vm, target), key)
    return Tuple((key, value))


@TABLE.row(OrderedDict.move_to_end)
def move_to_end(vm: VM, target: Value, key: Value, last: Value = TRUE) -> Value:
    ordered = _dict(vm, target)
    entries = list(containers.all_entries(vm, ordered).entries.values())
    name = key_of(vm, key)
    moved = [e for e in entries if key_of(vm, e.key) == name]
    if not moved:
        _raise_key_error(vm, ordered, key)
    others = [e for e in entries if e is not moved[0]]
    changed = [*others, *moved] if vm.truth(last) else [*moved, *others]
    containers.replace_entries(
        vm, ordered, changed, OrderedDict.move_to_end, key, Constant(vm.truth(last))
    )
    return NONE


@TABLE.row(dict.clear, OrderedDict.clear)
def clear(vm: VM, target: Value, /) -> Value:
    nothing: list[Entry] = []
    containers.replace_entries(vm, _dict(vm, target), nothing, dict.clear)
    return NONE


@TABLE.row(dict.update, OrderedDict.update)
def update(vm: VM, target: Value, /, *args: Value, **kwargs: Value) -> Value:
    attributes = vm.look(target)
    if isinstance(attributes, InstanceDict):
        given = containers.new_dict(vm, ())
        update_mapping(vm, given, args, kwargs)
        for key, value in containers.dict_items(vm, given):
            subscripts.set_(vm, attributes, key, value)
        return NONE
    update_mapping(vm, _dict(vm, target), args, kwargs)
    return NONE


@TABLE.row(dict.__init__, OrderedDict.__init__)
def init(vm: VM, target: Value, /, *args: Value, **kwargs: Value) -> Value:
    update_mapping(vm, _dict(vm, target), args, kwargs)
    return NONE


@TABLE.row(collections.defaultdict.__init__)
def defaultdict_init(
    vm: VM, target: Value, factory: Value = NONE, /, *args: Value, **kwargs: Value
) -> Value:
    if _dict(vm, target).source is not None:
        vm.stop(reasons.UNSUPPORTED, "defaultdict.__init__ of an existing one")
    containers.set_factory(vm, _dict(vm, target), factory)
    update_mapping(vm, _dict(vm, target), args, kwargs)
    return NONE


@TABLE.row(dict.__ior__)
def ior(vm: VM, target: Value, other: Value, /) -> Value:
    for key, value in pairs(vm, other):
        containers.set_item(vm, _dict(vm, target), key, value)
    return target


@TABLE.row(dict.__dict__["fromkeys"])
def fromkeys(vm: VM, cls: Value, iterable: Value, value: Value = NONE, /) -> Value:
    kind = vm.look(cls)
    if not isinstance(kind, Known) or kind.obj is not dict:
        vm.stop(reasons.UNSUPPORTED, "fromkeys() of a subclass")
    return containers.new_dict(vm, [(key, value) for key in vm.unpack(iterable)])


# Views


def _view_row(operation: Callable[[VM, DictView], Value]) -> Callable[..., Value]:
    def row(vm: VM, view: Value, /) -> Value:
        view = vm.look(view)
        assert isinstance(view, DictView)
        return operation(vm, view)

    return row


@TABLE.row(dict.__dict__["__reversed__"], OrderedDict.__reversed__)
def reversed_(vm: VM, target: Value, /) -> Value:
    return backwards(vm, _dict(vm, target))


def _reversed_view(vm: VM, view: DictView) -> Value:
    of = _dict(vm, view.of)
    match view.kind:
        case "keys":
            return backwards(vm, of)
        case "values":
            return vm.call_object(reversed_values, of)
        case "items":
            return vm.call_object(reversed_items, of)


_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
for _kind in _VIEWS:
    TABLE.add(_kind.__iter__, _view_row(lambda vm, view: vm.iterate(view)))
    TABLE.add(
        _kind.__len__,
        _view_row(lambda vm, view: Constant(len(containers.mapping_items(vm, view.of)))),
    )
    TABLE.add(_kind.__reversed__, _view_row(_reversed_view))


def _contains(vm: VM, view: Value, item: Value, /) -> Value:
    return Constant(containers.contains(vm, view, item))


def _set_operation(special: str) -> Callable[..., Value]:
    """A view of keys or items in a set operation gives a set."""

    def row(vm: VM, a: Value, b: Value, /) -> Value:
        left, right = (containers.new_set(vm, vm.unpack(side)) for side in (a, b))
        return vm.call(vm.attribute(left, special), (right,))

    return row


for _kind in (_VIEWS[0], _VIEWS[2]):
    TABLE.add(_kind.__contains__, _contains)
    for _special in ("__and__", "__or__", "__sub__", "__xor__"):
        TABLE.add(getattr(_kind, _special), _set_operation(_special))
    TABLE.add(_kind.isdisjoint, _set_operation("isdisjoint"))


def _view_comparison(special: str) -> Callable[..., Value]:
    def row(vm: VM, a: Value, b: Value, /) -> Value:
        other = vm.class_of(b)
        if not issubclass(other, (set, frozenset, _VIEWS[0], _VIEWS[2])):
            return Constant(NotImplemented)
        return _set_operation(special)(vm, a, b)

    return row


for _kind in (_VIEWS[0], _VIEWS[2]):
    for _special in ("__eq__", "__ne__", "__le__", "__lt__", "__ge__", "__gt__"):
        TABLE.add(getattr(_kind, _special), _view_comparison(_special))
