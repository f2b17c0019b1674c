"""What tables forget when objects die.

Objects die at any moment, and what a signal's handler raises in a callback of a weak reference is
lost, if the callback is in Python: these are in C.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from functools import partial
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")
Entry = tuple[dict[Any, Any], Hashable]
"""A table, and a key of it."""


def dropping(obj: T, table: dict[Any, Any], key: Hashable) -> weakref.ref[T]:
    """A reference by which a table loses a key when the object dies; it is to be kept till then."""
    return weakref.ref(obj, partial(table.pop, key))


class _Kept:
    """References that nobody else keeps."""

    def __init__(self) -> None:
        self._references: dict[int, tuple[weakref.ref[Any], ...]] = {}
        self._numbers = count()

    def add(self, obj: object, entries: tuple[Entry, ...]) -> None:
        own = self._references, next(self._numbers)
        self._references[own[1]] = tuple(dropping(obj, *entry) for entry in (*entries, own))


_KEPT = _Kept()


def drop_with(obj: object, *entries: Entry) -> None:
    """Drop entries of tables, as far as they are there, when an object dies."""
    _KEPT.add(obj, entries)
