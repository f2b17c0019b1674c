"""From emitted code objects back to what their authors wrote."""

from __future__ import annotations

import threading
import weakref
from types import CodeType


class Originals:
    """The original of each emitted code object, for as long as that lives."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._of: dict[int, tuple[weakref.ref[CodeType], CodeType]] = {}

    def add(self, emitted: CodeType, original: CodeType) -> None:
        if emitted is original:
            return
        key = id(emitted)

        def forget(_: object) -> None:
            self._of.pop(key, None)

        with self._lock:
            self._of[key] = weakref.ref(emitted, forget), original

    def of(self, code: CodeType) -> CodeType:
        """The original; any other code object is its own."""
        found = self._of.get(id(code))
        if found is None or found[0]() is not code:
            return code
        return found[1]


ORIGINALS = Originals()
"""The process's table."""
