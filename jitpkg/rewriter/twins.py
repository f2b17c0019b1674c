"""Compiled twins of functions that are reached through a break; the functions are not touched."""

from __future__ import annotations

from types import CodeType, FunctionType, MethodType
from typing import Any

from jitpkg.guards.kinds import static_lookup
from jitpkg.marks import mark_of
from jitpkg.rewriter.compiler import Compiler
from jitpkg.rewriter.dispatch import Dispatcher, dispatcher_for
from jitpkg.rewriter.originals import ORIGINALS
from jitpkg.tracer.libraries import refusal


class Twins:
    """Dispatchers of code objects, for as long as the function lives that led to them."""

    def __init__(self) -> None:
        self._dispatchers: dict[int, Dispatcher | None] = {}
        self._codes: list[CodeType] = []
        self._in_the_middle: set[int] = set()
        """Those of them that nobody has called from their beginning yet."""

    def clear(self) -> None:
        self._dispatchers.clear()
        self._in_the_middle.clear()
        self._codes.clear()

    def dispatchers(self) -> list[Dispatcher]:
        """Those that there are now."""
        return [found for found in tuple(self._dispatchers.values()) if found is not None]

    def of(self, callee: Any, compiler: Compiler) -> Any:
        """A twin of a function, method or callable object.

        Anything else is its own, and so is a function that has turned out to give no graph.
        """
        if type(callee) is FunctionType:
            return self._function(callee, compiler)
        if mark_of(callee) is not None:
            return callee
        if type(callee) is MethodType:
            function: object = callee.__func__
            receiver = callee.__self__
        else:
            function = static_lookup(type(callee), "__call__")
            receiver = callee
        if type(function) is not FunctionType:
            return callee
        twin = self._function(function, compiler)
        return callee if twin is function else MethodType(twin, receiver)

    def middle(self, code: CodeType, name: str, compiler: Compiler) -> Dispatcher:
        """What stands behind functions with this code, which may have no hooks yet."""
        found = self._dispatchers.get(id(code))
        if found is None:
            found = Dispatcher(code, compiler, name)
            self._dispatchers[id(code)] = found
            self._in_the_middle.add(id(code))
            self._codes.append(code)
        return found

    def _function(self, function: FunctionType, compiler: Compiler) -> FunctionType:
        code = function.__code__
        is_compiled = (
            ORIGINALS.of(code) is not code or ORIGINALS.callable_of(function) is not function
        )
        if is_compiled or refusal(function) is not None:
            return function
        if id(code) not in self._dispatchers:
            self._dispatchers[id(code)] = self._dispatcher(function, compiler)
            self._codes.append(code)
        dispatcher = self._dispatchers[id(code)]
        if dispatcher is None or not dispatcher.regions:
            return function
        if id(code) in self._in_the_middle:
            self._in_the_middle.discard(id(code))
            dispatcher.install()
        return twin_function(function, dispatcher.code)

    def _dispatcher(self, function: FunctionType, compiler: Compiler) -> Dispatcher | None:
        dispatcher = dispatcher_for(function.__code__, compiler, function.__qualname__)
        return dispatcher if dispatcher is not None and dispatcher.install() else None


def twin_function(function: FunctionType, code: CodeType) -> FunctionType:
    """A function with other code that otherwise is this one."""
    twin = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__qualname__ = function.__qualname__
    return twin
