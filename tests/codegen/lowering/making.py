"""How sample calls are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Call = tuple[tuple[Any, ...], dict[str, Any]]
Maker = Callable[[Any], Iterable[Call]]


def each(*makers: Callable[[Any], tuple[Any, ...]], **kwargs: Any) -> Maker:
    """Calls with these arguments, and these by name; without those that a dtype cannot have."""

    def calls(t: Any) -> Iterable[Call]:
        for make in makers:
            try:
                made = make(t)
            except RuntimeError:
                continue
            yield made, kwargs

    return calls


def both(*makers: Maker) -> Maker:
    return lambda t: [call for make in makers for call in make(t)]
