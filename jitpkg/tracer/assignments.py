"""Assigning and deleting attributes by CPython's rules, on traced values."""

from __future__ import annotations

import types
import warnings

import torch

from jitpkg.guards.kinds import ABSENT
from jitpkg.guards.sources import Attr
from jitpkg.tracer import classes, differentiation, exceptions, reasons
from jitpkg.tracer.attributes import method_of_class, of_slot
from jitpkg.tracer.dictionaries import (
    existing,
    goes_to_descriptor,
    has_dict,
    instance_attribute,
    is_data_descriptor,
    own_dictionary,
)
from jitpkg.tracer.effects import DeleteAttribute, SetAttribute
from jitpkg.tracer.values import (
    UNBOUND,
    Constant,
    Function,
    Known,
    Object,
    Opaque,
    Tensor,
    Value,
)
from jitpkg.tracer.vm import VM


def set_attribute(vm: VM, value: Value, name: str, new: Value) -> None:
    """`value.name = new`"""
    value = vm.look(value)
    if isinstance(value, Opaque):
        vm.refuse(value)
    if isinstance(value, Tensor) and goes_to_descriptor(vm, value, name):
        _set_of_tensor(vm, value, name, new)
        return
    if isinstance(value, Known) and value.obj is warnings and vm.catching:
        vm.stop(reasons.MUTATION, f"assignment to warnings.{name} in a block of catch_warnings()")
    cls = classes.class_of(vm, value)
    if classes.lookup(vm, cls, "__setattr__") is not object.__setattr__:
        method = method_of_class(vm, value, "__setattr__")
        if method is None or isinstance(value, Known):
            vm.stop(reasons.MUTATION, f"assignment to .{name} of a {cls.__qualname__}")
        vm.call(method, (Constant(name), new))
        return
    generic_set(vm, value, name, new)


def _set_of_tensor(vm: VM, tensor: Tensor, name: str, new: Value) -> None:
    """`tensor.name = new`, where that is no attribute of the user's."""
    vm.stop_under_a_mode(f"assignment to .{name} of a tensor")
    if name == "requires_grad":
        if not vm.truth(vm.attribute(tensor, "is_leaf")):  # also where it would change nothing
            vm.stop(reasons.RAISES, "requires_grad is set of what is no leaf")
        vm.call(vm.trusted(torch.Tensor.requires_grad_), (tensor, new))
    elif name != "grad" or not differentiation.set_grad(vm, tensor, new):
        vm.stop(reasons.TENSOR_USE, f"assignment to .{name} of a tensor")


def generic_set(vm: VM, value: Value, name: str, new: Value) -> None:
    """`object.__setattr__(value, name, new)`"""
    value = vm.look(value)
    cls = classes.class_of(vm, value)
    found = classes.lookup(vm, cls, name)
    if found is not ABSENT and is_data_descriptor(vm, found):
        _set_by_descriptor(vm, value, cls, name, found, new)
        return
    if not _takes_attributes(value):
        vm.stop(reasons.MUTATION, f"assignment to .{name} of a {cls.__qualname__}")
    write(vm, value, name, new)


def _takes_attributes(value: Value) -> bool:
    match value:
        case Object(cls):
            return has_dict(cls)
        case Known(types.FunctionType()) | Function() | Tensor():
            return True
        case _:
            return False


def _set_by_descriptor(
    vm: VM, value: Value, cls: type, name: str, descriptor: object, new: Value
) -> None:
    if isinstance(descriptor, types.MemberDescriptorType) and isinstance(value, Object):
        write(vm, value, name, new)
        return
    if name in _OF_FUNCTIONS and (
        isinstance(value, Function)
        or (isinstance(value, Known) and isinstance(value.obj, types.FunctionType))
    ):
        write(vm, value, name, new)
        return
    if type(descriptor) is property:
        if descriptor.fset is None:
            vm.stop(reasons.RAISES, f"{cls.__qualname__}.{name} cannot be set")
        setter = Attr(classes.source_of_attribute(cls, name), "fset")
        vm.call(vm.wrap(descriptor.fset, setter), (value, new))
        return
    if isinstance(value, Object) and issubclass(value.cls, BaseException) and value.source is None:
        exceptions.set_attribute(vm, value, name, new)
        return
    member = classes.member(vm, cls, name)
    assert member is not None
    set_ = method_of_class(vm, member, "__set__")
    if set_ is None or isinstance(descriptor, types.GetSetDescriptorType):
        vm.stop(reasons.MUTATION, f"assignment to {cls.__qualname__}.{name}")
    vm.call(set_, (value, new))


_OF_FUNCTIONS = (
    "__name__",
    "__qualname__",
    "__doc__",
    "__module__",
    "__annotations__",
    "__type_params__",
)
"""Attributes of functions that mean nothing to a call."""


def write(vm: VM, value: Value, name: str, new: Value) -> None:
    """Note an attribute in the instance's dictionary or slot."""
    if isinstance(value, Tensor):
        _check_own(vm, value, name)
    written = dict(vm.heap.read(value, "attributes") or {})
    if written.get(name) is UNBOUND:
        del written[name]  # it comes last now
    written[name] = new
    vm.heap.write(value, "attributes", written)
    source, real = existing(vm, value)
    if source is not None:
        if has_dict(type(real)):
            own_dictionary(vm, value)
        vm.effect(SetAttribute(value, name, new))


def _check_own(vm: VM, tensor: Tensor, name: str) -> None:
    """Calls of an existing tensor's methods are not guarded against an attribute of their name."""
    hides = classes.lookup(vm, vm.facts(tensor).cls, name) is not ABSENT
    if hides and tensor.source is not None:
        vm.stop(reasons.TENSOR_USE, f"an attribute .{name} of a tensor, which hides another one")


def set_in_dictionary(vm: VM, value: Object | Known | Function, name: str, new: Value) -> None:
    """`value.__dict__[name] = new`"""
    _check_dictionary(vm, value, name)
    write(vm, value, name, new)


def delete_from_dictionary(vm: VM, value: Object | Known | Function, name: str) -> None:
    """`del value.__dict__[name]`"""
    _check_dictionary(vm, value, name)
    if instance_attribute(vm, value, name) is None:
        vm.raise_new(KeyError, name)
    _remove(vm, value, name)


def _check_dictionary(vm: VM, value: Object | Known | Function, name: str) -> None:
    """What the trace writes to a dictionary is replayed as an assignment to the attribute."""
    if goes_to_descriptor(vm, value, name):
        vm.stop(reasons.UNSUPPORTED, "an attribute dictionary with a data descriptor's name")


def delete_attribute(vm: VM, value: Value, name: str) -> None:
    """`del value.name`"""
    value = vm.look(value)
    cls = classes.class_of(vm, value)
    if classes.lookup(vm, cls, "__delattr__") is not object.__delattr__:
        method = method_of_class(vm, value, "__delattr__")
        if method is None or isinstance(value, Known):
            vm.stop(reasons.MUTATION, f"del .{name} of a {cls.__qualname__}")
        vm.call(method, (Constant(name),))
        return
    generic_delete(vm, value, name)


def generic_delete(vm: VM, value: Value, name: str) -> None:
    """`object.__delattr__(value, name)`"""
    value = vm.look(value)
    cls = classes.class_of(vm, value)
    found = classes.lookup(vm, cls, name)
    is_slot = isinstance(found, types.MemberDescriptorType)
    if type(found) is property and found.fdel is not None:
        deleter = Attr(classes.source_of_attribute(cls, name), "fdel")
        vm.call(vm.wrap(found.fdel, deleter), (value,))
        return
    if found is not ABSENT and not is_slot and is_data_descriptor(vm, found):
        vm.stop(reasons.MUTATION, f"del {cls.__qualname__}.{name}")
    if not isinstance(value, Object | Tensor):
        vm.stop(reasons.MUTATION, f"del .{name} of a {cls.__qualname__}")
    present = (
        of_slot(vm, value, name, found)
        if isinstance(found, types.MemberDescriptorType)
        else instance_attribute(vm, value, name)
    )
    if present is None:
        vm.stop(reasons.RAISES, f"there is no attribute {name}")
    _remove(vm, value, name)


def _remove(vm: VM, value: Object | Known | Function | Tensor, name: str) -> None:
    if isinstance(value, Tensor):
        _check_own(vm, value, name)
    written = dict(vm.heap.read(value, "attributes") or {})
    if isinstance(value, Function) or value.source is None:
        written.pop(name)
    else:
        written[name] = UNBOUND
        vm.effect(DeleteAttribute(value, name))
    vm.heap.write(value, "attributes", written)
