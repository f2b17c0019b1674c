"""Access paths: how a value that a trace read is found again on the next call.

A source is a path and nothing else. Reading one never runs the user's code: the guards before it
have checked the type of everything on the way.
"""

from __future__ import annotations

import gc
import keyword
from collections.abc import Callable, Iterator
from functools import cached_property
from types import (
    BuiltinFunctionType,
    FunctionType,
    MappingProxyType,
    MethodDescriptorType,
    ModuleType,
)
from typing import Any, TypeVar

import torch

from jitpkg.dataclass import dataclass
from jitpkg.internals import modes

_NAMED = (type, FunctionType, BuiltinFunctionType, MethodDescriptorType)


_T = TypeVar("_T")


def _hashed_once(cls: type[_T]) -> type[_T]:
    """Keep the hash: a path's takes in all that leads there, and a trace asks 20 times for each."""
    compute: Callable[[_T], int] = cls.__hash__

    def hash_(self: _T) -> int:
        own: int | None = self.__dict__.get("hash")
        if own is None:
            own = self.__dict__["hash"] = compute(self)
        return own

    cls.__hash__ = hash_  # type: ignore[assignment, method-assign]
    return cls


@dataclass(frozen=True, slots=True)
class Input:
    """The k-th value that the hook hands over: a local, a stack value."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class CellInput:
    """A cell that the hook hands over."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Globals:
    """The globals of the running function, handed over by the hook."""


@dataclass(frozen=True, eq=False)
class Held:
    """An object that the entry holds, the same on every call."""

    obj: object

    def __eq__(self, other: object) -> bool:
        return type(other) is Held and other.obj is self.obj

    @cached_property
    def _hash(self) -> int:
        return hash((Held, id(self.obj)))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Held({object_name(self.obj)})"


@_hashed_once
@dataclass(frozen=True)
class Attr:
    """`base.name`, where looking it up runs no code of the user's."""

    base: Source
    name: str


@_hashed_once
@dataclass(frozen=True)
class OwnDict:
    """`base.__dict__`, as it is: the class has a `__getattribute__` of the user's."""

    base: Source


@_hashed_once
@dataclass(frozen=True)
class Item:
    """`base[key]` of an exact list, tuple, deque, dict or mapping proxy."""

    base: Source
    key: object
    """A constant, or a `Held` for a key that is found by identity."""


@_hashed_once
@dataclass(frozen=True)
class BaseItem:
    """The item of a list, tuple or dict subclass, read as by its builtin class."""

    base: Source
    key: object
    cls: type


@_hashed_once
@dataclass(frozen=True)
class ItemAt:
    """`base[key]` of a dict that has the key, which is the object that another path leads to."""

    base: Source
    key: Source


@_hashed_once
@dataclass(frozen=True)
class SlotOf:
    """What a member descriptor of a slot gives for `base`."""

    base: Source
    descriptor: Held


@_hashed_once
@dataclass(frozen=True)
class TypeOf:
    """`type(base)`."""

    base: Source


@_hashed_once
@dataclass(frozen=True)
class Referent:
    """What a weak reference refers to."""

    base: Source


@_hashed_once
@dataclass(frozen=True)
class Proxied:
    """The mapping that a mapping proxy shows."""

    base: Source


@_hashed_once
@dataclass(frozen=True)
class OriginalOf:
    """What a compiled callable was made from."""

    base: Source
    find: Callable[[object], object]


@_hashed_once
@dataclass(frozen=True)
class Strides:
    """`base.stride()` of a tensor."""

    base: Source


@_hashed_once
@dataclass(frozen=True)
class WalkOf:
    """Where an iterator stands and what it walks, as `walks.walk_of` tells: a tuple."""

    base: Source


@_hashed_once
@dataclass(frozen=True)
class NumberIn:
    """`base.item()` of a tensor without dimensions, on a CPU."""

    base: Source


@_hashed_once
@dataclass(frozen=True)
class MemoryOf:
    """`torch.from_numpy(base)` of an array of NumPy's."""

    base: Source


@_hashed_once
@dataclass(frozen=True)
class PlainOf:
    """`plain_of(base)` of a tensor of a subclass."""

    base: Source


@_hashed_once
@dataclass(frozen=True)
class Remembered:
    """What a function of `functools.lru_cache` remembers of a call."""

    base: Source
    call: Held
    """Its arguments, by position and by name."""


Source = (
    Input
    | CellInput
    | Globals
    | Held
    | Attr
    | OwnDict
    | Item
    | BaseItem
    | ItemAt
    | SlotOf
    | TypeOf
    | Referent
    | Proxied
    | OriginalOf
    | Strides
    | WalkOf
    | NumberIn
    | MemoryOf
    | PlainOf
    | Remembered
)


def dictionary_of(base: Source, cls: type) -> Source:
    """Where an instance of a class has its attributes."""
    return OwnDict(base) if has_own_getter(cls) else Attr(base, "__dict__")


def has_own_getter(cls: type) -> bool:
    """Whether reading an attribute of an instance calls a `__getattribute__` of the user's."""
    return isinstance(type.__getattribute__(cls, "__getattribute__"), FunctionType)


def proxied(proxy: MappingProxyType[object, object]) -> object:
    """The mapping that a proxy shows; Python itself does not tell."""
    (mapping,) = gc.get_referents(proxy)
    return mapping


def plain_of(tensor: torch.Tensor) -> torch.Tensor:
    """A plain tensor with the memory and the history of one of a subclass, which is not asked."""
    if not torch.is_grad_enabled():  # it may be switched on later
        with torch.enable_grad():
            return plain_of(tensor)
    if type(tensor).__torch_function__ is modes.NO_FUNCTION.get():
        return torch.Tensor.as_subclass(tensor, torch.Tensor)
    with modes.WITHOUT_SUBCLASSES.get()():
        return torch.Tensor.as_subclass(tensor, torch.Tensor)


def call_of(function: Any, call: tuple[Any, dict[str, Any]]) -> object:
    """What a function remembers of a call."""
    args, kwargs = call
    found: object = function(*args, **kwargs)
    return found


def base_of(source: Source) -> Source | None:
    """The source that this one is read from."""
    base: Source | None = getattr(source, "base", None)  # 8 times as fast as a match by class
    return base


def steps_of(source: Source) -> Iterator[Source]:
    """All that is read on the way to it, the nearest first, and itself before that."""
    at: Source | None = source
    while at is not None:
        yield at
        if type(at) is ItemAt:
            yield from steps_of(at.key)
        at = base_of(at)


def depth(source: Source) -> int:
    """How many reads it takes, one after the other."""
    steps = 0
    at = base_of(source)
    while at is not None:
        if type(source) is ItemAt:
            return steps + 1 + max(depth(at), depth(source.key))
        steps, source, at = steps + 1, at, base_of(at)
    return steps


def described(source: Source) -> str:
    """The path as a person would write it."""
    match source:
        case Input(_, name) | CellInput(_, name):
            return name
        case Globals():
            return "globals()"
        case Held(obj):
            return object_name(obj)
        case Attr(CellInput(_, name), "cell_contents"):
            return name
        case Attr(base, "__dict__") | OwnDict(base):
            return described(base)
        case Attr(base, name):
            return f"{described(base)}.{name}"
        case Item(Globals(), str() as name):
            return name
        case Item(Held(dict() as namespace), str() as name) if _module_name(namespace):
            return f"{_module_name(namespace)}.{name}"
        case Item(Attr(base, "__dict__") | OwnDict(base), str() as name):
            return f"{described(base)}.{name}"
        case Item(
            Item(Attr(base, "__dict__") | OwnDict(base), "_parameters" | "_buffers" | "_modules"),
            str() as name,
        ):
            inner = (
                f".{name}" if name.isidentifier() and not keyword.iskeyword(name) else f"[{name}]"
            )
            return f"{described(base)}{inner}"
        case Item(WalkOf(base), position):
            return f"the position of {described(base)}" if not position else described(base)
        case Item(base, Held(obj)) | BaseItem(base, Held(obj), _):
            return f"{described(base)}[{object_name(obj)}]"
        case Item(base, key) | BaseItem(base, key, _):
            return f"{described(base)}[{key!r}]"
        case ItemAt(base, key):
            return f"{described(base)}[{described(key)}]"
        case SlotOf(base, descriptor):
            return f"{described(base)}.{getattr(descriptor.obj, '__name__', '?')}"
        case TypeOf(base):
            return f"type({described(base)})"
        case Referent(base):
            return f"{described(base)}()"
        case Proxied(base) | OriginalOf(base) | MemoryOf(base) | PlainOf(base):
            return described(base)
        case Remembered(base, call):
            return f"{described(base)}({_described(*call.obj)})"  # type: ignore[misc]
        case WalkOf(base):
            return f"the walk of {described(base)}"
        case Strides(base):
            return f"{described(base)}.stride()"
        case NumberIn(base):
            return f"{described(base)}.item()"


def _described(args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    by_name = [f"{name}={_shown(value)}" for name, value in kwargs.items()]
    return ", ".join([*map(_shown, args), *by_name])


def _shown(value: object) -> str:
    is_plain = isinstance(value, int | float | str | None) or type(value).__module__ == "torch"
    return repr(value) if is_plain else object_name(value)


def object_name(obj: object) -> str:
    """A short name of a class, function or module; the type's name of anything else."""
    if isinstance(obj, ModuleType):
        return obj.__name__
    if isinstance(obj, BuiltinFunctionType):
        return obj.__name__  # pybind11 makes up long qualified names
    if isinstance(obj, _NAMED):
        return obj.__qualname__
    if isinstance(obj, dict) and _module_name(obj):
        return f"vars({_module_name(obj)})"
    return f"<{type(obj).__name__}>"


def _module_name(namespace: dict[object, object]) -> str | None:
    """The name of the module whose globals a dict holds, or None."""
    name = namespace.get("__name__")
    return name if isinstance(name, str) and "__spec__" in namespace else None
