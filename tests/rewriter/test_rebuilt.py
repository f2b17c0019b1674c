"""Objects that a trace made, and that are made again: no method of their classes runs then."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg

BASES: dict[str, tuple[type, tuple[object, ...]]] = {
    "object": (object, ()),
    "Exception": (Exception, ("a", 1)),
    "KeyError": (KeyError, ("a",)),
    "StopIteration": (StopIteration, (7,)),
    "list": (list, ([1, 2],)),
    "dict": (dict, ({"a": 1},)),
    "set": (set, ((1, 2),)),
    "frozenset": (frozenset, ((1, 2),)),
    "tuple": (tuple, ((1, 2),)),
    "str": (str, ("a",)),
    "int": (int, (3,)),
    "float": (float, (3.5,)),
    "deque": (collections.deque, ((1, 2),)),
    "OrderedDict": (collections.OrderedDict, ({"a": 1},)),
}
TOLD: list[str] = []


def _telling(base: type, name: str) -> Callable[..., Any]:
    own = getattr(base, name, None)

    def method(self: object, *args: object) -> Any:
        TOLD.append(name)
        return own(self, *args) if own is not None else None

    return method


def _made_by(base: type) -> Callable[..., Any]:
    def new(cls: type, *args: Any) -> Any:
        TOLD.append("__new__")
        return base.__new__(cls, *args)

    return new


def _own_attribute(self: object, name: str) -> Any:
    if name == "__class__":
        return object.__getattribute__(self, name)
    return {} if name == "__dict__" else TOLD.append(name)  # guards read that of what is handed on


def _silent(self: object, *args: object) -> None:
    """Does nothing."""


OVERRIDES: dict[str, Callable[[type], dict[str, Any]]] = {
    "nothing": lambda base: {},
    "__setattr__": lambda base: {"__setattr__": _telling(base, "__setattr__")},
    "silent __setattr__": lambda base: {"__setattr__": _silent},
    "__delattr__": lambda base: {"__delattr__": _telling(base, "__delattr__")},
    "__getattribute__": lambda base: {"__getattribute__": _own_attribute},
    "__getattr__": lambda base: {"__getattr__": lambda self, name: TOLD.append(name)},
    "__setitem__": lambda base: {"__setitem__": _telling(base, "__setitem__")},
    "__len__": lambda base: {"__len__": _telling(base, "__len__")},
    "__iter__": lambda base: {"__iter__": _telling(base, "__iter__")},
    "__eq__ and __hash__": lambda base: {
        "__eq__": lambda self, other: TOLD.append("eq"),
        "__hash__": lambda self: TOLD.append("hash") or 3,
    },
    "args": lambda base: {"args": property(lambda self: TOLD.append("args"), _silent)},
    "value": lambda base: {"value": property(lambda self: TOLD.append("value"), _silent)},
    "__dict__": lambda base: {"__dict__": property(lambda self: {})},
    "append": lambda base: {"append": _silent, "add": _silent, "extend": _silent},
    "__new__": lambda base: {"__new__": _made_by(base)},
    "__init__": lambda base: {"__init__": _telling(base, "__init__")},
    "__slots__": lambda base: {"__slots__": ()},
}


@pytest.mark.parametrize("override", OVERRIDES)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("left_by", ["a break", "the end"])
def test_as_it_was_made(left_by: str, base: str, override: str) -> None:
    cls, args = BASES[base]
    made = type("Made", (cls,), OVERRIDES[override](cls))

    def program(x: Tensor) -> Any:
        one, x = made(*args), x + 1
        one.tag = [3]
        if left_by == "a break":
            jitpkg.graph_break()
        return x * 2, one

    def observed(function: Callable[[Tensor], Any]) -> Any:
        TOLD.clear()
        try:
            _, one = function(torch.ones(2))
        except (AttributeError, TypeError) as error:
            return list(TOLD), str(error)
        told = list(TOLD)
        return told, type(one) is made, _state(one, cls), _attributes(one)

    compiled = jitpkg.compile(program)
    for _ in range(2):
        assert observed(compiled) == observed(program)


def _state(value: Any, base: type) -> Any:
    """What the base's own methods say of it."""
    if issubclass(base, BaseException):
        own = StopIteration.value.__get__(value) if base is StopIteration else None
        return BaseException.args.__get__(value), own
    if issubclass(base, dict):
        return list(base.items(value))
    if hasattr(base, "__iter__"):
        return list(base.__iter__(value))
    return None if base is object else base.__repr__(value)


def _attributes(value: object) -> object:
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


class Owner:
    def method(self) -> None: ...

    @classmethod
    def of_class(cls) -> None: ...


ONE: dict[str, Callable[[Tensor], Any]] = {
    "int's method": lambda x: (x.dim()).__add__,
    "text's method": lambda x: "a".join,
    "list's method": lambda x: [].append,
    "dict's class method": lambda x: dict.fromkeys,
    "tensor's method": lambda x: x.add,
    "dtype's method": lambda x: x.dtype.__repr__,
    "object's method": lambda x: object().__repr__,
    "method": lambda x: Owner().method,
    "class method": lambda x: Owner().of_class,
    "super's method": lambda x: super(Owner, Owner()).__repr__,
    "super": lambda x: super(Owner, Owner()),
    "keys": lambda x: {"a": x}.keys(),
    "values": lambda x: {"a": x}.values(),
    "items": lambda x: {"a": x}.items(),
    "slice": lambda x: slice(x.dim(), None),
    "range": lambda x: range(x.dim()),
    "size": lambda x: x.shape,
    "tuple": lambda x: (x.dim(), 2),
    "frozenset": lambda x: frozenset((x.dim(),)),
    "number": lambda x: x.dim() + 1e9,
    "iterator": lambda x: iter([x]),
    "generator": lambda x: (each for each in [x]),
}


@pytest.mark.parametrize("of_call", [False, True])
@pytest.mark.parametrize("made", ONE.values(), ids=ONE)
def test_one_object_everywhere(made: Callable[[Tensor], Any], of_call: bool) -> None:
    """In a tuple, a list, a dict, a closure's cell and an attribute."""

    def function(x: Tensor) -> Any:
        one = made(x)

        def closure() -> Any:
            return one

        x = x + 1
        holder = Owner()
        holder.attribute = one  # type: ignore[attr-defined]
        if of_call:
            print()
        return one, [one], {"a": one}, closure, holder

    first, (second,), named, closure, holder = jitpkg.jit(function)(torch.ones(2))
    assert first is second is named["a"] is closure() is holder.attribute
