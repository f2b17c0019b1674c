"""What a program says to the compiler in its own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from jitpkg.errors import InvalidArgument

F = TypeVar("F", bound=Callable[..., Any])

DISABLED = "_jitpkg_disable"
"""The attribute of a function that is never compiled."""


def graph_break(msg: str = "") -> None:
    """Ask for a graph break here; outside compiled code it does nothing."""


def is_compiling() -> bool:
    """Whether this code is being compiled: True in compiled code, False where Python runs it."""
    return False


@overload
def disable(fn: F, recursive: bool = True, *, reason: str | None = None) -> F: ...
@overload
def disable(
    fn: None = None, recursive: bool = True, *, reason: str | None = None
) -> Callable[[F], F]: ...
def disable(
    fn: F | None = None, recursive: bool = True, *, reason: str | None = None
) -> F | Callable[[F], F]:
    """Mark a function as one that is called as it is, never traced.

    Args:
        fn: the function or method; without it, `disable` makes a decorator.
        recursive: whether what it calls is left alone, too. What is compiled in place by itself
            stays compiled.
        reason: shown where the call breaks a graph.

    Raises:
        InvalidArgument: `fn` is no Python function.
    """
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)
    function = getattr(fn, "__func__", fn)
    if not hasattr(function, "__dict__") or not callable(function):
        raise InvalidArgument(f"disable() takes a function, not {fn!r}.")
    setattr(function, DISABLED, reason or True)
    return fn
