"""Where an iterator that exists stands, and what it walks: read without advancing it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

Walk = tuple[object, ...]
"""A position, then what is walked: for a zip and an enumerate the iterators that they advance."""


def walk_of(iterator: Iterator[object]) -> Walk:
    """The walk of an iterator of one of the classes in `READERS`, by what Python pickles of it.

    The position is an index, but for those of ranges, of which the rest is given, and for an
    enumerate, of which it is the next number.

    Raises:
        LookupError: If it is at its end, or what it walks has changed since.
    """
    return READERS[type(iterator)](iterator)


def _indexed(iterator: Any) -> Walk:
    """`iter`, the sequence in a tuple, an index; without an index where the walk has ended."""
    _, (walked,), position = _complete(iterator)
    return position, walked


def _complete(iterator: Any) -> tuple[Any, Any, Any]:
    found: tuple[Any, Any, Any] = iterator.__reduce__()
    if len(found) != 3:
        raise LookupError("an iterator at its end")
    return found


def _numbers(iterator: Any) -> Walk:
    """The range that is left: CPython 3.11 pickles the whole one and an index."""
    _, (numbers,), position = _complete(iterator)
    return 0, numbers[position or 0 :]


def _of_dict(view: str) -> Callable[[Any], Walk]:
    """What is left must be the last items of the dict."""
    items = getattr(dict, view)
    which = _key if view == "items" else id

    def read(iterator: Any) -> Walk:
        of = next((found for found in gc.get_referents(iterator) if isinstance(found, dict)), None)
        if of is None:
            raise LookupError("an iterator at its end")
        try:
            _, (left,) = iterator.__reduce__()
        except RuntimeError as error:
            raise LookupError("a dict that has changed while it is walked") from error
        position = dict.__len__(of) - len(left)
        if list(map(which, left)) != list(map(which, list(items(of))[position:])):
            raise LookupError("a dict that has changed while it is walked")
        return position, of

    return read


def _key(item: tuple[object, object]) -> int:
    return id(item[0])


def _enumerated(iterator: Any) -> Walk:
    _, (inner, number) = iterator.__reduce__()
    return number, inner


def _zipped(iterator: Any) -> Walk:
    _, inner, *strict = iterator.__reduce__()
    return bool(strict), *inner


VIEWS: Mapping[type, Literal["keys", "values", "items"]] = MappingProxyType(
    {
        type(iter({}.keys())): "keys",
        type(iter({}.values())): "values",
        type(iter({}.items())): "items",
    }
)
"""Iterators of dicts, and the views that they are of."""

READERS: Mapping[type, Callable[[Any], Walk]] = MappingProxyType(
    {
        type(iter([])): _indexed,
        type(reversed([])): _indexed,
        type(iter(())): _indexed,
        type(iter(range(0))): _numbers,
        enumerate: _enumerated,
        zip: _zipped,
        **{cls: _of_dict(view) for cls, view in VIEWS.items()},
    }
)
"""What reads the walk of iterators of each class."""
