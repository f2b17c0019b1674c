"""What a program does, in a form that can be compared."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from jitpkg.code.analysis import is_function
from jitpkg.rewriter.emitter import Emitter
from jitpkg.rewriter.points import Points
from tests.regions import Identity, Leaving, Region, RegionAt, Rewriter, Walking, walk
from tests.rewriter import programs

Entries = list[tuple[str, int | None]]


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Entries]:
    """What a call gives: its result or its exception's chain; and the program's traceback lines."""
    try:
        return ("returned", str(function(*arguments))), []
    except Exception as error:
        return ("raised", *chain(error)), entries(error)


def chain(error: BaseException | None) -> Iterator[tuple[str, str, bool]]:
    while error is not None:
        yield type(error).__name__, str(error), error.__suppress_context__
        yield from chain(error.__cause__)
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from chain(inner)
        error = error.__context__


def entries(error: BaseException) -> Entries:
    """The traceback's entries in the programs."""
    return [
        (entry.name, entry.lineno)
        for entry in traceback.extract_tb(error.__traceback__)
        if entry.filename in programs.FILES
    ]


def functions_in(code: CodeType) -> list[CodeType]:
    return [c for c in walk(code) if is_function(c)]


def leaving_at(
    function: FunctionType, code: CodeType, h: int, kind: type[Leaving | Walking]
) -> tuple[FunctionType, Leaving | Walking]:
    """`function` with one hook, at point `h` of a code object in it, that leaves."""
    made: list[Leaving | Walking] = []

    def region_at(points: Points, at: int) -> Region | None:
        if at != h or points.code.co_qualname != code.co_qualname:
            return None
        if points.code.co_firstlineno != code.co_firstlineno:
            return None
        made.append(kind(points, h, emitter=lambda: Emitter(points, {})))
        return made[0]

    return keeping(Rewriter(region_at), function), made[0]


@cache
def hooked_everywhere(function: FunctionType, region_at: RegionAt = Identity) -> FunctionType:
    """The function with a region at every possible point."""
    return keeping(Rewriter(region_at), function)


def keeping(rewriter: Rewriter, function: FunctionType) -> FunctionType:
    """The rewritten function, which keeps its regions alive."""
    new = rewriter.function(function)
    new.__dict__["rewriter"] = rewriter
    return new
