"""Exceptions that come from outside of what runs: of signal handlers, trace functions, threads.

Python calls the handler of a signal between any two instructions of its main thread. What a handler
raises there (a timeout, say) is nobody's failure: where compiled code runs it is let out as it is,
see `from_outside`, and while something is compiled handlers wait, see `uninterrupted`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # its functions return handlers as they are, and are 50 times as fast as `signal`'s
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType, TracebackType
from typing import Any, TypeVar

from jitpkg import forks

T = TypeVar("T")

Handler = Callable[[int, FrameType | None], Any]

_SIGNALS = sorted(map(int, signal.valid_signals()))


# What has been raised


def from_outside(error: BaseException) -> bool:
    """Whether an exception was not raised by what ran: nobody may take it for a failure.

    KeyboardInterrupt and its like are of that kind; so is what a signal handler or a trace function
    raises, and what one thread raises in another; and what was raised in the place of one of these.
    """
    if not isinstance(error, Exception):
        return True
    return of_handler(error) is not None or _is_strange(error) or lost(error) is not None


def lost(error: BaseException) -> BaseException | None:
    """The exception from outside in whose place what ran has raised another one, if it has.

    Torch's settings, read while a handler raises a KeyError, raise an AttributeError from it.
    """
    frames = set(_frames(error))
    seen, before = {id(error)}, error.__cause__ or error.__context__
    while before is not None and id(before) not in seen:
        at = before.__traceback__
        if at is None or at.tb_frame not in frames:
            return None  # the program was handling it before, and calls this meanwhile
        if not isinstance(before, Exception | GeneratorExit) or of_handler(before) is not None:
            return before
        seen.add(id(before))
        frames.update(_frames(before))
        before = before.__cause__ or before.__context__
    return None


def _frames(error: BaseException) -> Iterator[FrameType]:
    at = error.__traceback__
    while at is not None:
        yield at.tb_frame
        at = at.tb_next


def of_handler(error: BaseException) -> TracebackType | None:
    """The part of a traceback that shows the handler which has raised an exception, if one has."""
    before, at = None, error.__traceback__
    codes = _codes_of_handlers()
    while at is not None:
        frame = at.tb_frame
        if frame.f_code in codes or (before is not None and _is_given(frame, before.tb_frame)):
            return at
        before, at = at, at.tb_next
    return None


def _is_given(frame: FrameType, caller: FrameType) -> bool:
    """Whether a function was called with its caller's frame: so the interpreter calls handlers and
    trace functions, in the middle of any code."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    has_rest = bool(code.co_flags & _HAS_REST)
    if not count and not has_rest:
        return False
    found = frame.f_locals
    values: list[Any] = [found.get(name) for name in code.co_varnames[: count + has_rest]]
    if has_rest and isinstance(values[-1], tuple):
        values.extend(values.pop())
    return any(value is caller for value in values)


_HAS_REST = 0x04
"""Of a code's flags: it has `*args`."""


def _codes_of_handlers() -> set[CodeType]:
    handlers = [handler for number in _SIGNALS if callable(handler := _signal.getsignal(number))]
    handlers += _HELD.originals.values()
    return {_DELIVERS, *(code for handler in handlers for code in _codes(handler, 4))}


def _codes(handler: Any, depth: int) -> Iterator[CodeType]:
    """The code of a function, and of what a method, a partial or a callable object calls."""
    if not depth:
        return
    match handler:
        case FunctionType():
            yield handler.__code__
            yield from _codes(handler.__dict__.get("__wrapped__"), depth - 1)
        case MethodType():
            yield from _codes(handler.__func__, depth - 1)
        case partial():
            yield from _codes(handler.func, depth - 1)
        case _:
            yield from _codes(vars(type(handler)).get("__call__"), depth - 1)


def _is_strange(error: Exception) -> bool:
    """Whether nothing that ran knows such exceptions: another thread has raised it in this one."""
    if type(error).__module__.partition(".")[0] in _RAISING:
        return False
    at = error.__traceback__
    while at is not None and _is_ours(at.tb_frame.f_code.co_filename):
        at = at.tb_next
    return at is None


_RAISING = frozenset({"builtins", "torch", "jitpkg", "numpy", "triton", "llvmlite", "sympy"})
"""The packages whose exceptions a graph may raise where no code of the program's own runs."""


def _is_ours(file: str) -> bool:
    if _INSTALLED in file:
        return file.rpartition(_INSTALLED)[2].partition(os.sep)[0] in _RAISING
    return file.startswith((*_OWN, _STANDARD))


_INSTALLED = f"{os.sep}site-packages{os.sep}"
_STANDARD = str(Path(os.__file__).parent) + os.sep
_OWN = (str(Path(__file__).parent) + os.sep, "<jitpkg ", "<eval_with_key>", "<string>", "<frozen ")


# What waits


class _Held:
    """The handlers of the process's signals while something is compiled.

    In their place stands `note`. It changes nothing but the moment, so it does no harm where an
    exception has kept it from being taken out again.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.interruptible = True
        """Whether a KeyboardInterrupt may come now: compiling may take long."""
        self.originals: dict[int, Handler] = {}
        self.restarting: list[int] = []
        """Signals after which system calls go on by themselves."""
        self.noted: list[tuple[Handler, int]] = []

    def note(self, number: int, frame: FrameType | None) -> None:
        """Stands in the place of a handler."""
        handler = self.originals[number]
        if not self.depth or (handler is signal.default_int_handler and self.interruptible):
            handler(number, frame)
        elif (handler, number) not in self.noted:  # like a call of C: once, however many came
            self.noted.append((handler, number))

    def enter(self) -> None:
        """Let handlers wait."""
        self.depth += 1
        if self.depth > 1:
            return
        self.interruptible = False
        for number in _SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler) and handler is not _NOTE:
                self.originals[number] = handler
                restarts = _restarts(number)
                _signal.signal(number, _NOTE)
                if restarts:
                    self.restarting.append(number)
                    _signal.siginterrupt(number, False)
        self.interruptible = True

    def leave(self) -> None:
        """Put the handlers back, and call those that have waited."""
        if self.depth:
            self.depth -= 1
        if self.depth:
            return
        try:
            self.put_back()
        finally:
            self.interruptible = True
            if self.noted:
                self.deliver(_frame_of_program())

    def put_back(self) -> None:
        for number, handler in list(self.originals.items()):
            if _signal.getsignal(number) is _NOTE:  # else somebody has set another one meanwhile
                _signal.signal(number, handler)
                if number in self.restarting:
                    _signal.siginterrupt(number, False)
            del self.originals[number]
        self.restarting.clear()

    def deliver(self, frame: FrameType | None) -> None:
        """Call each handler once, also when one of them raises."""
        try:
            handler, number = self.noted[0]
            del self.noted[0]
            handler(number, frame)
        finally:
            if self.noted:
                self.deliver(frame)

    def forget(self) -> None:
        """In a process that was forked meanwhile: the signals were not sent to it."""
        self.depth = 0
        self.noted.clear()
        self.put_back()


_HELD = _Held()
_NOTE = _HELD.note
_DELIVERS = _Held.deliver.__code__

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_HELD.forget)


def uninterrupted(work: Callable[[], T], behind: Callable[[], None] | None = None) -> T:
    """Call a function that compiles; handlers of signals that arrive meanwhile are called after it.

    So does Python itself with a function that is written in C. A KeyboardInterrupt comes at once,
    unless the program has a handler of its own for it. A fork in another thread waits a little.

    Args:
        behind: is called in any case, and not interrupted by a KeyboardInterrupt either.
    """
    if threading.get_ident() != threading.main_thread().ident:
        try:  # handlers run in the main thread only
            forks.begin()
            return work()
        finally:
            forks.end()
            if behind is not None:
                behind()
    try:
        _HELD.enter()
        forks.begin()
        return work()
    finally:
        _HELD.interruptible = False
        try:
            forks.end()
            if behind is not None:
                behind()
        finally:
            _HELD.leave()


def is_one_held() -> bool:
    """Whether a handler waits: what can be left for later should be."""
    return bool(_HELD.noted)


def _frame_of_program() -> FrameType | None:
    """The innermost frame that is not of this package."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OWN[:2]):
        frame = frame.f_back
    return frame


# Whether system calls go on after a signal: `signal` can set that, and cannot tell


def _restarts(number: int) -> bool:
    if _SIGACTION is None:
        return False
    found = ctypes.create_string_buffer(_BYTES)
    if _SIGACTION(number, None, found):
        return False
    return bool(int.from_bytes(found.raw[_FLAGS : _FLAGS + 4], sys.byteorder) & _RESTART)


_BYTES = 256
"""More than any system's `struct sigaction` has."""
_FLAGS, _RESTART = (12, 0x2) if sys.platform == "darwin" else (136, 0x10000000)
"""Where its flags are, and `SA_RESTART`."""


def _sigaction() -> Any:
    is_known = sys.platform == "darwin" or (sys.platform == "linux" and sys.maxsize > 2**32)
    return getattr(ctypes.CDLL(None), "sigaction", None) if is_known else None


_SIGACTION = _sigaction()
