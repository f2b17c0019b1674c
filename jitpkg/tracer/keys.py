"""Keys of dicts, and elements of sets: what they are equal to, and how they are found again."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from types import (
    BuiltinFunctionType,
    FunctionType,
    MappingProxyType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.guards.kinds import Is, KeysAre
from jitpkg.guards.sources import Held
from jitpkg.tracer import classes, reasons
from jitpkg.tracer.heap import Key
from jitpkg.tracer.values import Constant, Known, Object, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM


def key_of(vm: VM, value: Value) -> Key:
    """A Python object that is equal to another value's exactly if the keys are equal."""
    value = vm.identify(vm.look(value))
    match value:
        case Constant(float() as number) if number != number:
            vm.stop(reasons.IDENTITY, "nan as a key")
        case Constant(constant):
            return constant
        case Tuple(items, cls) if cls is tuple:
            return tuple(key_of(vm, item) for item in items)
        case Known(BuiltinFunctionType() | MethodWrapperType() as obj):
            return _Callable(obj)
        case Known(obj):
            if isinstance(obj, _IDENTITY_CLASSES) or hashes_by_identity(vm, type(obj)):
                return _ByIdentity(id(obj))
            if isinstance(obj, enum.Enum) and (exact := _as_builtin(vm, obj)) is not None:
                return exact
        case Object(cls) if hashes_by_identity(vm, cls):
            if value.source is None:
                return _ByIdentity(id(value))
            vm.guard(Is(value.source, value.obj))
            return _ByIdentity(id(value.obj))
        case Tensor():
            vm.stop_under_a_mode("a tensor as a key")
            return _ByIdentity(id(value))
        case Object(cls) if cls is frozenset:
            return _elements(vm, value)
    kind = vm.class_of(value)
    if classes.lookup(vm, kind, "__hash__") is None:
        vm.raise_new(TypeError, f"unhashable type: '{classes.shown(kind)}'")
    vm.stop(reasons.UNSUPPORTED, f"a {kind.__qualname__} as a key")


def _elements(vm: VM, value: Object) -> Key:
    """What a frozenset is as a key: the keys that its elements are."""
    made = vm.heap.read(value, "entries")
    if made is not None and not made.unread:
        return frozenset(made.entries)
    assert isinstance(value.obj, frozenset) and value.source is not None
    elements = [existing_key(vm, element) for element in value.obj]
    names = tuple(source_key(vm, element) for element in elements)
    if UNNAMED in names:
        vm.stop(reasons.UNSUPPORTED, "a frozenset as a key, of what cannot be found again")
    if not isinstance(value.source, Held):
        vm.guard(KeysAre(value.source, names, frozenset))
    return frozenset(key_of(vm, element) for element in elements)


class _ByIdentity(int):
    """The identity of an object, equal to no number."""

    def __eq__(self, other: object) -> bool:
        return type(other) is _ByIdentity and int(self) == int(other)

    def __hash__(self) -> int:
        return hash((_ByIdentity, int(self)))


@dataclass(frozen=True, slots=True)
class _Callable:
    """A function in C, or a method that is bound to something: equal ones may be two objects."""

    obj: BuiltinFunctionType | MethodWrapperType


_IDENTITY_CLASSES = (type, FunctionType, MethodDescriptorType, WrapperDescriptorType)


def hashes_by_identity(vm: VM, cls: type) -> bool:
    """Whether instances are told apart by identity as keys; guarded."""
    base = enum.Enum if issubclass(cls, enum.Enum) else object
    return classes.inherits(vm, cls, base, "__hash__", "__eq__")


def _as_builtin(vm: VM, member: enum.Enum) -> str | int | None:
    """The text or number that an enum's member is as a key, where its class derives from that."""
    for base, exact in _EXACT.items():
        if isinstance(member, base) and classes.inherits(
            vm, type(member), base, "__hash__", "__eq__"
        ):
            return exact(member)
    return None


_EXACT: Mapping[type, Callable[[Any], str | int]] = MappingProxyType(
    {str: str.__str__, int: int.__int__}
)

UNNAMED = object()
"""In place of a key that no source can name."""


def source_key(vm: VM, key: Value) -> object:
    """The key as a source names it; for a tensor, the path to it."""
    match vm.look(key):
        case Constant(value):
            return value
        case Known(obj):
            return Held(obj)
        case Object(_, source, obj) if source is not None:
            return Held(obj)
        case Tensor(source=source) if source is not None:
            return source
        case Tuple(items):
            parts = _parts(vm, items)
            if parts is not None and any(isinstance(part, Held) for part in parts):
                return Held(tuple(map(_named, parts)))
            return UNNAMED if parts is None else parts
        case Object(cls) as new if cls is frozenset:
            entries = vm.heap.read(new, "entries")
            parts = _parts(vm, tuple(e.key for e in entries.entries.values()) if entries else ())
            return UNNAMED if parts is None else Held(frozenset(map(_named, parts)))
    return UNNAMED


def _parts(vm: VM, items: tuple[Value, ...]) -> tuple[object, ...] | None:
    """The parts of a key, as a source names them; None where one has no name."""
    if any(isinstance(vm.look(item), Tensor) for item in items):
        return None
    parts = tuple(source_key(vm, item) for item in items)
    return None if UNNAMED in parts else parts


def _named(part: object) -> object:
    return part.obj if isinstance(part, Held) else part


_CONSTANT_KEYS = (int, float, complex, str, bytes, bool, type(None), tuple, torch.device)


def existing_key(vm: VM, key: object) -> Value:
    """The value of a key that an existing container has."""
    if isinstance(key, tuple) and type(key) is tuple:
        return Tuple(tuple(existing_key(vm, item) for item in key), tuple, Held(key))
    if type(key) in _CONSTANT_KEYS:
        return Constant(key, Held(key))
    if type(key) is frozenset:
        return vm.look(vm.wrap(key, Held(key)))
    by_identity = (*_IDENTITY_CLASSES, BuiltinFunctionType, MethodWrapperType)
    is_member = isinstance(key, enum.Enum) and _as_builtin(vm, key) is not None
    if is_member or isinstance(key, by_identity) or hashes_by_identity(vm, type(key)):
        return vm.look(vm.wrap(key, Held(key)))
    vm.stop(reasons.UNSUPPORTED, f"a dict with a {type(key).__qualname__} as a key")


def is_constant(key: object) -> bool:
    """Whether a key is known by value, and not by identity."""
    return type(key) in _CONSTANT_KEYS and (type(key) is not tuple or all(map(is_constant, key)))
