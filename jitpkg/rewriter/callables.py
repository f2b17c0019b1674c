"""Callables that are no Python functions: partials, builtins, objects with `__call__`.

They have no code that could be hooked, so a function that calls one is compiled, and traced into
what it calls. What the user gets calls that function, and is the object itself in all else.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any

from jitpkg.marks import COMPILED
from jitpkg.rewriter.door import drop_frame

_get = object.__getattribute__
_OWN = frozenset(
    """
    __class__ __wrapped__ __reduce_ex__ __copy__ __deepcopy__ _is_coroutine _is_coroutine_marker
    """.split()
)
"""Attributes that are not those of what is wrapped."""


class CompiledCallable:
    """Calls a compiled function; whatever else is asked of it is asked of the original."""

    __slots__ = (
        *("__weakref__", "__wrapped__", "_again", "_compiled"),
        *("_is_coroutine", "_is_coroutine_marker"),
    )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return _get(self, "_compiled")(*args, **kwargs)
        except BaseException as error:
            while error.__traceback__ and is_ours(error.__traceback__.tb_frame.f_code):
                drop_frame(error)
            raise

    def __getattribute__(self, name: str) -> Any:
        return _get(self, name) if name in _OWN else getattr(_get(self, "__wrapped__"), name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(_get(self, "__wrapped__"), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_get(self, "__wrapped__"), name)

    def __dir__(self) -> list[str]:
        return dir(_get(self, "__wrapped__"))

    def __repr__(self) -> str:
        return f"<compiled {_get(self, '__wrapped__')!r}>"

    def __reduce_ex__(self, protocol: object) -> Any:
        return _get(self, "_again"), (_get(self, "__wrapped__"),)

    def __copy__(self) -> Any:
        return _get(self, "_again")(copy.copy(_get(self, "__wrapped__")))

    def __deepcopy__(self, memo: Any) -> Any:
        return _get(self, "_again")(copy.deepcopy(_get(self, "__wrapped__"), memo))


class CompiledDescriptor(CompiledCallable):
    """Of what a class binds to its instances, as it does a function that remembers its results."""

    __slots__ = ()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        original = _get(self, "__wrapped__")
        bound = type(original).__get__(original, instance, owner)
        if bound is original:
            return self
        if type(bound) is MethodType and bound.__func__ is original:
            return MethodType(self, bound.__self__)
        return bound


def made_of(original: Any, compiled: FunctionType, again: Callable[[Any], Any]) -> CompiledCallable:
    """What stands in an object's place.

    Args:
        compiled: the compiled version of `calling(original)`.
        again: compiles another object in the same way, for copies and pickles.
    """
    binds = hasattr(type(original), "__get__")
    made = object.__new__(CompiledDescriptor if binds else CompiledCallable)
    object.__setattr__(made, "__wrapped__", original)
    object.__setattr__(made, "_again", again)
    object.__setattr__(made, "_compiled", compiled)
    mark_coroutine(made, original)
    return made


def mark_coroutine(front: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Let `iscoroutinefunction` say of one callable what it says of another."""
    if not asyncio.iscoroutinefunction(original):
        return
    if hasattr(inspect, "markcoroutinefunction"):
        inspect.markcoroutinefunction(front)
    else:
        setattr(front, "_is_coroutine", vars(asyncio.coroutines)["_is_coroutine"])  # noqa: B010


def original_of(made: CompiledCallable) -> Any:
    """What stands behind it."""
    return _get(made, "__wrapped__")


def compiled_of(made: CompiledCallable) -> FunctionType:
    """The compiled function that it calls."""
    function: FunctionType = _get(made, "_compiled")
    return function


setattr(CompiledCallable, COMPILED, compiled_of)


def calling(target: Callable[..., Any]) -> FunctionType:
    """A function that calls an object; it can be traced, and has the object's name."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    function: Any = call
    name = name_of(target)
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    function.__name__ = function.__qualname__ = name
    function.__module__ = ""  # of no library, whose functions are not traced
    return function  # type: ignore[no-any-return]


def is_ours(code: CodeType) -> bool:
    """Whether it is that of such a function."""
    return code.co_filename == __file__


def name_of(target: Any) -> str:
    """What reports call it."""
    while isinstance(target, functools.partial):
        target = target.func
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None)
    return name if isinstance(name, str) else type(target).__qualname__
