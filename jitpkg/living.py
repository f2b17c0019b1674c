"""A set of objects that does not keep them alive, and that threads may share."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from jitpkg import forks

T = TypeVar("T")


class Living(Generic[T]):
    """Like `weakref.WeakSet`, by identity; walking it is safe while other threads add to it.

    Args:
        lock: of `forks.lock`, where whoever holds the set has one already.
    """

    def __init__(self, lock: threading.RLock | None = None) -> None:
        self._lock = forks.lock() if lock is None else lock
        self._references: dict[int, weakref.ref[T]] = {}
        self._swept = 8
        """At so many references those to dead objects are dropped."""

    def add(self, member: T) -> None:
        with self._lock:
            self._references[id(member)] = weakref.ref(member)
            if len(self._references) > self._swept:
                living = {k: r for k, r in list(self._references.items()) if r() is not None}
                self._references = living
                self._swept = 2 * len(living) + 8

    def update(self, members: Iterable[T]) -> None:
        for member in members:
            self.add(member)

    def discard(self, member: T) -> None:
        with self._lock:
            if member in self:
                del self._references[id(member)]

    def __contains__(self, member: object) -> bool:
        reference = self._references.get(id(member))
        return reference is not None and reference() is member

    def __iter__(self) -> Iterator[T]:
        """Those that are in it now."""
        with self._lock:
            references = list(self._references.values())
        found = (reference() for reference in references)
        return iter([member for member in found if member is not None])
