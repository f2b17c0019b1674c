"""The arguments of a call, as the graph has them and as facts."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.facts.sizes import Size
from jitpkg.facts.tensor import TensorFacts
from jitpkg.tracer import classes, constant_tensors, containers, numbers, numpy_scalars, reasons
from jitpkg.tracer.values import (
    EXAMPLES,
    Constant,
    Known,
    Number,
    Object,
    Opaque,
    Reading,
    Slice,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM

__all__ = ["Proxied"]


@dataclass
class Proxied:
    """A call's arguments as the graph has them, and as facts."""

    vm: VM
    tensors: dict[Tensor, TensorFacts]
    """The tensors among them, each once, in order; and what is asked in their place."""
    by_type: bool = False
    """Whether the op's facts depend on the class of a number only, if that is an argument itself;
    numbers in a tuple or list are sizes."""
    stores: bool = False
    """Whether no facts depend on a floating number, also in a tuple or list."""
    opaque: bool = False
    """Whether it is the program's own function, which no row knows by its name."""
    looks_at_classes: bool = False
    """Whether it may tell a number of NumPy's from one of Python's."""
    varies: bool = False
    """Whether a size or a number among the arguments does."""
    has_floats: bool = False
    """Whether a float among the arguments varies."""
    _within: set[Value] = field(default_factory=set)
    """The lists and dicts that what is looked at lies in."""

    def node(self, value: Value) -> Any:
        """The argument for the graph."""
        if (operand := self._operand(value)) is not None:
            return self._own_node(operand)
        if isinstance(value, Reading) and self._takes_any() and self.vm.keeps_nodes:
            self.has_floats = self.has_floats or value.cls is float
            return value.node
        return self._mapped(value, self._own_node)

    def facts(self, value: Value) -> Any:
        """The argument for the question what the op returns."""
        if (operand := self._operand(value)) is not None:
            return operand.value
        if isinstance(value, Reading) and self._takes_any():
            return EXAMPLES[value.cls]
        return self._mapped(value, self._own_facts)

    def _operand(self, value: Value) -> Number | None:
        if isinstance(value, Reading):
            return None
        value = self.vm.peek(value)
        return value if self.by_type and isinstance(value, Number) else None

    def _own_node(self, value: Tensor | Number) -> fx.Node:
        if isinstance(value, Number):
            self.has_floats = self.has_floats or type(value.value) is float
            return numbers.node(self.vm, value)
        return self.vm.node(value)

    def _own_facts(self, value: Tensor | Number) -> Any:
        """One object for each tensor: a tensor that is given twice is one tensor."""
        if isinstance(value, Number):
            if not isinstance(value.expression, Size):
                return value.value
            self.varies = True
            return value.expression
        if value not in self.tensors:
            self.tensors[value] = replace(self.vm.facts(value))
            self.varies = self.varies or self.tensors[value].is_symbolic
        return self.tensors[value]

    def _mapped(self, value: Value, leaf: Callable[[Tensor | Number], Any]) -> Any:
        value = self.vm.peek(value)
        if isinstance(value, Number) and not self._may_vary(value):
            value = self.vm.look(value)
        match value:
            case Tensor() | Number():
                return leaf(value)
            case Constant():
                return self._plain(value.value)
            case Tuple() if classes.inherits(self.vm, value.cls, tuple, "__iter__", "__len__"):
                items = [self._mapped(item, leaf) for item in value.items]
                return _tuple_like(value.cls, items)
            case Slice():
                parts = [self._bound(part) for part in (value.start, value.stop, value.step)]
                if any(isinstance(part, Tensor) for part in parts):
                    self.vm.stop(reasons.DATA_VALUE, "a slice with tensors as bounds")
                parts[2] = self.vm.look(parts[2])  # torch takes no step that varies
                return slice(*(self._mapped(part, leaf) for part in parts))
            case Object() if value.cls is list:
                with self._inside(value):
                    members = containers.list_items(self.vm, value)
                    return [self._mapped(item, leaf) for item in members]
            case Object() if value.cls is dict:
                with self._inside(value):
                    return {
                        self._mapped(key, leaf): self._mapped(item, leaf)
                        for key, item in containers.mapping_items(self.vm, value)
                    }
            case Known(torch.finfo() | torch.iinfo()):
                return value.obj
            case Known(enum.Enum() as member) if isinstance(member, int | float | str):
                return _plain_atom(member)
            case Known(type() as cls) if cls in _DTYPES:
                return _DTYPES[cls]
            case Opaque():
                self.vm.refuse(value)
            case _:
                kind = self.vm.class_of(value).__qualname__
                self.vm.stop(reasons.FOREIGN_CALL, f"an op takes a {kind}")

    def _bound(self, part: Value) -> Value:
        part = self.vm.peek(part)
        if isinstance(part, Tensor):
            return constant_tensors.index(self.vm, part) or part
        return part

    def _plain(self, constant: object) -> object:
        if not numpy_scalars.is_scalar(type(constant)):
            return constant
        if self.looks_at_classes or not numpy_scalars.is_number(constant):
            self.vm.stop(reasons.FOREIGN_CALL, "an op looks at the class of a NumPy number")
        return numpy_scalars.plain(constant)

    @contextmanager
    def _inside(self, value: Object) -> Iterator[None]:
        if value in self._within:
            self.vm.stop(reasons.FOREIGN_CALL, f"an op takes a {value.cls.__name__} in itself")
        self._within.add(value)
        try:
            yield
        finally:
            self._within.discard(value)

    def _takes_any(self) -> bool:
        """Whether a number that is an argument itself may be any."""
        return self.by_type or self.stores

    def _may_vary(self, number: Number) -> bool:
        return self.stores or isinstance(number.expression, Size)


_DTYPES: Mapping[type, torch.dtype] = MappingProxyType(
    {int: torch.int64, float: torch.float64, bool: torch.bool}
)
"""Classes that an op takes for a dtype."""


def _plain_atom(member: int | float | str) -> object:
    """What an op sees of an enum's member that is a number or a string, too."""
    match member:
        case int():
            return int.__int__(member)
        case float():
            return float.__float__(member)
        case _:
            return str.__str__(member)


def _tuple_like(cls: type, items: list[Any]) -> Any:
    if hasattr(cls, "_fields") and hasattr(cls, "_make"):
        return cls._make(items)
    return tuple(items)
