"""Classes: what is found on them, with guards, and what `type()` of a value is."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from collections.abc import Iterator as PythonIterator
from typing import Any, NoReturn

from jitpkg.guards import leaves
from jitpkg.guards.kinds import ABSENT, BasesAre, Has, TypeIs, static_lookup
from jitpkg.guards.sources import Attr, Held, Item, Source
from jitpkg.tracer import numpy_scalars, reasons
from jitpkg.tracer.values import (
    Array,
    Cell,
    Constant,
    Continuation,
    DictView,
    Function,
    Generator,
    InstanceDict,
    Iterator,
    Kept,
    Known,
    Lazy,
    Marker,
    Method,
    Number,
    Object,
    OfOp,
    Opaque,
    Reading,
    Slice,
    String,
    Super,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM


def is_mutable(cls: type) -> bool:
    """Whether attributes of the class, or of a class that it inherits from, can be changed."""
    return any(map(leaves.is_mutable, mro(cls)))


def mro(cls: type) -> tuple[type, ...]:
    """The method resolution order, without running a metaclass's code."""
    return type.__dict__["__mro__"].__get__(cls)  # type: ignore[no-any-return]


def namespace(cls: type) -> types.MappingProxyType[str, Any]:
    """The class's own dictionary, without running a metaclass's code."""
    return type.__dict__["__dict__"].__get__(cls)  # type: ignore[no-any-return]


def lookup(vm: VM, cls: type, name: str) -> object:
    """What a class or a base holds under a name, or ABSENT; guarded."""
    found = static_lookup(cls, name)
    if is_mutable(cls):
        vm.guard_lookup(cls, name, found)
    return found


def inherits(vm: VM, cls: type, base: type, *names: str) -> bool:
    """Whether `cls` has these attributes from `base` unchanged; guarded."""
    return cls is base or all(lookup(vm, cls, n) is static_lookup(base, n) for n in names)


def derives(vm: VM, cls: type, base: type) -> bool:
    """Whether `base` is among the bases of `cls`; guarded."""
    return cls is base or base is object or base in bases(vm, cls)


def derived_from(cls: type, base: type) -> type | None:
    """The builtin class whose methods are to be called of a subclass's instance; None where the
    class is that one."""
    return None if cls is base else base


def bases(vm: VM, cls: type) -> tuple[type, ...]:
    """The method resolution order; guarded."""
    order = mro(cls)
    if is_mutable(cls):
        vm.guard(BasesAre(cls, order))
    return order


def metaclass(vm: VM, cls: type) -> type:
    """`type(cls)`; guarded, for it can be assigned to."""
    if is_mutable(cls):
        vm.guard(TypeIs(Held(cls), type(cls)))
    return type(cls)


def source_of_attribute(cls: type, name: str) -> Source:
    """The path to what `lookup` finds."""
    for base in mro(cls):
        if name in namespace(base):
            return Item(Attr(Held(base), "__dict__"), name)
    raise KeyError(name)


def member(vm: VM, cls: type, name: str) -> Value | None:
    """What a class or a base holds under a name, as a value, unbound; None if nothing.

    The look-up's guard tells which object it is; only of one that can change is more to be known.
    """
    found = lookup(vm, cls, name)
    if found is ABSENT:
        return None
    if is_fixed(found) or not is_mutable(cls):
        return vm.trusted(found)
    return vm.wrap(found, source_of_attribute(cls, name))


def own_member(vm: VM, cls: type, name: str) -> Value | None:
    """What a class's own dictionary has under a name; None if nothing."""
    own = namespace(cls)
    source = Attr(Held(cls), "__dict__")
    if name not in own:
        vm.guard(Has(source, name, present=False))
        return None
    return vm.wrap(own[name], Item(source, name))


_FIXED = (
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    property,
    staticmethod,
    classmethod,
)


def is_fixed(obj: object) -> bool:
    """Whether all that matters of an object is which one it is (a function's code is guarded)."""
    return type(obj) in _FIXED


_COMPOSED = {"zip": zip, "enumerate": enumerate, "map": map, "filter": filter}


def ended_like(iterator: Iterator) -> Callable[[], PythonIterator[object]]:
    """A function that makes iterators of the same class, at their end; of those that walk something
    themselves."""
    begin: Any = reversed if iterator.backwards else iter
    walked = iterator.parts[1 if iterator.kind == "walk" else 0]
    match walked:
        case Constant(range() as numbers):
            return lambda: begin(numbers[:0])
        case Constant(str() | bytes() as text):
            return lambda: _exhausted(begin(text))
        case DictView(of, kind):
            cls = _plain_class(of)
            return lambda: begin(getattr(cls(), kind)())
        case _:
            cls = _plain_class(walked)
            return lambda: begin(cls())


def _plain_class(walked: Value) -> Callable[[], Any]:
    """The builtin class of what is walked; what has no `__iter__` is walked by numbers."""
    match walked:
        case Tuple():
            return tuple
        case InstanceDict():
            return dict
        case Object(cls):
            return next((base for base in cls.__mro__ if base in _WALKED), _ByNumbers)
        case _:
            return _ByNumbers


_WALKED = frozenset({list, dict, set, frozenset, collections.OrderedDict, collections.deque})


class _ByNumbers:
    def __getitem__(self, position: int) -> NoReturn:
        raise IndexError

    def __len__(self) -> int:
        return 0


def _exhausted(iterator: PythonIterator[object]) -> PythonIterator[object]:
    collections.deque(iterator, 0)
    return iterator


_VIEW_CLASSES = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}


def class_of(vm: VM, value: Value) -> type:
    """`type(value)`"""
    value = vm.glance(value)
    match value:
        case Reading():
            return value.cls
        case Constant() | Number() | String():
            return type(value.value)
        case Known() | Opaque():
            return type(value.obj)
        case Object() | Tuple():
            if issubclass(value.cls, OfOp):
                vm.stop(reasons.RAISES, "a look at what an op may raise")
            return value.cls
        case Tensor():
            return vm.facts(value).cls
        case Array():
            return numpy_scalars.array_class()
        case Slice():
            return slice
        case InstanceDict():
            return dict
        case DictView():
            return _VIEW_CLASSES[value.kind]
        case Function():
            return types.FunctionType
        case Method():
            function = vm.look(value.function)
            is_python = issubclass(class_of(vm, function), types.FunctionType)
            return types.MethodType if is_python else types.BuiltinMethodType
        case Cell():
            return types.CellType
        case Super():
            return super
        case Iterator(source=source) if source is not None:
            return type(value.obj)
        case Iterator():
            return _COMPOSED.get(value.kind) or type(ended_like(value)())
        case Generator():
            return value.cls
        case Kept() | Marker() | Lazy() | Continuation():
            vm.stop(reasons.OPAQUE, "a value below the hook's stack")


def is_callable(vm: VM, value: Value) -> bool:
    """`callable(value)`"""
    value = vm.look(value)
    is_function = isinstance(value, Function | Method)
    return is_function or vm.method_of_class(value, "__call__") is not None


def shown(cls: type) -> str:
    """A class as the interpreter's messages name it: one written in C with its module."""
    in_c = not cls.__flags__ & _HEAP_TYPE or cls.__flags__ & _IMMUTABLE_TYPE
    return (
        f"{cls.__module__}.{cls.__name__}"
        if in_c and cls.__module__ != "builtins"
        else cls.__name__
    )


_IMMUTABLE_TYPE, _HEAP_TYPE = 1 << 8, 1 << 9  # Py_TPFLAGS_…


def is_instance(vm: VM, value: Value, cls: type) -> bool:
    """`isinstance(value, cls)` for a class without rules of its own."""
    return derives(vm, class_of(vm, value), cls)
