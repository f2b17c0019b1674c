"""A state of objects as text: one line for each fact, comparable between two runs."""

from __future__ import annotations

import collections
import enum
import functools
import hashlib
import random
import types
from collections.abc import Iterator
from typing import Any

import torch

_ATOMS = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
    torch.dtype,
    torch.device,
    torch.memory_format,
)
_DRAINED = 20
"""So many items are taken from an iterator that a program returned."""


class State:
    """Describes objects; one that was seen before is named by the number it got then."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[int, int] = {}
        self._storages: dict[int, int] = {}
        self._alive: list[object] = []

    def fact(self, path: str, text: str) -> None:
        self.lines.append(f"{path}: {text}")

    def add(self, path: str, obj: Any) -> None:
        """Describe an object and all that it refers to."""
        if isinstance(obj, (enum.Enum, _ATOMS)):
            self.fact(path, f"{type(obj).__qualname__} {obj!r}")
            return
        if id(obj) in self._numbers:
            self.fact(path, f"is #{self._numbers[id(obj)]}")
            return
        number = self._numbers[id(obj)] = len(self._numbers)
        self._alive.append(obj)
        kind = type(obj).__qualname__
        match obj:
            case torch.Tensor():
                self._tensor(path, number, obj)
            case type():
                self.fact(path, f"#{number} class {obj.__qualname__}")
                self._class(path, obj)
            case types.ModuleType() | types.BuiltinFunctionType() | types.CodeType():
                self.fact(path, f"#{number} {kind} {obj.__name__}")  # type: ignore[union-attr]
            case types.FunctionType():
                self.fact(path, f"#{number} function {obj.__qualname__}{obj.__code__.co_varnames}")
                self._function(path, obj)
            case types.MethodType():
                self.fact(path, f"#{number} method")
                self.add(f"{path}.__func__", obj.__func__)
                self.add(f"{path}.__self__", obj.__self__)
            case types.CellType():
                self.fact(path, f"#{number} cell")
                self.add(f"{path}.cell_contents", _content(obj))
            case functools.partial():
                self.fact(path, f"#{number} partial")
                for name in ("func", "args", "keywords"):
                    self.add(f"{path}.{name}", getattr(obj, name))
            case BaseException():
                self.fact(path, f"#{number} {kind} {obj}")
                self._exception(path, obj)
            case _:
                self.fact(path, f"#{number} {kind}")
                self._items(path, obj)
                self._attributes(path, obj)

    def _tensor(self, path: str, number: int, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()._cdata
        memory = self._storages.setdefault(storage, len(self._storages))
        facts = [
            f"#{number}",
            type(tensor).__qualname__,
            str(tensor.dtype),
            str(tuple(tensor.shape)),
            f"strides {tensor.stride()}",
            f"memory {memory}+{tensor.storage_offset()}",
            f"version {tensor._version}" if not tensor.is_inference() else "inference",
        ]
        if tensor.requires_grad:
            facts.append("leaf" if tensor.is_leaf else type(tensor.grad_fn).__name__)
        if tensor._base is not None:
            facts.append("view")
        facts.append(_values(tensor))
        self.fact(path, " ".join(facts))
        if (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not None:
            self.add(f"{path}.grad", tensor.grad)
        for name, value in tensor.__dict__.items():
            self.add(f"{path}.{name}", value)

    def _class(self, path: str, cls: type) -> None:
        if not cls.__module__.startswith("tests."):
            return
        for name, value in vars(cls).items():
            if not name.startswith("__") and isinstance(value, (*_ATOMS, list, dict, torch.Tensor)):
                self.add(f"{path}.{name}", value)

    def _function(self, path: str, function: types.FunctionType) -> None:
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(function, name):
                self.add(f"{path}.{name}", getattr(function, name))
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self.add(f"{path} cell {name}", _content(cell))
        for name, value in function.__dict__.items():
            if not name.startswith("__jitpkg") and name != "__wrapped__":
                self.add(f"{path}.{name}", value)

    def _exception(self, path: str, error: BaseException) -> None:
        self.add(f"{path}.args", error.args)
        for name in ("__cause__", "__context__", "__suppress_context__"):
            if getattr(error, name):
                self.add(f"{path}.{name}", getattr(error, name))
        for name, value in error.__dict__.items():
            self.add(f"{path}.{name}", value)

    def _items(self, path: str, obj: Any) -> None:
        match obj:
            case dict() | types.MappingProxyType() | collections.UserDict():
                for k, (key, value) in enumerate(obj.items()):
                    self.add(f"{path} key {k}", key)
                    self.add(f"{path}[{_name(key, k)}]", value)
            case list() | tuple() | collections.deque():
                for k, item in enumerate(list(obj)):
                    self.add(f"{path}[{k}]", item)
            case set() | frozenset():  # in any order
                for k, item in enumerate(sorted(obj, key=_order)):
                    self.add(f"{path}[{k}]", item)
            case Iterator():
                for k in range(_DRAINED):
                    try:
                        item = next(obj)
                    except StopIteration:
                        break
                    except Exception as error:
                        self.add(f"{path} raises", error)
                        break
                    self.add(f"{path} item {k}", item)
        if isinstance(obj, collections.deque):
            self.fact(f"{path}.maxlen", str(obj.maxlen))
        if isinstance(obj, collections.defaultdict):
            self.add(f"{path}.default_factory", obj.default_factory)

    def _attributes(self, path: str, obj: Any) -> None:
        dictionary = getattr(obj, "__dict__", None)
        if isinstance(dictionary, dict):
            for name, value in dictionary.items():
                if name == "_compiled_call_impl":
                    continue
                if isinstance(obj, torch.nn.Module) and (value is None or value in ({}, set())):
                    continue
                self.add(f"{path}.{name}", value)
        for cls in type(obj).__mro__:
            for name, member in vars(cls).items():
                if isinstance(member, types.MemberDescriptorType) and cls.__module__ != "builtins":
                    try:
                        value = member.__get__(obj)
                    except AttributeError:
                        continue
                    self.add(f"{path}.{name}", value)


def _order(item: object) -> tuple[str, str]:
    return type(item).__qualname__, repr(item) if isinstance(item, _ATOMS) else ""


def _name(key: object, k: int) -> str:
    return repr(key) if isinstance(key, _ATOMS) else f"key {k}"


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return "<empty>"


def _values(tensor: torch.Tensor) -> str:
    """All values; repr() of a float is exact, and NaNs are shown by their bits."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype.is_floating_point and bool(plain.isnan().any()):
        plain = plain.contiguous().flatten().view(torch.uint8)
    return str(plain.tolist())


def random_states() -> str:
    """A digest of the states of Python's and torch's random streams."""
    digest = hashlib.sha1(usedforsecurity=False)
    digest.update(repr(random.getstate()).encode())
    digest.update(bytes(torch.get_rng_state().tolist()))
    return digest.hexdigest()[:12]
