"""What a program can change besides its arguments: state of the process, globals, class attributes.

Taken before a run and put back after it, so that another run begins where the first did.
"""

from __future__ import annotations

import copy
import pickle
import random
import sys
import types
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from jitpkg.comparison.copies import Copies, codes, has_state, is_library
from jitpkg.comparison.facts import Fact, Phrase, State
from jitpkg.dataclass import dataclass

# The process


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the process's state: what reads it, and what puts it back."""

    where: str
    what: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    shown: Callable[[Any], Any] = copy.copy
    is_stream: bool = False


def _digest(state: Any) -> Phrase:
    """A short name of a random state, the same for the same state."""
    parts = bytes(state.tolist()) if isinstance(state, torch.Tensor) else pickle.dumps(state)
    return Phrase(f"state {zlib.crc32(parts):08x}")


def _parts() -> Iterator[_Part]:
    def stream(name: str, read: Callable[[], Any], write: Callable[[Any], Any]) -> _Part:
        return _Part("afterwards", f"random stream of {name}", read, write, _digest, is_stream=True)

    yield stream("torch", torch.get_rng_state, torch.set_rng_state)
    yield stream("random", random.getstate, random.setstate)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        yield stream("numpy", numpy.random.get_state, numpy.random.set_state)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for k in range(torch.cuda.device_count()):
            yield stream(f"cuda:{k}", *_of_device(k))
    for what, read, write in (
        ("inference mode", torch.is_inference_mode_enabled, _nobody_can),
        ("grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
        ("autocast", _autocast, _set_autocast),
        ("default device", torch.get_default_device, _nobody_can),
        ("default dtype", torch.get_default_dtype, torch.set_default_dtype),
        ("deterministic algorithms", *_DETERMINISTIC),
        ("number of threads", torch.get_num_threads, torch.set_num_threads),
    ):
        yield _Part("afterwards", what, read, write)


def _nobody_can(mode: object) -> None:
    """Who has entered a mode has what leaves it."""


def _autocast() -> list[tuple[str, bool, torch.dtype]]:
    return [
        (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
        for kind in ("cpu", "cuda")
    ]


def _set_autocast(settings: Iterable[tuple[str, bool, torch.dtype]]) -> None:
    for kind, enabled, dtype in settings:
        torch.set_autocast_enabled(kind, enabled)
        torch.set_autocast_dtype(kind, dtype)


_DETERMINISTIC = (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms)


def _of_device(k: int) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    return (
        lambda: torch.cuda.get_rng_state(k),
        lambda state: torch.cuda.set_rng_state(state, k),
    )


class Process:
    """The state of the process as it is when this is made."""

    def __init__(self) -> None:
        self._taken = [(part, part.read()) for part in _parts()]

    def restore(self) -> None:
        for part, value in self._taken:
            if part.is_stream or part.read() != value:  # some are slow to write
                part.write(value)


def process_facts() -> list[Fact]:
    """What can be seen of the process now."""
    return [Fact(part.where, part.what, part.shown(part.read())) for part in _parts()]


@contextmanager
def same_process() -> Iterator[None]:
    """Put the state of the process back afterwards."""
    process = Process()
    try:
        yield
    finally:
        process.restore()


# Names


@dataclass(frozen=True, eq=False, slots=True)
class _Place:
    """A global variable or an attribute of a class, and what was there."""

    shown: str
    owner: dict[str, Any] | type
    name: str
    value: Any

    def read(self) -> Any:
        if isinstance(self.owner, dict):
            return self.owner.get(self.name, _NOTHING)
        return vars(self.owner).get(self.name, _NOTHING)

    def write(self, value: Any) -> None:
        if self.read() is value:
            return
        if isinstance(self.owner, dict):
            if value is _NOTHING:
                del self.owner[self.name]
            else:
                self.owner[self.name] = value
        elif value is _NOTHING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, value)


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


class Names:
    """The globals, class attributes and function attributes that functions of a program can name.

    Found by walking from some objects through the functions, classes and modules that they refer
    to; not into libraries.
    """

    def __init__(self, roots: Iterable[object]) -> None:
        self._places: dict[tuple[int, str], _Place] = {}
        self._attributes: list[tuple[types.FunctionType, dict[str, Any]]] = []
        self._seen: dict[int, object] = {}
        for root in roots:
            self._walk(root)

    def install(self, copies: Copies) -> None:
        """Put copies in the places of the originals."""
        for place in self._places.values():
            if place.value is not _NOTHING:
                place.write(copies.of(place.value))
        for function, attributes in self._attributes:
            function.__dict__.update((name, copies.of(attributes[name])) for name in attributes)

    def restore(self) -> None:
        """Put the originals back."""
        for place in self._places.values():
            place.write(place.value)
        for function, attributes in self._attributes:
            for name in _attributes_of(function).keys() - attributes.keys():
                del function.__dict__[name]
            function.__dict__.update(attributes)

    def describe(self, state: State) -> None:
        for place in self._places.values():
            value = place.read()
            if value is not _NOTHING and not _is_code(value):
                state.add(place.shown, value)
        for function, _ in self._attributes:
            for name, value in _attributes_of(function).items():
                state.add(f"function {function.__qualname__}.{name}", value)

    def _walk(self, obj: Any) -> None:
        if id(obj) in self._seen:
            return
        self._seen[id(obj)] = obj
        match obj:
            case types.FunctionType():
                self._function(obj)
            case types.MethodType():
                self._walk(obj.__func__)
                self._walk(obj.__self__)
            case type():
                self._class(obj)
            case list() | tuple() | set() | frozenset():
                for item in obj:
                    self._walk(item)
            case dict():
                for item in obj.values():
                    self._walk(item)
            case types.ModuleType() | torch.Tensor():
                pass
            case _:
                self._walk(type(obj))
                if not is_library(type(obj).__module__) and isinstance(
                    getattr(obj, "__dict__", None), dict
                ):
                    self._walk(vars(obj))

    def _function(self, function: types.FunctionType) -> None:
        if is_library(function.__module__ or ""):
            return
        self._attributes.append((function, _attributes_of(function)))
        for cell in function.__closure__ or ():
            try:
                self._walk(cell.cell_contents)
            except ValueError:
                continue
        self._walk(function.__defaults__)
        names = {name for code in codes(function.__code__) for name in code.co_names}
        for name in sorted(names):
            self._global(function.__globals__, name, names)

    def _global(self, globals_: dict[str, Any], name: str, names: set[str]) -> None:
        value = globals_.get(name, _NOTHING)
        if isinstance(value, types.ModuleType):
            if not is_library(value.__name__):
                for inner in sorted(names & vars(value).keys()):
                    self._place(f"{value.__name__}.{inner}", vars(value), inner)
            return
        self._place(f"global {name}", globals_, name)

    def _class(self, cls: type) -> None:
        for base in cls.__mro__:
            if is_library(base.__module__):
                continue
            for name in vars(base):
                if not (name.startswith("__") and name.endswith("__")) or _is_code(
                    vars(base)[name]
                ):
                    self._place(f"{base.__qualname__}.{name}", base, name)

    def _place(self, shown: str, owner: dict[str, Any] | type, name: str) -> None:
        key = (id(owner), name)
        if key in self._places:
            return
        place = _Place(shown, owner, name, _NOTHING)
        place = _Place(shown, owner, name, place.read())
        if not isinstance(place.value, _FIXED):
            self._places[key] = place
        self._walk(place.value)


def _attributes_of(function: types.FunctionType) -> dict[str, Any]:
    """A function's attributes, without those that Python and jitpkg use."""
    return {name: value for name, value in vars(function).items() if not name.startswith("_")}


_FIXED = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    property,
    staticmethod,
    classmethod,
)


def _is_code(value: object) -> bool:
    return isinstance(value, type | types.ModuleType | types.BuiltinFunctionType) or (
        isinstance(value, types.FunctionType) and not has_state(value)
    )
