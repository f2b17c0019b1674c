"""The state of objects as facts, which can be compared between two runs of a program."""

from __future__ import annotations

import collections
import enum
import functools
import types
from collections.abc import Iterator
from typing import Any

import torch

from jitpkg.comparison.copies import ATOMS, is_library
from jitpkg.dataclass import dataclass
from jitpkg.internals import modules, tensors
from jitpkg.interrupts import of_handler

_DRAINED = 20
"""So many items are taken from an iterator that a program returned."""

_OWN_ATTRIBUTES = (*modules.OF_COMPILING, "__jitpkg")
"""Attributes that compiling adds."""


@dataclass(frozen=True, eq=False, slots=True)
class Fact:
    """One thing that can be seen: of what, in which respect, and what it is."""

    where: str
    """A path, as in `result[0].weight`."""
    what: str
    """As in `dtype`, `strides`, `identity`."""
    value: Any
    """Text, an atom, or a tensor: the values of one."""


class Phrase(str):
    """Text that is shown without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class State:
    """Describes objects; one that was seen before is named by the path at which it was seen."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._paths: dict[int, str] = {}
        self._memories: dict[int, str] = {}
        self._alive: list[object] = []

    def fact(self, where: str, what: str, value: Any) -> None:
        """Note a fact; text is a phrase."""
        self.facts.append(Fact(where, what, Phrase(value) if type(value) is str else value))

    def add(self, where: str, obj: Any) -> None:
        """Describe an object and all that it refers to."""
        if isinstance(obj, (enum.Enum, ATOMS)):
            self.facts.append(Fact(where, "value", obj))
            return
        if id(obj) in self._paths:
            self.fact(where, "identity", f"is {self._paths[id(obj)]}")
            return
        self._paths[id(obj)] = where
        self._alive.append(obj)
        self.fact(where, "identity", "is an object of its own")
        self.fact(where, "type", type(obj).__qualname__)
        match obj:
            case torch.Tensor():
                self._tensor(where, obj)
            case type():
                self.fact(where, "name", obj.__qualname__)
                self._class(where, obj)
            case types.ModuleType() | types.BuiltinFunctionType() | types.CodeType():
                self.fact(where, "name", obj.__name__)  # type: ignore[union-attr]
                self._bound(where, obj)
            case types.FunctionType():
                self.fact(where, "name", f"{obj.__qualname__}{obj.__code__.co_varnames}")
                self._function(where, obj)
            case types.MethodType():
                self.add(f"{where}.__func__", obj.__func__)
                self.add(f"{where}.__self__", obj.__self__)
            case types.CellType():
                self.add(f"{where}.cell_contents", content(obj))
            case functools.partial():
                for name in ("func", "args", "keywords"):
                    self.add(f"{where}.{name}", getattr(obj, name))
            case torch.Generator():
                self.fact(where, "random stream", obj.get_state())
            case BaseException():
                self.fact(where, "message", str(obj))
                self._exception(where, obj)
            case _ if type(obj).__module__ == "numpy" and type(obj).__name__ == "ndarray":
                self._array(where, obj)
            case _:
                self._items(where, obj)
                self._attributes(where, obj)

    def _array(self, where: str, array: Any) -> None:
        self.fact(where, "dtype", str(array.dtype))
        self.fact(where, "shape", array.shape)
        self.fact(where, "flags", repr(array.flags))
        used = zip(array.shape, array.strides, strict=True)
        self.fact(where, "strides", tuple(s if n > 1 and array.size else 0 for n, s in used))
        try:
            self.fact(where, "values", torch.from_numpy(array.copy()))
        except TypeError:  # what torch has no dtype for
            self.fact(where, "values", repr(array.tolist()))

    def _tensor(self, where: str, tensor: torch.Tensor) -> None:
        self.fact(where, "dtype", str(tensor.dtype))
        self.fact(where, "shape", tuple(tensor.shape))
        self.fact(where, "device", str(tensor.device))
        self.fact(where, "layout", str(tensor.layout))
        if tensor.layout is torch.strided:
            self._strides(where, tensor)
            self._memory(where, tensor)
            self.fact(where, "lazy", f"conj {tensor.is_conj()}, neg {tensor.is_neg()}")
        version = tensors.VERSION.found()
        if tensor.is_inference() or version is None:
            self.fact(where, "version", "inference" if tensor.is_inference() else "unknown")
        else:
            self.fact(where, "version", f"{version(tensor)} writes")
        self.fact(where, "requires_grad", tensor.requires_grad)
        history = _history(tensor)
        if tensor.requires_grad:
            self.fact(where, "grad_fn", history or "not told")
        if tensor.device.type != "meta":
            self.fact(where, "values", tensor.detach().clone())
        if history and (history == "leaf" or tensor.retains_grad) and tensor.grad is not None:
            self.add(f"{where}.grad", tensor.grad)
        for name, value in tensor.__dict__.items():
            self.add(f"{where}.{name}", value)

    def _strides(self, where: str, tensor: torch.Tensor) -> None:
        """Those that say where an element is, and those that only `stride()` shows."""
        sizes, strides = tensor.shape, tensor.stride()
        used = [n > 1 and tensor.numel() > 0 for n in sizes]
        self.fact(
            where, "strides", tuple(s if u else 0 for u, s in zip(used, strides, strict=True))
        )
        idle = tuple(0 if u else s for u, s in zip(used, strides, strict=True))
        self.fact(where, "idle strides", idle)

    def _memory(self, where: str, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self._alive.append(storage)
        known = self._memories.setdefault(tensors.memory(tensor), where)
        of = "of its own" if known == where else f"shared with {known}"
        self.fact(where, "memory", of)
        self.fact(where, "storage offset", tensor.storage_offset())
        if (base := tensors.BASE.found()) is not None:
            self.fact(where, "view", "is no view" if base(tensor) is None else "is a view")

    def _class(self, where: str, cls: type) -> None:
        if is_library(cls.__module__):
            return
        for name, value in vars(cls).items():
            if not name.startswith("__") and isinstance(value, (*ATOMS, list, dict, torch.Tensor)):
                self.add(f"{where}.{name}", value)

    def _function(self, where: str, function: types.FunctionType) -> None:
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(function, name):
                self.add(f"{where}.{name}", getattr(function, name))
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self.add(f"{where}, cell {name}", content(cell))
        self._dictionary(where, function.__dict__)

    def _bound(self, where: str, obj: object) -> None:
        """The object that a built-in method belongs to."""
        owner = getattr(obj, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.add(f"{where}.__self__", owner)

    def _exception(self, where: str, error: BaseException) -> None:
        self.add(f"{where}.args", error.args)
        for name in ("__cause__", "__context__", "__suppress_context__"):
            if getattr(error, name):
                self.add(f"{where}.{name}", getattr(error, name))
        self._dictionary(where, error.__dict__)
        if getattr(error, "__notes__", None):
            self.add(f"{where}.__notes__", error.__notes__)

    def _items(self, where: str, obj: Any) -> None:
        match obj:
            case dict() | types.MappingProxyType() | collections.UserDict():
                self.fact(where, "keys", ", ".join(_name(key, k) for k, key in enumerate(obj)))
                for k, (key, value) in enumerate(obj.items()):
                    self.add(f"{where} key {k}", key)
                    self.add(f"{where}[{_name(key, k)}]", value)
            case list() | tuple() | collections.deque():
                self.fact(where, "length", len(obj))
                names = getattr(obj, "_fields", ()) if isinstance(obj, tuple) else ()
                for k, item in enumerate(list(obj)):
                    self.add(f"{where}.{names[k]}" if k < len(names) else f"{where}[{k}]", item)
            case set() | frozenset():  # in any order
                self.fact(where, "length", len(obj))
                for k, item in enumerate(sorted(obj, key=_order)):
                    self.add(f"{where} item {k}", item)
            case Iterator():
                self._drained(where, obj)
        if isinstance(obj, collections.deque):
            self.fact(where, "maxlen", obj.maxlen)
        if isinstance(obj, collections.defaultdict):
            self.add(f"{where}.default_factory", obj.default_factory)

    def _drained(self, where: str, iterator: Iterator[Any]) -> None:
        for k in range(_DRAINED):
            try:
                item = next(iterator)
            except StopIteration:
                self.fact(where, "length", k)
                return
            except Exception as error:
                if of_handler(error) is not None:
                    raise
                self.add(f"{where} raises", error)
                return
            self.add(f"{where} item {k}", item)

    def _attributes(self, where: str, obj: Any) -> None:
        dictionary = getattr(obj, "__dict__", None)
        if isinstance(dictionary, dict):
            self._dictionary(where, dictionary, is_module=isinstance(obj, torch.nn.Module))
        for cls in type(obj).__mro__:
            for name, member in vars(cls).items():
                if isinstance(member, types.MemberDescriptorType) and cls.__module__ != "builtins":
                    try:
                        value = member.__get__(obj)
                    except AttributeError:
                        continue
                    self.add(f"{where}.{name}", value)

    def _dictionary(
        self, where: str, dictionary: dict[str, Any], *, is_module: bool = False
    ) -> None:
        for name, value in list(dictionary.items()):
            if name.startswith(_OWN_ATTRIBUTES) or (name[:2] == name[-2:] == "__"):
                continue
            if is_module and (value is None or value in ({}, set())):
                continue
            if is_module and name in modules.REGISTRIES:
                for member, registered in value.items():
                    self.add(f"{where}.{member}", registered)
                continue
            self.add(f"{where}.{name}", value)


def _history(tensor: torch.Tensor) -> str | None:
    """What its gradients go through; torch refuses to say it of some views that were written to."""
    try:
        return "leaf" if tensor.is_leaf else type(tensor.grad_fn).__name__
    except RuntimeError:
        return None


def content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return "<empty>"


def _order(item: object) -> tuple[str, str]:
    return type(item).__qualname__, repr(item) if isinstance(item, ATOMS) else ""


def _name(key: object, k: int) -> str:
    return repr(key) if isinstance(key, (enum.Enum, ATOMS)) else f"key {k}"
