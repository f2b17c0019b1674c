"""`warnings.catch_warnings`, of which a trace needs to know only whether warnings are ignored."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn


def init(
    self: Any,
    *,
    record: bool = False,
    module: Any = None,
    action: Any = None,
    category: type[Warning] = Warning,
    lineno: int = 0,
    append: bool = False,
) -> None:
    """`catch_warnings.__init__`"""
    if module is not None:
        refused("another module")
    self._record = record
    self._module = warnings
    self._entered = False
    self._filter = None if action is None else (action, category, lineno, append)


def enter(self: Any) -> Any:
    """`catch_warnings.__enter__`"""
    if self._entered:
        refused("entered twice, which raises")
    self._entered = True
    begin()
    if self._filter is not None:
        warnings.simplefilter(*self._filter)
    return [] if self._record else None


def exit_(self: Any, *error: Any) -> None:
    """`catch_warnings.__exit__`"""
    if not self._entered:
        refused("left without being entered, which raises")
    end()


def begin() -> None:
    """Filters that are set from now on are forgotten; the tracer has a row for it."""
    raise NotImplementedError


def end() -> None:
    """The end of `begin`; the tracer has a row for it."""
    raise NotImplementedError


def refused(why: str) -> NoReturn:
    """End the trace: the tracer has a row for it."""
    raise NotImplementedError
