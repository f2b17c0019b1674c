"""`container[key]`, its assignment and its deletion."""

from __future__ import annotations

import collections
import collections.abc
import operator
import sys
import types
from typing import Any

import torch

from jitpkg.tracer import (
    array_ops,
    assignments,
    classes,
    constant_tensors,
    constants,
    containers,
    indexing,
    iterators,
    protocols,
    reasons,
)
from jitpkg.tracer.look import TYPE_FORMS
from jitpkg.tracer.values import (
    Array,
    Constant,
    InstanceDict,
    Known,
    Object,
    Slice,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM


def get(vm: VM, container: Value, key: Value) -> Value:
    """`container[key]`"""
    container = vm.look(container)
    if isinstance(container, Tensor):
        return indexing.get(vm, container, key)
    if isinstance(container, Array):
        return array_ops.item(vm, container, key)
    key = vm.look(key)
    match container:
        case Tuple(items, cls) if _is_plain_tuple(vm, cls):
            return _sequence_item(vm, container, items, key)
        case Object(cls) if _plain(vm, cls, "__getitem__"):
            return container_item(vm, container, key)
        case Constant(str() | bytes() | range()) if isinstance(key, Constant):
            return constants.fold(vm, operator.getitem, (container, key))
        case Constant(str() | bytes() | range() as sequence) if isinstance(key, Slice):
            return Constant(sequence[constant_slice(vm, key)])
        case InstanceDict():
            name = _name(vm, key)
            return vm.instance_attribute(container.of, name) or vm.raise_new(KeyError, name)
        case Known(form) if isinstance(form, TYPE_FORMS):
            return _of_types(vm, container, key)
        case Known(type() as cls):
            return _class_item(vm, container, cls, key)
    method = vm.method_of_class(container, "__getitem__")
    if method is None:
        vm.stop(reasons.RAISES, f"a {vm.class_of(container).__qualname__} has no items")
    return vm.call(method, (key,))


def _is_plain_tuple(vm: VM, cls: type) -> bool:
    return cls is torch.Size or classes.inherits(vm, cls, tuple, "__getitem__")


def _plain(vm: VM, cls: type, method: str) -> bool:
    base = containers.base_class(cls)
    if base is None or issubclass(cls, set | frozenset):
        return False
    return classes.inherits(vm, cls, base, method)


def _name(vm: VM, key: Value) -> str:
    if isinstance(key, Constant) and isinstance(key.value, str):
        return key.value
    vm.stop(reasons.UNSUPPORTED, "an attribute dictionary with a key that is no string")


def _class_item(vm: VM, container: Value, cls: type, key: Value) -> Value:
    """`list[int]`, or a metaclass's `__getitem__`."""
    method = vm.method_of_class(container, "__getitem__")
    if method is not None:
        return vm.call(method, (key,))
    made = classes.lookup(vm, cls, "__class_getitem__")
    if isinstance(made, types.ClassMethodDescriptorType) or cls in (type, collections.abc.Callable):
        return _of_types(vm, container, key)
    vm.stop(reasons.UNSUPPORTED, f"{cls.__qualname__}[…]")


def _of_types(vm: VM, container: Value, key: Value) -> Value:
    """`Optional[int]`: what stands for a type, made of others, constants and lists of them."""
    form: Any = constants.python_value(vm, container)
    argument: Any = _type_argument(vm, key)
    try:
        return vm.trusted(form[argument])
    except TypeError as error:
        vm.raise_new(TypeError, *error.args)


def _type_argument(vm: VM, value: Value) -> object:
    value = vm.look(value)
    match value:
        case Constant(obj) | Known(obj):
            return obj
        case Tuple(items, cls) if cls is tuple:
            return tuple(_type_argument(vm, item) for item in items)
        case Object(cls) if cls is list:
            return [_type_argument(vm, item) for item in containers.list_items(vm, value)]
    vm.stop(reasons.UNSUPPORTED, f"a type of a {vm.class_of(value).__qualname__}")


def container_item(vm: VM, container: Object, key: Value) -> Value:
    """An item of a list, deque or dict, by the builtin class's rules."""
    if not issubclass(container.cls, dict):
        return _sequence_item(vm, container, containers.list_items(vm, container), key)
    found = containers.find(vm, container, key)
    if found is not None:
        return found
    missing = vm.method_of_class(container, "__missing__")
    if missing is not None:
        return vm.call(missing, (key,))
    vm.raise_new(KeyError, key)


def missing_default(vm: VM, container: Object, key: Value) -> Value:
    """`defaultdict.__missing__`"""
    factory = containers.entries_of(vm, container).factory
    if factory is None or vm.same(factory, Constant(None)):
        vm.raise_new(KeyError, key)
    value = vm.call(factory, ())
    set_(vm, container, key, value)
    return value


def _sequence_item(vm: VM, container: Value, items: tuple[Value, ...], key: Value) -> Value:
    if isinstance(key, Slice):
        cut = constant_slice(vm, key)
        chosen = items[cut]
        if isinstance(container, Tuple):
            if container.cls is tuple and cut.indices(len(items)) == (0, len(items), 1):
                return container
            keeps_class = container.cls.__module__ == "torch"  # a Size's slice is a Size
            return Tuple(chosen, container.cls if keeps_class else tuple)
        assert isinstance(container, Object)
        if issubclass(container.cls, collections.deque):
            vm.raise_new(TypeError, "sequence index must be integer, not 'slice'")
        return containers.new_list(vm, chosen)
    index = _index_into(vm, container, key)
    kind = "tuple" if isinstance(container, Tuple) else _kind_name(container)
    if -len(items) <= index < len(items):
        return items[index]
    vm.raise_new(IndexError, f"{kind} index out of range")


def _index_into(vm: VM, container: Value, key: Value) -> int:
    """An index, as it was given; a deque asks a `__len__` of its class's own where its end is."""
    index = constant_index(vm, key)
    if index < 0 and isinstance(container, Object):
        cls = container.cls
        if issubclass(cls, collections.deque) and not _plain(vm, cls, "__len__"):
            vm.stop(reasons.UNSUPPORTED, "an index from the end of a deque with its own __len__")
    return index


def _kind_name(container: Value) -> str:
    assert isinstance(container, Object)
    base = containers.base_class(container.cls)
    return base.__name__ if base is not None else "list"


def constant_index(vm: VM, key: Value) -> int:
    """The integer that a subscript is."""
    key = vm.look(key)
    if isinstance(key, Constant) and isinstance(key.value, int):
        if not -sys.maxsize - 1 <= key.value <= sys.maxsize:
            vm.stop(reasons.RAISES, "an index that is too large")
        return key.value
    if isinstance(key, Tensor):
        known = constant_tensors.index(vm, key)
        if known is not None:
            return constant_index(vm, known)
        vm.stop(reasons.DATA_VALUE, "a tensor as an index of a sequence")
    method = vm.method_of_class(key, "__index__")
    if method is None:
        vm.stop(reasons.RAISES, f"a {vm.class_of(key).__qualname__} as an index")
    return constant_index(vm, protocols.of_class(vm, int, "__index__", vm.call(method, ())))


def constant_slice(vm: VM, key: Slice) -> slice:
    """The slice that a subscript is, with integers."""

    def bound(value: Value) -> Any:
        value = vm.look(value)
        if isinstance(value, Constant) and value.value is None:
            return None
        return constant_index(vm, value)

    step = bound(key.step)
    if step == 0:
        vm.raise_new(ValueError, "slice step cannot be zero")
    return slice(bound(key.start), bound(key.stop), step)


def set_(vm: VM, container: Value, key: Value, value: Value) -> None:
    """`container[key] = value`"""
    container = vm.look(container)
    if isinstance(container, Tensor):
        indexing.set_(vm, container, key, value)
        return
    if isinstance(container, Array):
        array_ops.set_item(vm, container, key, value)
        return
    key = vm.look(key)
    match container:
        case Object(cls) if _plain(vm, cls, "__setitem__"):
            set_container_item(vm, container, key, value)
        case InstanceDict():
            assignments.set_in_dictionary(vm, container.of, _name(vm, key), value)
        case _:
            method = vm.method_of_class(container, "__setitem__")
            if method is None:
                vm.stop(reasons.RAISES, "an assignment to an item of what has none")
            vm.call(method, (key, value))


def _out_of_range(container: Object) -> str:
    name = _kind_name(container)
    return (
        f"{name} assignment index out of range" if name == "list" else f"{name} index out of range"
    )


def set_container_item(vm: VM, container: Object, key: Value, value: Value) -> None:
    """Set an item of a list, deque or dict, by the builtin class's rules."""
    if issubclass(container.cls, dict):
        containers.set_item(vm, container, key, value)
        return
    items = list(containers.list_items(vm, container))
    if isinstance(key, Slice):
        value = _assign_slice(vm, items, constant_slice(vm, key), value)
        real_key: Value = key
    else:
        index = _index_into(vm, container, key)
        if not -len(items) <= index < len(items):
            vm.raise_new(IndexError, _out_of_range(container))
        items[index] = value
        real_key = Constant(index)
    containers.change_list(vm, container, items, "__setitem__", real_key, value)


def _assign_slice(vm: VM, items: list[Value], cut: slice, value: Value) -> Value:
    """Change the items; what they are changed to, as a list."""
    value = vm.look(value)
    specials = ("__iter__", "__getitem__")
    is_iterable = any(vm.method_of_class(value, special) is not None for special in specials)
    new: Any = iterators.unpack_fast(vm, value) if is_iterable else None
    try:
        items[cut] = new
    except (TypeError, ValueError) as error:
        vm.raise_new(type(error), *error.args)
    return containers.new_list(vm, new)


def delete(vm: VM, container: Value, key: Value) -> None:
    """`del container[key]`"""
    container, key = vm.look(container), vm.look(key)
    if isinstance(container, Object) and _plain(vm, container.cls, "__delitem__"):
        delete_container_item(vm, container, key)
        return
    if isinstance(container, InstanceDict):
        assignments.delete_from_dictionary(vm, container.of, _name(vm, key))
        return
    method = vm.method_of_class(container, "__delitem__")
    if method is None:
        vm.stop(reasons.RAISES, "a deletion of an item of what has none")
    vm.call(method, (key,))


def delete_container_item(vm: VM, container: Object, key: Value) -> None:
    """Delete an item of a list, deque or dict, by the builtin class's rules."""
    if issubclass(container.cls, dict):
        if containers.find(vm, container, key) is None:
            if issubclass(container.cls, collections.OrderedDict):
                vm.stop(reasons.RAISES, "KeyError")
            vm.raise_new(KeyError, key)
        containers.delete_item(vm, container, key)
        return
    items = list(containers.list_items(vm, container))
    if isinstance(key, Slice):
        del items[constant_slice(vm, key)]
        real_key: Value = key
    else:
        index = _index_into(vm, container, key)
        if not -len(items) <= index < len(items):
            vm.raise_new(IndexError, _out_of_range(container))
        del items[index]
        real_key = Constant(index)
    containers.change_list(vm, container, items, "__delitem__", real_key)
