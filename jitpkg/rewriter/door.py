"""How emitted code reaches the region behind a hook, without keeping it alive.

The garbage collector does not see code objects, so whatever hangs strongly from `co_consts`
and leads back to the code would never be freed.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from jitpkg.internals.library import COMPILER

_DYNAMO = f"{COMPILER}."

RETURN = -1
"""The exit of a region that left the function."""
LEAVE = -2
"""An exit that no code knows: it calls `leave`."""


def leaving(h: int) -> int:
    """The exit that no code knows, from which `leave` goes on at instruction `h`."""
    return LEAVE - h


def goes_on_at(exit_: int) -> int:
    """The instruction at which `leave` goes on."""
    return exit_ if exit_ > LEAVE else LEAVE - exit_


class Region(Protocol):
    """What a hook calls.

    `run(*locals, *stack, *cells[, globals])` returns `(exit, leave, values)`: go on at instruction
    `exit` with `values`; for RETURN, `values` is the function's result. Where the running code
    does not know the exit, it returns `leave(exit, globals, free_cells)(*slots, *kept, values)`.
    """

    run: Callable[..., tuple[int, Callable[..., Callable[..., Any]] | None, Any]]

    def traced(self) -> None:
        """`torch.compile` or `torch.export` has traced the code with the hook."""


class Door(weakref.ref["Region"]):
    """A weak reference to a region; called, it gives the region, or None when it is gone.

    In a pickle (of a function by value, as cloudpickle makes them) it becomes a door to nothing:
    in the other process the original code runs.

    Dynamo traces functions of which we have changed the code, and must find what their author
    wrote. What it knows of a constant is its class: to it, and to nobody else, a door says that it
    is an empty frozenset, and so the jump around the hook, which is on the door's truth, is taken.
    """

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        asks = sys._getframe(1).f_globals.get("__name__")
        if not isinstance(asks, str) or not asks.startswith(_DYNAMO):
            return Door
        region = self()
        if region is not None:
            region.traced()
        return frozenset

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __copy__(self) -> Door:
        return self

    def __deepcopy__(self, memo: object) -> Door:
        return self

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


class Leave:
    """A `leave` of an entry that has switched modes for what Python goes on with."""

    __slots__ = ("leave", "undo")

    def __init__(
        self, leave: Callable[..., Callable[..., Any]], undo: Callable[[], object]
    ) -> None:
        self.leave = leave
        self.undo = undo

    def __call__(self, *arguments: object) -> Callable[..., Any]:
        return self.leave(*arguments)


def stay(leave: object) -> None:
    """An exception has come from outside before a resume function was entered: modes are as
    before, for Python does not stand in the block that they belong to."""
    if isinstance(leave, Leave):
        leave.undo()


def drop_frame(error: BaseException) -> None:
    """Take the outermost frame out of an exception's traceback; the class's own code runs not."""
    traceback = _TRACEBACK.__get__(error)
    if traceback is not None:
        _TRACEBACK.__set__(error, traceback.tb_next)


_TRACEBACK: Any = vars(BaseException)["__traceback__"]
