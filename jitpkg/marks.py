"""What a program says to the compiler in its own code."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar, overload

from jitpkg.errors import InvalidArgument

F = TypeVar("F", bound=Callable[..., Any])

DISABLED = "_jitpkg_disable"
"""The attribute of a function that is never compiled."""

COMPILED = "__jitpkg__"
"""The attribute where a function keeps its dispatcher, which lives as long as the function does."""


def graph_break(msg: str = "") -> None:
    """Ask for a graph break here; outside compiled code it does nothing."""


def is_compiling() -> bool:
    """Whether this code is being compiled: True in compiled code, False where Python runs it."""
    return False


def _uncompiled(module: Any, *args: Any, **kwargs: Any) -> Any:
    """What calling a disabled module does."""
    return module._call_impl(*args, **kwargs)


setattr(_uncompiled, DISABLED, True)


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
        fn: the function, method or nn.Module; without it, `disable` makes a decorator.
        recursive: accepted, as torch.compiler.disable has it. What the function calls is left
            alone in any case, but for what was compiled by itself.
        reason: shown where the call breaks a graph.

    Raises:
        InvalidArgument: `fn` is no Python function.
    """
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)
    if hasattr(fn, "_compiled_call_impl"):  # a module: this is what its calls ask for first
        vars(fn)["_compiled_call_impl"] = MethodType(_uncompiled, fn)
        return fn
    function = getattr(fn, "__func__", fn)
    if not hasattr(function, "__dict__") or not callable(function):
        raise InvalidArgument(f"disable() takes a function, not {fn!r}.")
    setattr(function, DISABLED, reason or True)
    dispatcher = vars(function).get(COMPILED)
    if dispatcher is not None:
        dispatcher.release(function)
    return fn
