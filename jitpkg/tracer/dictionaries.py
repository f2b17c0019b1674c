"""The dictionaries in which instances have their attributes: what is there, and what the trace has
written."""

from __future__ import annotations

import types

from jitpkg.guards.kinds import ABSENT, Has, TypeIs
from jitpkg.guards.sources import Item, Source, dictionary_of
from jitpkg.tracer import classes, reasons
from jitpkg.tracer.values import UNBOUND, Known, Object, Tensor, Value
from jitpkg.tracer.vm import VM


def goes_to_descriptor(vm: VM, value: Value, name: str) -> bool:
    """Whether an attribute lies with a data descriptor of the class, as in a slot, and not in the
    instance's dictionary."""
    found = classes.lookup(vm, classes.class_of(vm, value), name)
    return found is not ABSENT and is_data_descriptor(vm, found)


def is_data_descriptor(vm: VM, found: object) -> bool:
    """Whether what a class holds goes before what the instance holds."""
    kind = type(found)
    return any(
        classes.lookup(vm, kind, special) is not ABSENT for special in ("__set__", "__delete__")
    )


def written(vm: VM, value: Value, name: str) -> Value | None:
    """What the trace has written to an attribute; UNBOUND where it has deleted it."""
    return (vm.heap.read(value, "attributes") or {}).get(name)


def written_to_dictionary(vm: VM, value: Value) -> dict[str, Value]:
    """What the trace has written to the instance's own dictionary; UNBOUND for what it deleted."""
    state = vm.heap.read(value, "attributes") or {}
    return {name: new for name, new in state.items() if not goes_to_descriptor(vm, value, name)}


def instance_attribute(vm: VM, value: Value, name: str) -> Value | None:
    """What the instance's own dictionary has under a name; None if nothing."""
    known = written(vm, value, name)
    if known is not None and not goes_to_descriptor(vm, value, name):
        return None if known is UNBOUND else known
    source, real = existing(vm, value)
    if source is None or not has_dict(type(real)):
        return None
    dictionary = dictionary_of(source, type(real))
    own = own_dictionary(vm, value)
    if name not in own:
        vm.guard(Has(dictionary, name, present=False))
        return None
    return vm.present(own[name], Item(dictionary, name))


def own_dictionary(vm: VM, value: Value) -> dict[str, object]:
    """The dictionary of an existing object's attributes, which must be its own."""
    if isinstance(value, Known) and isinstance(value.obj, types.FunctionType):
        vm.identify(value)
    source, real = existing(vm, value)
    if isinstance(value, Tensor) and source is not None:
        vm.guard(TypeIs(source, type(real)))  # before all else that is asked of tensors
    own: dict[str, object] = object.__getattribute__(real, "__dict__")
    if type(own) is not dict:
        vm.stop(reasons.UNSUPPORTED, "attributes in a dictionary of a class of its own")
    if vm.owners.setdefault(id(own), value) is not value or id(own) in vm.seen:
        vm.stop(reasons.UNSUPPORTED, "two objects that share one dictionary of attributes")
    return own


def existing(vm: VM, value: Value) -> tuple[Source | None, object]:
    """Where an existing object is found, and the object."""
    match value:
        case Object() | Known():
            return value.source, value.obj
        case Tensor() if value.source is not None:
            return value.source, vm.graph.example(value.node)
        case _:
            return None, None


def has_dict(cls: type) -> bool:
    """Whether instances have a dictionary."""
    return bool(cls.__dictoffset__)
