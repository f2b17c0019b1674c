"""Functions in place, and twins that follow the function they were made from."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from jitpkg import events
from jitpkg.code.analysis import slot_names
from jitpkg.errors import Break
from jitpkg.guards.kinds import CodeIs, Guard
from jitpkg.guards.sources import Held
from jitpkg.marks import COMPILED
from jitpkg.messages import warn
from jitpkg.rewriter.callables import mark_coroutine
from jitpkg.rewriter.compiler import Compiler
from jitpkg.rewriter.dispatch import Dispatcher, dispatcher_for
from jitpkg.rewriter.door import drop_frame
from jitpkg.rewriter.originals import ORIGINALS
from jitpkg.rewriter.region import Followed
from jitpkg.rewriter.telling import not_whole
from jitpkg.rewriter.twins import twin_function
from jitpkg.tracer import reasons
from jitpkg.tracer.libraries import refusal


def dispatcher_of(function: FunctionType) -> Dispatcher | None:
    """The dispatcher that a function keeps, or None.

    A wrapper that took over another function's attributes does not have that one's dispatcher.
    """
    found = function.__dict__.get(COMPILED)
    if isinstance(found, _Follower) and found.owns(function):
        function = found.twin
        found = function.__dict__.get(COMPILED)
    return found if isinstance(found, Dispatcher) and found.owns(function) else None


def compile_in_place(function: FunctionType, compiler: Compiler) -> FunctionType:
    """Hook a function's own code; returns the very same function."""
    follower = _follower_of(function)
    if follower is not None:
        follower.compile_again(compiler)
        return function
    before = dispatcher_of(function)
    if before is not None:
        before.release(function)
    if is_left_alone(function, compiler):
        return function
    _install(function, function, compiler, compiler.name or function.__qualname__)
    return function


def is_left_alone(function: FunctionType, compiler: Compiler) -> bool:
    """Whether a function is never traced, and need not say so when it is called: says so now."""
    why = refusal(function)
    if why is None or compiler.fullgraph:
        return False
    graph_break = Break(*why)
    events.STREAM.emit(events.Broke(function.__qualname__, graph_break))
    if graph_break.reason is not reasons.DISABLED:
        warn(
            f"{function.__qualname__} is not compiled: {graph_break.title()}. It runs as it was"
            " written; fullgraph=True makes this an error."
        )
    return True


def _install(
    function: FunctionType,
    original: FunctionType,
    compiler: Compiler,
    name: str,
    followed: Followed | None = None,
) -> None:
    """Hook the code of a function, which is the original's.

    Raises:
        GraphBreak: it is to be one graph, and cannot be hooked.
    """
    why = refusal(original) if compiler.fullgraph else None
    refused = None if why is None else Break(*why)
    dispatcher = dispatcher_for(ORIGINALS.of(original.__code__), compiler, name)
    if dispatcher is not None:
        dispatcher.followed = followed
        dispatcher.refused = refused
        if dispatcher.install([function]):
            function.__dict__[COMPILED] = dispatcher
            return
    graph_break = refused or Break(reasons.UNSUPPORTED, f"the code of {name} cannot be hooked")
    if compiler.fullgraph:
        not_whole(name, graph_break)
    warn(f"{name} is not compiled: {graph_break.detail}. It runs as it was written.")


def compiled_twin(
    function: FunctionType, compiler: Compiler, name: str | None = None
) -> FunctionType:
    """A new function that runs compiled and follows changes of the original's code and defaults.

    `name` is what reports call it, where the function's own name would not tell.
    """
    before = _follower_of(function)
    original = function if before is None or refusal(function) else before.original
    follower = _Follower(original, compiler, compiler.name or name or function.__qualname__)
    if function.__defaults__ is not None or function.__kwdefaults__ is not None:
        return follower.front()
    return follower.twin if dispatcher_of(follower.twin) else original


def _follower_of(function: FunctionType) -> _Follower | None:
    """What keeps a function that `compiled_twin` has made in step."""
    found = function.__dict__.get(COMPILED)
    if isinstance(found, Dispatcher) and found.owns(function):
        found = found.followed
        return found if isinstance(found, _Follower) else None
    return found if isinstance(found, _Follower) and found.owns(function) else None


class _Follower:
    """Keeps a twin in step with its original."""

    def __init__(self, original: FunctionType, compiler: Compiler, name: str) -> None:
        self.original = original
        self.compiler = compiler
        self.name = name
        self._front: weakref.ref[FunctionType] | None = None
        self.twin = twin_function(original, self._code())
        self.twin.__dict__.update(original.__dict__)
        self.twin.__module__ = original.__module__
        self.twin.__doc__ = original.__doc__
        self.twin.__annotations__ = original.__annotations__
        _install(self.twin, original, compiler, name, self)

    def _code(self) -> CodeType:
        return ORIGINALS.of(self.original.__code__)

    def guards(self) -> Sequence[Guard]:
        """What an entry tests so that it is never older than the original."""
        original = Held(self.original)
        return (CodeIs(original, self._code(), ORIGINALS.of),)

    def stale(
        self, code: CodeType
    ) -> Callable[[int, dict[str, object], tuple[CellType, ...]], Callable[..., Any]] | None:
        """None while `code` is the original's; else what calls the newest twin in its place."""
        if self.original.__code__ is code or self._code() is code:
            return None
        self.sync()

        def leave(
            exit_: int, globals_: dict[str, object], cells: tuple[CellType, ...]
        ) -> Callable[..., Any]:
            return lambda *frame: _called_again(self.twin, code, frame)

        return leave

    def owns(self, function: FunctionType) -> bool:
        """Whether this is the function in front of the twin."""
        return self._front is not None and self._front() is function

    def original_of(self, function: FunctionType) -> FunctionType | None:
        """What the function in front of the twin was made from."""
        return self.original if self.owns(function) else None

    def release(self, function: FunctionType) -> None:
        """Let the twin run the original's code, uncompiled."""
        dispatcher = dispatcher_of(function)
        if dispatcher is not None:
            dispatcher.release(self.twin)

    def compile_again(self, compiler: Compiler) -> None:
        """Forget what was compiled, and compile in this way."""
        self.compiler = compiler
        before = dispatcher_of(self.twin)
        if before is not None:
            before.release(self.twin)
        self.twin.__code__ = self._code()
        _install(self.twin, self.original, compiler, self.name, self)

    def sync(self) -> None:
        """Give the twin the original's code and defaults."""
        code = self._code()
        if ORIGINALS.of(self.twin.__code__) is not code:
            self.twin.__code__ = code
            _install(self.twin, self.original, self.compiler, self.name, self)
        if self.twin.__defaults__ is not self.original.__defaults__:
            self.twin.__defaults__ = self.original.__defaults__
        if self.twin.__kwdefaults__ is not self.original.__kwdefaults__:
            self.twin.__kwdefaults__ = self.original.__kwdefaults__

    def front(self) -> FunctionType:
        """A function that brings the twin up to date before CPython binds the arguments."""
        original, twin = self.original, self.twin
        code, defaults, named = original.__code__, original.__defaults__, original.__kwdefaults__

        def front(*args: Any, **kwargs: Any) -> Any:
            nonlocal code, defaults, named
            if not (  # asked at each call: 0.1 us
                original.__code__ is code
                and original.__defaults__ is defaults
                and original.__kwdefaults__ is named
            ):
                now = original.__code__, original.__defaults__, original.__kwdefaults__
                self.sync()
                code, defaults, named = now
            try:
                return twin(*args, **kwargs)
            except BaseException as error:
                drop_frame(error)
                raise

        function = front
        assert isinstance(function, FunctionType)
        function.__code__ = function.__code__.replace(
            co_name=twin.__name__,
            co_qualname=twin.__qualname__,
            co_filename=self.original.__code__.co_filename,
            co_firstlineno=self.original.__code__.co_firstlineno,
            co_linetable=b"",  # none of the user's lines is run here
        )
        function.__name__, function.__qualname__ = twin.__name__, twin.__qualname__
        function.__module__, function.__doc__ = twin.__module__, twin.__doc__
        function.__annotations__ = twin.__annotations__
        function.__dict__.update(twin.__dict__)
        function.__dict__.setdefault("__wrapped__", self.original)
        function.__dict__[COMPILED] = self
        self._front = weakref.ref(function)
        mark_coroutine(function, twin)
        # They are shown, and never used: the code has no parameters that could be missing.
        function.__defaults__ = self.original.__defaults__
        function.__kwdefaults__ = self.original.__kwdefaults__
        return function


def _called_again(function: FunctionType, code: CodeType, frame: tuple[Any, ...]) -> Any:
    """Call `function` with the arguments that a frame of `code` began with."""
    names = slot_names(code)
    values = [v.cell_contents if isinstance(v, CellType) else v for v in frame[: len(names)]]
    positional, keyword_only = code.co_argcount, code.co_kwonlyargcount
    args = tuple(values[:positional])
    at = positional + keyword_only
    kwargs = dict(zip(names[positional:at], values[positional:at], strict=True))
    if code.co_flags & inspect.CO_VARARGS:
        args += values[at]
        at += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(values[at])
    return function(*args, **kwargs)
