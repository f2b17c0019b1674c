"""Callables of `operator` and `functools` that are written in C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitpkg.code.versions import UNWRAP_STOPS_AT_CLASSES


def itemgetter(items: tuple[Any, ...], obj: Any) -> Any:
    """A call of `operator.itemgetter(*items)`"""
    if len(items) == 1:
        return obj[items[0]]
    return tuple([obj[item] for item in items])


def attrgetter(names: tuple[str, ...], obj: Any) -> Any:
    """A call of `operator.attrgetter(*names)`"""
    if len(names) == 1:
        return _by_path(names[0], obj)
    return tuple([_by_path(name, obj) for name in names])


def _by_path(path: str, obj: Any) -> Any:
    for name in path.split("."):
        obj = getattr(obj, name)
    return obj


class _Key:
    """What `functools.cmp_to_key` makes of a value."""

    def __init__(self, compare: Callable[[Any, Any], Any], obj: Any) -> None:
        self.compare = compare
        self.obj = obj

    def __lt__(self, other: _Key) -> bool:
        return bool(self.compare(self.obj, other.obj) < 0)

    def __gt__(self, other: _Key) -> bool:
        return bool(self.compare(self.obj, other.obj) > 0)

    def __le__(self, other: _Key) -> bool:
        return bool(self.compare(self.obj, other.obj) <= 0)

    def __ge__(self, other: _Key) -> bool:
        return bool(self.compare(self.obj, other.obj) >= 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and bool(self.compare(self.obj, other.obj) == 0)

    __hash__ = None  # type: ignore[assignment]


def cmp_to_key(mycmp: Callable[[Any, Any], Any]) -> Callable[[Any], _Key]:
    """`functools.cmp_to_key`"""
    return lambda obj: _Key(mycmp, obj)


_MISSING = object()


def cached_property_get(self: Any, instance: Any, owner: type | None = None) -> Any:
    """`functools.cached_property.__get__`, without the lock that it has on 3.11."""
    if instance is None:
        return self
    if self.attrname is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    cache = instance.__dict__
    value = cache.get(self.attrname, _MISSING)
    if value is _MISSING:
        value = self.func(instance)
        cache[self.attrname] = value
    return value


def unwrap(func: Any, *, stop: Any = None) -> Any:
    """`inspect.unwrap`, with a list of objects in place of a dictionary of their ids."""
    seen = [func]
    while not (UNWRAP_STOPS_AT_CLASSES and isinstance(func, type)) and hasattr(func, "__wrapped__"):
        if stop is not None and stop(func):
            break
        func = func.__wrapped__
        for each in seen:
            if each is func:
                raise ValueError(f"wrapper loop when unwrapping {seen[0]!r}")
        seen.append(func)
    return func
