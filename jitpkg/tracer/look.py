"""The first look at an existing object: what kind of value it is, and the guards that say so."""

from __future__ import annotations

import collections
import enum
import functools
import operator
import re
import types
import typing
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, assert_never

import torch
import torch.nn.attention
import torch.torch_version

from jitpkg.guards.kinds import ConstantIs, Is, LengthIs, Same, TypeIs, static_lookup
from jitpkg.guards.sources import Attr, BaseItem, Globals, Held, Item, Proxied, Source, proxied
from jitpkg.guards.walks import READERS
from jitpkg.internals import ops
from jitpkg.internals.ops import OpOverload, OpOverloadPacket
from jitpkg.tracer import (
    begun,
    classes,
    namespaces,
    numpy_arrays,
    numpy_scalars,
    reasons,
    tensors,
)
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

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE

BY_VALUE = frozenset({int, float, complex, str, bytes, range, torch.device})
"""Classes whose instances are constants, compared by value."""

BY_IDENTITY: tuple[type, ...] = (
    type(None),
    bool,
    type(Ellipsis),
    type(NotImplemented),
    torch.dtype,
    torch.layout,
    torch.memory_format,
    torch.nn.attention.SDPBackend,
    torch.torch_version.TorchVersion,
)
"""Classes of which each value is one object."""

TYPE_FORMS: tuple[type, ...] = (
    types.GenericAlias,
    types.UnionType,
    type(typing.Optional).__mro__[1],
)
"""Classes of what stands for a type, `list[int]` or `Optional[int]`: the last is that of all that
`typing` makes."""

KNOWN: tuple[type, ...] = (
    type,
    enum.Enum,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodWrapperType,
    types.CodeType,
    type(functools.lru_cache(len)),
    property,
    staticmethod,
    classmethod,
    *TYPE_FORMS,
    typing.TypeVar,
    OpOverloadPacket,
    OpOverload,
    torch.jit.ScriptFunction,
    re.Pattern,
    re.Match,
    torch.finfo,
    torch.iinfo,
)
"""Classes whose instances are told apart by identity and have no state that matters."""


@functools.cache
def _known() -> tuple[type, ...]:
    functions = ops.FUNCTIONS.found()
    return KNOWN if functions is None else (*KNOWN, type(functions))


CONTAINERS: tuple[type, ...] = (list, dict, set, frozenset, collections.deque)
PLAIN_BASES: tuple[type, ...] = (*CONTAINERS, BaseException, object)
"""Builtin classes whose subclasses tracing understands."""


def look(vm: VM, lazy: Lazy) -> Value:
    """Classify an existing object, with guards on what is found."""
    obj, source = lazy.obj, lazy.source
    known = vm.seen.get(id(obj))
    if known is None:
        value = _classified(vm, obj, source)
        if not isinstance(value, Constant | Slice | Method):
            vm.seen[id(obj)] = value
            vm.keep_alive.append(obj)
        return value
    own = source_of(known)
    if own is not None and own != source:
        if isinstance(known, Known) and (type(obj) is not types.FunctionType or is_stable(source)):
            vm.guard(Is(source, obj))
        else:
            vm.guard(Same(source, own, same=True))
    return known


def source_of(value: Value) -> Source | None:
    """Where an existing object is found, or None for one that the trace made."""
    match value:
        case (
            Lazy()
            | Constant()
            | Number()
            | Known()
            | Tensor()
            | Array()
            | Tuple()
            | Slice()
            | Object()
            | Cell()
            | Method()
            | Iterator()
            | Opaque()
        ):
            return value.source
        case (
            Marker()
            | String()
            | Reading()
            | InstanceDict()
            | DictView()
            | Function()
            | Super()
            | Generator()
            | Kept()
            | Continuation()
        ):
            return None
        case _:
            assert_never(value)


def _classified(vm: VM, obj: object, source: Source) -> Value:
    cls = type(obj)
    if cls in BY_VALUE:
        vm.guard(ConstantIs(source, obj))
        return Constant(obj, source)
    if isinstance(obj, BY_IDENTITY):
        vm.guard(Is(source, obj))
        return Constant(obj, source)
    row = ROWS.get(cls)
    if row is not None:
        return row(vm, obj, source)
    if isinstance(obj, _known()) or numpy_scalars.is_function(obj):
        vm.guard(Is(source, obj))
        return Known(obj, source)
    if numpy_scalars.is_scalar(cls):
        return _numpy_scalar(vm, obj, source)
    if numpy_scalars.is_dtype(obj):
        vm.guard(Is(source, obj))
        return Constant(obj, source)
    if isinstance(obj, torch.Tensor):
        return vm.tensor(obj, source)
    if cls is numpy_scalars.array_class() and (array := numpy_arrays.existing(vm, obj, source)):
        return array
    if isinstance(obj, tuple):
        return _tuple(vm, obj, source)
    return _instance(vm, obj, source)


def _numpy_scalar(vm: VM, obj: Any, source: Source) -> Value:
    """One that is another number on each call is left to Python."""
    if vm.history.varies(source, obj.item()):
        return _opaque(vm, obj, source, "a NumPy number that varies")
    vm.guard(ConstantIs(source, obj))
    return Constant(obj, source)


def _function(vm: VM, obj: object, source: Source) -> Value:
    """A function is known by identity where its place is one for functions, else by its code."""
    assert isinstance(obj, types.FunctionType)
    if is_stable(source) or tensors.is_graph_function(obj):
        vm.guard(Is(source, obj))
        return Known(obj, source)
    vm.guard(TypeIs(source, types.FunctionType))
    return Known(obj, source)


def is_stable(source: Source) -> bool:
    """Whether a path leads through the names of a module or class only."""
    match source:
        case Held() | Globals():
            return True
        case Item(base, str()) | Attr(base, _):
            return is_stable(base)
        case _:
            return False


def identified(vm: VM, value: Value) -> Value:
    """Add the guard that an object is this very one, where `look` was content with less."""
    match value:
        case Known(types.FunctionType() as function, source):
            vm.guard(Is(source, function))
    return value


def _method(vm: VM, obj: object, source: Source) -> Value:
    assert isinstance(obj, types.MethodType)
    vm.guard(TypeIs(source, types.MethodType))
    function = vm.wrap(obj.__func__, Attr(source, "__func__"))
    return Method(function, vm.wrap(obj.__self__, Attr(source, "__self__")), source)


_WITH_METHODS = frozenset(
    {str, bytes, int, float, list, dict, set, frozenset, collections.deque}
    | {torch.Tensor, torch.nn.Parameter}
)


def _builtin(vm: VM, obj: object, source: Source) -> Value:
    """A function in C; or a method of a builtin class, as `words.append`, by name and receiver."""
    assert isinstance(obj, types.BuiltinFunctionType)
    receiver, name = obj.__self__, obj.__name__
    if type(receiver) in _WITH_METHODS and not hasattr(object, name):
        function = static_lookup(type(receiver), name)
        if isinstance(function, types.MethodDescriptorType):
            vm.guard(TypeIs(source, types.BuiltinFunctionType))
            vm.guard(ConstantIs(Attr(source, "__name__"), name))
            vm.guard(TypeIs(Attr(source, "__self__"), type(receiver)))
            bound = vm.wrap(receiver, Attr(source, "__self__"))
            return Method(Known(function, Held(function)), bound, source)
    vm.guard(Is(source, obj))
    return Known(obj, source)


def _tuple(vm: VM, obj: object, source: Source) -> Value:
    assert isinstance(obj, tuple)
    cls = type(obj)
    if getattr(cls, "__dictoffset__", 0):
        return _opaque(vm, obj, source, "a tuple with attributes")
    vm.guard(TypeIs(source, cls))
    length = tuple.__len__(obj)
    vm.guard(LengthIs(source, length, None if cls is tuple else tuple))
    items = tuple(
        vm.wrap(item, Item(source, k) if cls is tuple else BaseItem(source, k, tuple))
        for k, item in enumerate(tuple.__iter__(obj))
    )
    return Tuple(items, cls, source)


def _slice(vm: VM, obj: object, source: Source) -> Value:
    assert isinstance(obj, slice)
    vm.guard(TypeIs(source, slice))
    parts = [vm.wrap(getattr(obj, n), Attr(source, n)) for n in ("start", "stop", "step")]
    return Slice(parts[0], parts[1], parts[2], source)


def _cell(vm: VM, obj: object, source: Source) -> Value:
    assert isinstance(obj, types.CellType)
    vm.guard(TypeIs(source, types.CellType))
    return namespaces.existing_cell(vm, Cell(source), obj)


def _object(vm: VM, obj: object, source: Source) -> Value:
    if id(obj) in vm.owners:
        vm.stop(reasons.UNSUPPORTED, "a dictionary of attributes, used as a dict")
    vm.guard(TypeIs(source, type(obj)))
    return Object(type(obj), source, obj)


def _instance(vm: VM, obj: object, source: Source) -> Value:
    cls = type(obj)
    why = why_not_plain_class(cls)
    if why is not None:
        return _opaque(vm, obj, source, why)
    return _object(vm, obj, source)


def why_not_plain_class(cls: type, *also: type) -> str | None:
    """Why instances of a class are not understood, or None where they are.

    Args:
        also: builtin classes that it may derive from besides `PLAIN_BASES`.
    """
    higher_order = ops.HIGHER_ORDER.found()
    if higher_order is not None and issubclass(cls, higher_order):
        return f"the higher-order operator {cls.__qualname__}"
    for base in cls.__mro__:
        if base in PLAIN_BASES or base in also:
            continue
        if issubclass(base, BaseException) and base.__module__ == "builtins":
            continue
        if base in EXTRA_BASES:
            continue
        if not base.__flags__ & _HEAP_TYPE or _has_c_methods(base):
            return f"an instance of {base.__qualname__}, which is not written in Python"
        if "__del__" in base.__dict__:
            return f"an instance of {base.__qualname__}, which has a finaliser"
    return None


def _has_c_methods(cls: type) -> bool:
    """Whether a class that looks like one of Python's was made in C, as `threading.local` is."""
    return any(
        type(member) in _C_METHODS and member.__objclass__ is cls
        for member in classes.namespace(cls).values()
    )


_C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)

EXTRA_BASES = frozenset(
    {
        collections.OrderedDict,
        collections.defaultdict,
        types.SimpleNamespace,
        functools.partial,
    }
)
"""Classes written in C that behave as their Python counterparts do."""


def _opaque(vm: VM, obj: object, source: Source, why: str) -> Value:
    vm.guard(TypeIs(source, type(obj)))
    return Opaque(source, obj, why)


def _proxy(vm: VM, obj: object, source: Source) -> Value:
    """A mapping proxy, with the mapping that it shows."""
    made = _object(vm, obj, source)
    assert isinstance(made, Object) and isinstance(obj, types.MappingProxyType)
    vm.heap.write(made, "content", vm.wrap(proxied(obj), Proxied(source)))
    return made


Row = Callable[[VM, object, Source], Value]

ROWS: Mapping[type, Row] = MappingProxyType(
    {
        types.FunctionType: _function,
        types.MethodType: _method,
        types.BuiltinFunctionType: _builtin,
        tuple: _tuple,
        slice: _slice,
        types.CellType: _cell,
        weakref.ref: _object,
        **dict.fromkeys((functools.partial, operator.itemgetter, operator.attrgetter), _object),
        operator.methodcaller: _object,
        types.MappingProxyType: _proxy,
        **dict.fromkeys(CONTAINERS, _object),
        **dict.fromkeys(READERS, begun.existing),
    }
)
"""How instances of exactly these classes are looked at."""
