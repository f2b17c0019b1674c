"""Processes that fork while another thread compiles: the child must work, or run code as it is.

A child has none of its parent's other threads. What those held stays locked in it, what they were
importing stays half there, and what they have changed for a while stays changed. So a fork waits a
little for them; and the child takes the locks from the dead, undoes what they were about to undo,
and compiles nothing where one of them was in the midst of it.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  (as logging: takes a lock when a process forks)
import logging  # noqa: F401  (behind our wait, if it is loaded before)
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import _bootstrap
from typing import Any

from jitpkg.endings import dropping

PATIENCE = 1.0
"""Seconds for which a fork waits for threads that compile."""

IMPORTS = 30.0
"""Seconds for which it waits while one of them imports a module, which no child could import."""

TURN = 0.2
"""Seconds for which a thread that would begin waits for a fork: no longer, for it may have a lock
that another one needs, for which the fork waits."""


class _Work:
    """What the threads of this process are about."""

    def __init__(self) -> None:
        self.threads: dict[int, int] = {}
        """Those that compile, or import the compiler; in how many functions."""
        self.undos: dict[int, list[Callable[[], None]]] = {}
        """By thread, what undoes what it has changed for a while."""
        self.locks: dict[int, weakref.ref[Any]] = {}
        self.waited_for: dict[int, weakref.ref[Any]] = {}
        """Locks that nobody else has when the process forks, if that can be had."""
        self.taken: list[Any] = []
        self.forking = False
        self.is_alone = True
        """Whether no other thread was at work when the process forked."""
        self.may_compile = True

    def before(self) -> None:
        """Wait for the others."""
        self.forking = True
        here = threading.get_ident()
        began = calm = time.monotonic()
        while others := self._others(here):
            now = time.monotonic()
            if not others.isdisjoint(_importing().values()) and here not in _importing().values():
                calm = now
            if now - calm > PATIENCE or now - began > IMPORTS:
                break
            time.sleep(0.001)
        self.is_alone = not others
        self.taken = [lock for lock in _living(self.waited_for) if lock.acquire(timeout=PATIENCE)]

    def _others(self, here: int) -> set[int]:
        """The threads at work, besides one."""
        ours = {thread for name, thread in _importing().items() if name.startswith("jitpkg")}
        return (ours | set(self.threads)) - {here}

    def in_parent(self) -> None:
        self.forking = False
        while self.taken:
            self.taken.pop().release()

    def in_child(self) -> None:
        self.in_parent()
        here = threading.get_ident()
        for lock in _living(self.locks):
            if lock.acquire(blocking=False):
                lock.release()
            else:
                lock._at_fork_reinit()  # as `threading` and `logging` do
        for thread in [thread for thread in self.undos if thread != here]:
            for undo in reversed(self.undos.pop(thread)):
                undo()
        self.threads = {thread: depth for thread, depth in self.threads.items() if thread == here}
        self.may_compile = self.may_compile and self.is_alone


def _living(locks: dict[int, weakref.ref[Any]]) -> list[Any]:
    found = (reference() for reference in list(locks.values()))
    return [lock for lock in found if lock is not None]


def _importing() -> dict[str, int]:
    """The modules that are being imported, with the thread that does."""
    locks = getattr(_bootstrap, "_module_locks", {})
    living = ((name, reference()) for name, reference in list(locks.items()))
    owned = {name: getattr(lock, "owner", None) for name, lock in living}
    return {name: thread for name, thread in owned.items() if thread is not None}


_WORK = _Work()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_WORK.before, after_in_parent=_WORK.in_parent, after_in_child=_WORK.in_child
    )


def may_compile() -> bool:
    """Whether this process may compile: not one that was forked while another thread did."""
    return _WORK.may_compile


def begin() -> None:
    """Say that this thread compiles, or imports what does."""
    began, here = time.monotonic(), threading.get_ident()
    while _WORK.forking and here not in _WORK.threads and time.monotonic() - began < TURN:
        time.sleep(0.001)
    _WORK.threads[here] = _WORK.threads.get(here, 0) + 1


def end() -> None:
    """Say that it has ended what it said that it began last."""
    here = threading.get_ident()
    depth = _WORK.threads.pop(here, 1) - 1
    if depth:
        _WORK.threads[here] = depth


@contextmanager
def changing(undo: Callable[[], None]) -> Iterator[None]:
    """Say what undoes a change of the process's state that is made for a while.

    It may be called where nothing has been changed yet.
    """
    undos = _WORK.undos.setdefault(threading.get_ident(), [])
    undos.append(undo)
    try:
        yield
    finally:
        undos.pop()


def lock(*, waits: bool = False) -> threading.RLock:
    """A lock that a child takes from the dead.

    Args:
        waits: whether a fork waits a little until no other thread has it.
    """
    made = threading.RLock()
    for table in (_WORK.locks, _WORK.waited_for) if waits else (_WORK.locks,):
        table[id(made)] = dropping(made, table, id(made))
    return made
