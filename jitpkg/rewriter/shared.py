"""The dispatcher of a code object that any function may have: what a stub starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

from jitpkg import events
from jitpkg.marks import COMPILED
from jitpkg.rewriter.compiler import Compiler
from jitpkg.rewriter.dispatch import Dispatcher
from jitpkg.rewriter.hooked import TRACED
from jitpkg.rewriter.region import Region, Result
from jitpkg.rewriter.stub import Place
from jitpkg.tracer.libraries import refusal


class SharedDispatcher(Dispatcher):
    """Keeps the functions up to date that had the code when it was started.

    Those made later of the same constant have its stub, which asks the first region.
    """

    def __init__(
        self, code: CodeType, compiler: Compiler, forget: Callable[[dict[str, Any]], None]
    ) -> None:
        super().__init__(code, compiler, code.co_qualname)
        self._forget = forget
        self._first: Region | None = None
        self._closed = False

    def start(self, functions: Sequence[FunctionType]) -> bool:
        """Hook the code of these functions; False where that cannot be, or must not."""
        for function in functions:
            if (refused := refusal(function)) is not None:
                reason, detail = refused
                events.STREAM.emit(events.GivenBack(self.name, f"{reason.title}: {detail}"))
                return False
        if not self.install(functions):
            return False
        self._find_first()
        return True

    def _find_first(self) -> None:
        first = self.points.first
        self._first = None if first is None else self.regions.get(first)

    def reset(self) -> None:
        if not self._closed:
            super().reset()
            self._find_first()

    def traced(self) -> None:
        """Leave the functions alone, with the code that Dynamo has seen: it guards that."""
        self._closed, self._first = True, None
        for region in self.regions.values():
            region.close()
        self.regions.clear()
        self.compiler.reset()
        events.STREAM.emit(events.GivenBack(self.name, TRACED))

    def uninstall(self) -> None:
        super().uninstall()
        self._first = None
        self._forget({})

    def _replace(self, code: CodeType) -> None:
        if self._closed:
            return
        for function in self._owners:
            if COMPILED in function.__dict__:  # somebody has asked for this one by name
                self._owners.discard(function)
        super()._replace(code)

    # What a stub asks

    def ask(self, arguments: tuple[Any, ...]) -> Result:
        """Ask the first region."""
        region = self._first
        if region is None or region.h not in self.regions:
            return 0, None, ()
        return region.run(*arguments)

    def layout(self, place: Place) -> tuple[int | None, ...]:
        """For each argument of the region, which of the stub's it is; None for what is unbound."""
        assert self._first is not None
        h, points = self._first.h, self.points
        own = {slot: k for k, slot in enumerate((*place.locals, *place.cells, *place.free))}
        slots = (*points.locals_at(h), *points.cells_at(h), *points.free)
        found = [own.get(slot) for slot in slots]
        return (*found, len(own)) if points.uses_globals else tuple(found)

    def is_beginning(self, exit_: int) -> bool:
        """Whether an exit is the beginning of the code."""
        return exit_ == self.points.first
