"""Functions that get a stub before they exist: the code constants of a module are replaced.

Whatever makes a function of such a constant (`def`, `lambda`, a closure at run time) makes one that
asks here first. What stands behind the stubs belongs to the module, by way of its `Hooks`, and is
reached by the code weakly. Needs no torch, until a program uses tensors.
"""

from __future__ import annotations

import functools
import gc
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from types import CodeType, FunctionType
from typing import Any, Protocol

from jitpkg import config, events, forks
from jitpkg.code.analysis import is_function, is_generator
from jitpkg.interrupts import from_outside, uninterrupted
from jitpkg.rewriter.door import RETURN, UNBOUND, Door
from jitpkg.rewriter.originals import ORIGINALS
from jitpkg.rewriter.stub import DOOR, Place, place_of, stubbed

Answer = tuple[bool, Any] | None
"""Of a stub's `run`: see `stubbed`."""

_RESTS = 16
"""So many calls that see no tensor: the function gets its own code back."""

_LOOK = 16
"""So many members of a container are looked at for a tensor."""

_DEPTH = 3
"""So deep are containers looked into."""

_COLD, _WITHIN = 0.2, 1.0
"""Seconds from a function's first call to the one at which it is compiled: what is called often in
less is part of a beginning, such as constructors. Longer where the call comes from a function that
waits itself: compiled, that one takes in what it calls, unless it is a loop that is called once."""

_FRAMES = 64
"""So many callers are looked at."""

TRACED = "torch.compile or torch.export has traced it"

_SKIPPED = frozenset({"__del__", "__init__", "__new__", "__post_init__"})
"""Functions that run at any time, in the middle of others, or once for each object: what makes
tensors there gains nothing. Compiled functions take in constructors that they call."""


class Compiled(Protocol):
    """What takes over from a stub: a dispatcher, by its first region."""

    def ask(self, arguments: tuple[Any, ...]) -> tuple[int, Any, Any]:
        """Ask the region; the arguments are those of its own layout."""
        ...

    def layout(self, place: Place) -> Sequence[int | None]:
        """For each argument of the region, which of the stub's it is; None for what is unbound."""
        ...

    def is_beginning(self, exit_: int) -> bool:
        """Whether an exit is the beginning of the code."""
        ...


_PLAIN = frozenset({int, float, str, bytes, bool, complex, type(None), type})
_LruCache = type(functools.lru_cache(len))

Start = Callable[["Stub", Sequence[FunctionType]], Compiled | None]
"""Compiles the functions that have a stub's code; None where that cannot be."""


class Hooks:
    """The stubs of one module: they live as long as somebody has this."""

    def __init__(
        self,
        start: Start,
        postponed: Callable[[], tuple[float, str]] = lambda: (0.0, ""),
        clock: Callable[[], float] = time.perf_counter,
        name: str = "",
        *,
        at_once: bool = False,
    ) -> None:
        self.start = start
        self.at_once = at_once
        """Whether the first call that sees a tensor has a function compiled."""
        self.name = name
        """Of the module."""
        self.postponed = postponed
        """The time of the clock before which no stub is to ask to be compiled, and why."""
        self.clock = clock
        self.stubs: set[Stub] = set()

    def module(self, code: CodeType) -> CodeType:
        """A module's code, all of whose functions have stubs; the module itself has none."""
        constants = tuple(
            self._nested(const) if isinstance(const, CodeType) else const
            for const in code.co_consts
        )
        if all(new is old for new, old in zip(constants, code.co_consts, strict=True)):
            return code
        return code.replace(co_consts=constants)

    def functions(self, functions: Iterable[FunctionType]) -> None:
        """Give stubs to functions that exist already."""
        done: dict[int, tuple[CodeType, CodeType]] = {}
        for function in functions:
            code = function.__code__
            if ORIGINALS.of(code) is not code:
                continue
            if id(code) not in done:
                done[id(code)] = code, self._nested(code)
            new = done[id(code)][1]
            if new is not code:
                function.__code__ = new

    def _nested(self, code: CodeType) -> CodeType:
        inner = self.module(code)
        if not _is_hookable(code):
            return inner
        place = place_of(inner)
        if place is None or (place.is_target and is_generator(inner)):
            return inner
        stub = Stub(self, inner, place)
        made = stubbed(inner, place, Door(stub))  # type: ignore[arg-type]
        if made is None:
            return inner
        stub.emitted = id(made)
        ORIGINALS.add(made, inner)
        self.stubs.add(stub)
        return made


def _is_hookable(code: CodeType) -> bool:
    """Comprehensions and generator expressions run where they are written."""
    name = code.co_name
    return is_function(code) and name not in _SKIPPED and (name[0] != "<" or name == "<lambda>")


class Stub:
    """Waits behind the door of a stub until the function is worth compiling."""

    __slots__ = (
        "__weakref__",
        "_beginning",
        "_calls",
        "_layout",
        "_lock",
        "_names",
        "_rests",
        "_since",
        "_told",
        "code",
        "compiled",
        "emitted",
        "hooks",
        "place",
        "run",
    )

    def __init__(self, hooks: Hooks, code: CodeType, place: Place) -> None:
        self.hooks = hooks
        self.code = code
        """As its author wrote it, but for the stubs of the functions that it makes."""
        self.place = place
        self.emitted = 0
        """Which code object has the stub."""
        self.run: Callable[..., Answer] = self.wait
        self.compiled: Compiled | None = None
        self._calls = self._rests = 0
        self._since = 0.0
        self._told = False
        self._lock = forks.lock()
        self._beginning = False
        self._layout: Sequence[int | None] = ()
        self._names: frozenset[str] | None = None

    # Before it is compiled

    def wait(self, *arguments: Any) -> Answer:
        """What runs once gains nothing: the second call that sees a tensor has it compiled, or a
        later one, until that may be worth it."""
        options = config.current()
        if sys.gettrace() is not None or options.disable:
            return None
        if not self._sees_tensors(arguments):
            self._rests += 1
            if self._rests >= _RESTS:
                self.drop(arguments[-1])
                why = f"no tensor was in sight in {_RESTS} of its calls"
                events.STREAM.emit(events.GivenBack(self.code.co_qualname, why))
            return None
        self._calls += 1
        if self._calls < 2 and not self.hooks.at_once:
            self._since = self.hooks.clock()
            return None
        if options.never_worse and not self.hooks.at_once and not self._is_due():
            return None
        if self._sleeps() or self._beginning or not forks.may_compile():
            return None
        if not uninterrupted(lambda: self._begin(arguments[-1]), self._end):
            return None
        return self.ask(*arguments)

    @property
    def waits(self) -> bool:
        """Whether the function has been called, and may be compiled when it is called again."""
        return self._calls > 0 and self.compiled is None

    @property
    def calls(self) -> int:
        """How often it was called with a tensor in sight, before it was compiled."""
        return self._calls

    @property
    def why(self) -> str:
        """Why it is not compiled yet."""
        if self._calls == 1:
            return "called once, and is compiled when it is called again"
        return f"called {self._calls} times within a second, or while a caller of it waited"

    def _is_due(self) -> bool:
        passed = self.hooks.clock() - self._since
        return passed >= _WITHIN or (passed >= _COLD and not _is_called_by_one_that_waits())

    def _sleeps(self) -> bool:
        """Whether so much has been compiled in vain that this one has to wait."""
        until, why = self.hooks.postponed()
        if until <= self.hooks.clock():
            return False
        if not self._told:
            self._told = True
            events.STREAM.emit(events.Postponed(self.code.co_qualname, why))

        def asleep(*arguments: Any) -> Answer:
            if self.hooks.clock() >= until:
                self.run = self.wait
            return None

        self.run = asleep
        return True

    def _begin(self, namespace: dict[str, Any]) -> bool:
        """Compile, unless another thread does; whether it has been done."""
        if not self._lock.acquire(blocking=False):
            return False
        self._beginning = True
        if self.compiled is None:
            functions = self._functions(namespace, thoroughly=True)
            events.STREAM.emit(events.Begun(self.code.co_qualname, self._calls))
            self.compiled = self.hooks.start(self, functions)
            if self.compiled is None:
                self.drop(namespace)
                return False
            self._layout = self.compiled.layout(self.place)
            self.run = self.ask
        return True

    def _end(self) -> None:
        """An interrupt may have come when the lock had been taken and nothing else done."""
        if self._lock.acquire(blocking=False):  # once more, or nobody has it
            self._beginning = False
            self._lock.release()
        try:  # noqa: SIM105
            self._lock.release()
        except RuntimeError:
            pass  # it is another thread's

    def drop(self, namespace: dict[str, Any]) -> None:
        """There is nothing to gain: give the function its own code back."""
        self.hooks.stubs.discard(self)
        self.run = _rest  # nothing holds the stub now, and the door is closed
        for function in self._functions(namespace, thoroughly=False):
            function.__code__ = self.code

    def traced(self) -> None:
        """Leave the functions alone, with the code that Dynamo has seen: it guards that."""
        self.hooks.stubs.discard(self)
        self.run = _rest
        events.STREAM.emit(events.GivenBack(self.code.co_qualname, TRACED))

    def _sees_tensors(self, arguments: tuple[Any, ...]) -> bool:
        """Whether a tensor is in the arguments, or something of torch's among the globals.

        A program that has no tensors may not have loaded torch, and is not made to.
        """
        torch = sys.modules.get("torch")
        nn = sys.modules.get("torch.nn")
        if torch is None or not hasattr(torch, "Tensor") or not hasattr(nn, "Module"):
            return False
        *values, namespace = arguments
        kinds = (torch.Tensor, nn.Module)  # type: ignore[union-attr]
        if any(_holds(value, kinds, _DEPTH) for value in values):
            return True
        if self._names is None:
            self._names = frozenset(_names(self.code))
        used = [namespace[name] for name in self._names if name in namespace]
        return any(_is_of_torch(value, kinds) for value in used)

    def _functions(self, namespace: dict[str, Any], *, thoroughly: bool) -> list[FunctionType]:
        """The functions that have this stub, or those that are found by their name."""
        found = list(_by_name(self.code.co_qualname, namespace))
        found = [function for function in found if id(function.__code__) == self.emitted]
        if found or not thoroughly:
            return found
        frame: types.FrameType | None = sys._getframe()
        while frame is not None and id(frame.f_code) != self.emitted:
            frame = frame.f_back
        if frame is None:
            return []
        return [f for f in gc.get_referrers(frame.f_code) if type(f) is FunctionType]

    # When it is compiled: for functions made of the constant since then

    def ask(self, *arguments: Any) -> Answer:
        """Ask the first region of the compiled code."""
        compiled = self.compiled
        assert compiled is not None
        exit_, leave, values = compiled.ask(
            tuple([UNBOUND if k is None else arguments[k] for k in self._layout])
        )
        if exit_ == RETURN:
            return True, values
        if leave is None or (compiled.is_beginning(exit_) and not self.place.is_target):
            return None
        slots = (*self.place.locals, *self.place.cells)
        function = leave(exit_, arguments[-1], arguments[len(slots) : -1])
        frame: list[Any] = [UNBOUND] * self.place.slot_count
        for slot, value in zip(slots, arguments[: len(slots)], strict=True):
            frame[slot] = value
        return False, (values, *reversed(frame), function)


def _rest(*arguments: Any) -> Answer:
    """Run the code."""
    return None


def _is_called_by_one_that_waits() -> bool:
    """Whether there is a stub further up the stack than the one that asks, that waits as well."""
    frame = sys._getframe(3).f_back  # behind this, `_is_due`, `wait` and the stub that asks
    for _ in range(_FRAMES):
        if frame is None:
            return False
        stub = _stub_of(frame.f_code)
        if stub is not None and stub.waits:
            return True
        frame = frame.f_back
    return False


def _stub_of(code: CodeType) -> Stub | None:
    door = code.co_consts[DOOR] if len(code.co_consts) >= -DOOR else None
    stub: object = door() if type(door) is Door else None
    return stub if isinstance(stub, Stub) else None


# Is there a tensor?


def _holds(value: object, kinds: Sequence[type], depth: int) -> bool:
    """Whether a value is one of these, or a container or an object that has one near at hand."""
    cls = type(value)
    if cls in _PLAIN:
        return False
    if any(base is kind for base in cls.__mro__ for kind in kinds):
        return True
    if not depth:
        return False
    members: Iterable[object]
    if cls is dict:
        members = value.values()  # type: ignore[attr-defined]
    elif cls in (list, set, frozenset):
        members = value  # type: ignore[assignment]
    elif issubclass(cls, tuple):
        members = tuple.__iter__(value)  # type: ignore[arg-type]
    elif type(attributes := _attributes(value)) is dict:
        members = attributes.values()
    else:
        return False
    return any(_holds(member, kinds, depth - 1) for member in list(islice(members, _LOOK)))


def _attributes(value: object) -> object:
    """An object's dictionary, without asking the object's own methods."""
    if issubclass(type(value), type | types.ModuleType | FunctionType):
        return None
    try:
        return object.__getattribute__(value, "__dict__")
    except Exception as error:
        if from_outside(error):
            raise
        return None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)


def _is_of_torch(value: object, kinds: Sequence[type]) -> bool:
    if issubclass(type(value), types.ModuleType):
        name: object = types.ModuleType.__getattribute__(value, "__dict__").get("__name__")
    elif type(value) is FunctionType or type(value) is type:
        name = value.__module__
    else:
        return any(base is kind for base in type(value).__mro__ for kind in kinds)
    return isinstance(name, str) and name.partition(".")[0] == "torch"


# Where are the functions?


def _by_name(qualname: str, namespace: dict[str, Any]) -> Iterator[FunctionType]:
    """The functions that are found where a qualified name says."""
    found: object = None
    for name in qualname.split("."):
        found = namespace.get(name)
        namespace = dict(vars(found)) if issubclass(type(found), type) else {}
    yield from inside(found, 4)


def inside(obj: Any, depth: int) -> Iterator[FunctionType]:
    """A function, and those that a method, a property or a decorator's result is made of, or holds.

    No other object is asked for anything, not even for its class.
    """
    parts: tuple[object, ...] = ()
    cls = type(obj)
    if cls is FunctionType:
        yield obj
        parts = (obj.__dict__.get("__wrapped__"),)
        for cell in obj.__closure__ or () if depth > 1 else ():
            yield from inside(_content(cell), depth - 2)
    elif cls in (staticmethod, classmethod):
        parts = (obj.__func__,)
    elif cls is property:
        parts = (obj.fget, obj.fset, obj.fdel)
    elif cls in (functools.partial, functools.cached_property):
        parts = (obj.func,)
    elif cls is _LruCache:
        parts = (obj.__wrapped__,)
    if depth:
        for part in parts:
            yield from inside(part, depth - 1)


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError as error:
        if from_outside(error):
            raise
        return None
