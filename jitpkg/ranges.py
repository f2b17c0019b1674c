"""Graphs and kernels as they run: ranges of a profile by their names, and how long kernels take.

A generated function holds the kernels that it calls as default values. So a call that nobody
watches pays for one look into a dict. The first graph that is called under one of torch's profilers
puts a watched kernel in the place of each; the first of these that is called when none runs any
more puts them back. While kernels are timed, they are watched from when they are made.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from types import FunctionType
from typing import Any

from jitpkg import forks
from jitpkg.dataclass import dataclass
from jitpkg.internals import Missing, profiles
from jitpkg.living import Living

Function = Callable[..., Any]


@dataclass(eq=False, slots=True)
class Times:
    """What the calls of a kernel took."""

    calls: int = 0
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, seconds: float) -> None:
        """Add a call."""
        with self._lock:
            self.calls += 1
            self.seconds += seconds


class _Watched:
    """A kernel that is a range of a profile, or is timed."""

    def __init__(self, kernel: Function, name: str, times: Times | None) -> None:
        self.kernel = kernel
        self._name = f"jitpkg::{name}"
        self._times = times

    def __call__(self, *args: Any) -> Any:
        if profiles.runs():
            with profiles.RANGE.get()(self._name):
                return self._called(args)
        if _FUNCTIONS.times is None:
            _FUNCTIONS.put_back()
        return self._called(args)

    def _called(self, args: tuple[Any, ...]) -> Any:
        if self._times is None:
            return self.kernel(*args)
        began = time.perf_counter()
        made = self.kernel(*args)
        self._times.note(time.perf_counter() - began)
        return made


@dataclass(frozen=True, slots=True)
class _Kernels:
    """Those that a function holds."""

    places: frozenset[int]
    """Among its default values."""
    can_be_timed: bool


class _Functions:
    """The generated functions that call kernels."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._watched: Living[FunctionType] = Living()
        self._others: Living[FunctionType] = Living()
        self.are_watched = False
        """Whether all of them are."""
        self.times: dict[tuple[str, str], Times] | None = None
        """By graph and kernel, where they are timed."""

    def add(self, function: FunctionType) -> None:
        self._others.add(function)
        self.are_watched = False
        if self.times is not None:
            self.watch()

    def watch(self) -> None:
        """Watch all kernels."""
        with self._lock:
            self.are_watched = True
            for function in self._others:
                kernels: _Kernels = vars(function)[_KERNELS]
                function.__defaults__ = tuple(
                    self._of(function, value, kernels) if k in kernels.places else value
                    for k, value in enumerate(function.__defaults__ or ())
                )
                self._watched.add(function)
                self._others.discard(function)

    def _of(self, function: FunctionType, kernel: Function, kernels: _Kernels) -> _Watched:
        name = getattr(kernel, "__name__", "kernel")
        times = None
        if self.times is not None and kernels.can_be_timed:
            graph = function.__name__.removesuffix(OF_KERNELS)
            times = self.times.setdefault((graph, name), Times())
        return _Watched(kernel, name, times)

    def put_back(self) -> None:
        """Let them be called without a detour."""
        with self._lock:
            self.are_watched = False
            for function in self._watched:
                function.__defaults__ = tuple(map(bare, function.__defaults__ or ()))
                self._others.add(function)
                self._watched.discard(function)


OF_KERNELS = ".kernels.graph"
"""What the name of a function that calls kernels adds to that of its graph."""

_KERNELS = "__jitpkg_kernels__"
_FUNCTIONS = _Functions()


def calls_kernels(
    function: FunctionType, kernels: Iterable[Function], *, can_be_timed: bool = True
) -> None:
    """Note which of the values that a generated function holds are kernels.

    Args:
        can_be_timed: whether they have run when their call returns.
    """
    own = set(map(id, kernels))
    held = function.__defaults__ or ()
    places = frozenset(k for k, value in enumerate(held) if id(value) in own)
    if places:
        vars(function)[_KERNELS] = _Kernels(places, can_be_timed)
        _FUNCTIONS.add(function)


def bare(value: Any) -> Any:
    """A value that a function holds, as it is when nobody watches."""
    return value.kernel if isinstance(value, _Watched) else value


def time_kernels() -> Mapping[tuple[str, str], Times]:
    """Time all calls of kernels on the CPU from now on; returns the times by graph and kernel.

    Each takes half a microsecond more then.
    """
    if _FUNCTIONS.times is None:
        _FUNCTIONS.times = {}
        _FUNCTIONS.put_back()
        _FUNCTIONS.watch()
    return _FUNCTIONS.times


class Graph:
    """Calls a graph as a range of the profile."""

    def __init__(self, title: str) -> None:
        """
        Raises:
            Missing: this PyTorch has no names for that.
        """
        self._title = title
        self._range = profiles.RANGE.get()

    def __call__(self, graph: Function, *inputs: Any) -> Any:
        if not _FUNCTIONS.are_watched:
            _FUNCTIONS.watch()
        with self._range(self._title):
            return graph(*inputs)


def of_graph(title: str) -> Graph | None:
    """What calls a graph under a profiler; None where its names are missing."""
    try:
        profiles.VARIABLES.get()
        return Graph(title)
    except Missing:
        return None
