"""Special methods of builtin classes, which type checkers know for each class by itself only."""

from __future__ import annotations

from typing import Any


def special(cls: type, name: str) -> Any:
    """The method `name` of a builtin class, as `list.__len__`."""
    return getattr(cls, name)
