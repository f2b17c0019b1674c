"""The `match` statement."""

from __future__ import annotations

from jitpkg.tracer import containers, reasons
from jitpkg.tracer.values import NONE, Constant, Known, Object, Tuple, Value
from jitpkg.tracer.vm import VM

_MAPPING = 1 << 6  # Py_TPFLAGS_MAPPING
_SEQUENCE = 1 << 5  # Py_TPFLAGS_SEQUENCE
_SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def is_mapping(vm: VM, value: Value) -> bool:
    """Whether a mapping pattern applies."""
    return bool(vm.class_of(value).__flags__ & _MAPPING)


def is_sequence(vm: VM, value: Value) -> bool:
    """Whether a sequence pattern applies."""
    return bool(vm.class_of(value).__flags__ & _SEQUENCE)


def values_of_keys(vm: VM, mapping: Value, keys: tuple[Value, ...]) -> Value:
    """The values under all keys as a tuple, or None if one is missing."""
    mapping = vm.look(mapping)
    if not isinstance(mapping, Object) or not issubclass(mapping.cls, dict):
        vm.stop(reasons.UNSUPPORTED, "a mapping pattern on something else than a dict")
    if vm.method_of_class(mapping, "get") is None:
        vm.stop(reasons.UNSUPPORTED, "a mapping pattern on a dict without get()")
    found = [containers.find(vm, mapping, key) for key in keys]
    if any(value is None for value in found):
        return NONE
    return Tuple(tuple(value for value in found if value is not None))


def attributes_of_class(vm: VM, value: Value, cls: Value, names: Value, count: int) -> Value:
    """The attributes that a class pattern asks for as a tuple, or None where it does not match."""
    cls = vm.look(cls)
    if not isinstance(cls, Known) or not isinstance(cls.obj, type):
        vm.stop(reasons.RAISES, "a class pattern with something that is no class")
    if not vm.truth(vm.call_object(isinstance, value, cls)):
        return NONE
    found: list[Value] = []
    if count:
        if (
            issubclass(cls.obj, _SELF_MATCHING)
            and count == 1
            and "__match_args__" not in dir(cls.obj)
        ):
            found.append(value)
        else:
            match_args = vm.attribute_or_none(cls, "__match_args__")
            if match_args is None:
                vm.stop(reasons.RAISES, "a positional pattern of a class without __match_args__")
            for name in list(vm.unpack(match_args))[:count]:
                if not _add_attribute(vm, value, name, found):
                    return NONE
    assert isinstance(names, Tuple)
    for name in names.items:
        if not _add_attribute(vm, value, name, found):
            return NONE
    return Tuple(tuple(found))


def _add_attribute(vm: VM, value: Value, name: Value, found: list[Value]) -> bool:
    name = vm.look(name)
    assert isinstance(name, Constant) and isinstance(name.value, str)
    attribute = vm.attribute_or_none(value, name.value)
    if attribute is None:
        return False
    found.append(attribute)
    return True
