"""Processes that compile the same thing at once: one of them does, and the others wait for it.

A claim is a lock on one byte of a file in the cache's directory, so the system frees what a killed
process has held. Nothing is right or wrong by it: who cannot have a claim, or has waited long
enough, compiles as if there were none. A process has one claim at a time, and what has one waits
for nothing; so processes cannot wait for each other in a circle.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from jitpkg import forks, interrupts
from jitpkg.codegen.cache import folder, trust

if sys.platform != "win32":
    import fcntl

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds that a process waits in vain, in all."""

PAUSE = 0.01
"""Seconds between two looks."""

_DIGITS = 12
"""Of a key, that make the place of its byte: 48 bits, less than any system's offsets have."""


class Claims:
    """The claims of this process in a directory."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._patience = 0.0 if directory is None or sys.platform == "win32" else PATIENCE
        self._free = threading.Lock()
        """Of other threads: POSIX knows locks of processes only, and closing any descriptor of a
        file frees all that a process has on it."""
        self._descriptor: int | None = None

    @contextmanager
    def claimed(self, key: str, look: Callable[[], T | None]) -> Iterator[T | None]:
        """Let other processes wait while the thing of a key is made, or wait for another one's.

        Args:
            look: whether it is there now; the caller has just missed it.

        Yields:
            What was found meanwhile; None where it is to be made now.
        """
        is_mine = False
        try:
            if self._patience > 0:
                is_mine = self._free.acquire(blocking=False)
            if not is_mine:
                yield None
                return
            with forks.changing(self._forget):
                yield self._looked(int(key[:_DIGITS], 16), look)
        finally:
            if is_mine:
                self._release()
                self._free.release()

    def _looked(self, at: int, look: Callable[[], T | None]) -> T | None:
        try:
            self._descriptor = self._opened()
            if self._takes(at):
                return look()
            began = time.monotonic()
            while not self._waited(began):
                time.sleep(PAUSE)
                if self._takes(at):
                    break
        except OSError:  # a file system without locks, or a folder that cannot be used
            self._patience = 0.0
            return None
        self._release()
        found = look()
        if found is None:
            self._patience -= time.monotonic() - began
        return found

    def _waited(self, began: float) -> bool:
        """Whether it was long enough."""
        return interrupts.is_one_held() or time.monotonic() - began > self._patience

    def _takes(self, at: int) -> bool:
        """Lock a byte, if no other process has."""
        if sys.platform == "win32" or self._descriptor is None:
            return False
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at)
        except (BlockingIOError, PermissionError):  # as EAGAIN or EACCES, as systems like it
            return False
        return True

    def _opened(self) -> int:
        assert self._directory is not None
        trust.make(self._directory)
        with trust.folder(self._directory) as at:
            try:
                return _file(at)
            except trust.Strange:
                trust.remove(at, folder.CLAIMS)
                return _file(at)

    def _release(self) -> None:
        """Closing frees what is locked."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def _forget(self) -> None:
        """In a process that was forked meanwhile: locks are not inherited."""
        self._release()
        self._free = threading.Lock()


def _file(at: int) -> int:
    with trust.file(at, folder.CLAIMS, os.O_RDWR | os.O_CREAT) as found:
        return os.dup(found)  # nothing is locked yet that closing the other one would free
