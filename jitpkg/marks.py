"""What a program says to the compiler in its own code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any, NoReturn, TypeVar, overload

from jitpkg.errors import InvalidArgument

F = TypeVar("F", bound=Callable[..., Any])

DISABLED = "_jitpkg_disable"
"""The attribute of a function that is never compiled."""

COMPILED = "__jitpkg__"
"""The attribute where a function keeps its dispatcher, which lives as long as the function does."""


VARIES = "jitpkg_varies"
"""The key in a graph module's `meta`: whether sizes or numbers among its inputs may differ from
those of the example inputs."""

DYNAMIC_DIMS = "_jitpkg_dynamic_dims"
STATIC_DIMS = "_jitpkg_static_dims"
"""Attributes of tensors that hold what `mark_dynamic` and `mark_static` were told."""


def mark_dynamic(tensor: Any, dim: int | Iterable[int]) -> None:
    """Say that the size of a tensor in a dim, or in several, varies from call to call.

    The first call with such a tensor is compiled for all sizes from 2 on.

    Raises:
        InvalidArgument: the tensor has no such dim, or is none.
    """
    dims = _dims(tensor, dim, "mark_dynamic")
    setattr(tensor, DYNAMIC_DIMS, getattr(tensor, DYNAMIC_DIMS, frozenset()) | dims)
    setattr(tensor, STATIC_DIMS, getattr(tensor, STATIC_DIMS, frozenset()) - dims)


def mark_static(tensor: Any, dim: int | Iterable[int] | None = None) -> None:
    """Say that a size is to be taken as it is, and compiled again where it differs.

    Args:
        tensor: the tensor.
        dim: which dims; all of them where None.

    Raises:
        InvalidArgument: the tensor has no such dim, or is none.
    """
    dims = _dims(tensor, dim, "mark_static")
    setattr(tensor, STATIC_DIMS, getattr(tensor, STATIC_DIMS, frozenset()) | dims)
    setattr(tensor, DYNAMIC_DIMS, getattr(tensor, DYNAMIC_DIMS, frozenset()) - dims)


def mark_unbacked(tensor: Any, dim: int | Iterable[int]) -> NoReturn:
    """Refused: sizes that are unknown while tracing are not supported.

    Raises:
        InvalidArgument: always.
    """
    raise InvalidArgument(
        "jitpkg has no sizes that are unknown while tracing; use mark_dynamic(tensor, dim), which"
        " compiles for all sizes from 2 on."
    )


def _dims(tensor: Any, dim: int | Iterable[int] | None, name: str) -> frozenset[int]:
    if not hasattr(tensor, "dim") or not callable(tensor.dim):
        raise InvalidArgument(f"{name}() takes a tensor, not {type(tensor).__name__}.")
    rank = tensor.dim()
    if dim is None:
        return frozenset(range(rank))
    dims: list[Any] = [dim] if isinstance(dim, int) else list(dim)
    for given in dims:
        if not isinstance(given, int) or not -rank <= given < rank:
            raise InvalidArgument(f"{name}(): the tensor has {rank} dims, and no dim {given!r}.")
    return frozenset(given % rank for given in dims)


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
