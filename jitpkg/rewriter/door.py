"""How emitted code reaches the region behind a hook, without keeping it alive.

The garbage collector does not see code objects, so whatever hangs strongly from `co_consts`
and leads back to the code would never be freed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

RETURN = -1
"""The exit of a region that left the function."""


class Region(Protocol):
    """What a hook calls.

    `run(*locals, *stack, *cells[, globals])` returns `(exit, leave, values)`: go on at instruction
    `exit` with `values`; for RETURN, `values` is the function's result. Where the running code
    does not know the exit, it returns `leave(exit, globals, free_cells)(*slots, *kept, values)`.
    """

    run: Callable[..., tuple[int, Callable[..., Callable[..., Any]] | None, Any]]


class Door(weakref.ref["Region"]):
    """A weak reference to a region; called, it gives the region, or None when it is gone.

    In a pickle (of a function by value, as cloudpickle makes them) it becomes a door to nothing:
    in the other process the original code runs.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        return closed_door, ()


def closed_door() -> Callable[[], None]:
    """A door that no region is behind."""
    return _nothing


def _nothing() -> None:
    return None


class _Unbound:
    """Stands for a local that is not bound, or for NULL, on its way through a hook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<unbound>"

    def __reduce__(self) -> str:
        return "UNBOUND"


UNBOUND = _Unbound()


def drop_frame(error: BaseException) -> None:
    """Take the outermost frame out of an exception's traceback."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next
