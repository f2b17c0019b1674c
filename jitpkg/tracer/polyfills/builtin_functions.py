"""Builtin functions that call back into the program."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_MISSING = object()


def _message(function: Callable[..., Any], *arguments: Any) -> str:
    """What a function says of arguments that it does not take; Pythons word it differently."""
    try:
        function(*arguments)
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError(function)


_EMPTY = (_message(min, ()), _message(max, ()))
_NOT_CALLED = _message(iter, 0, 0)


def any_(iterable: Iterable[Any], /) -> bool:
    """`any`"""
    for item in iterable:  # noqa: SIM110
        if item:
            return True
    return False


def all_(iterable: Iterable[Any], /) -> bool:
    """`all`"""
    for item in iterable:  # noqa: SIM110
        if not item:
            return False
    return True


def min_(*args: Any, key: Callable[[Any], Any] | None = None, default: Any = _MISSING) -> Any:
    """`min`"""
    return _extreme("min", False, args, key, default)


def max_(*args: Any, key: Callable[[Any], Any] | None = None, default: Any = _MISSING) -> Any:
    """`max`"""
    return _extreme("max", True, args, key, default)


def _extreme(
    name: str, largest: bool, args: Any, key: Callable[[Any], Any] | None, default: Any
) -> Any:
    if not args:
        raise TypeError(f"{name} expected at least 1 argument, got 0")
    if len(args) > 1:
        if default is not _MISSING:
            raise TypeError(
                f"Cannot specify a default for {name}() with multiple positional arguments"
            )
        iterable = args
    else:
        iterable = args[0]
    found = False
    best = best_key = None
    for item in iterable:
        item_key = item if key is None else key(item)
        if not found:
            found, best, best_key = True, item, item_key
        elif item_key > best_key if largest else item_key < best_key:
            best, best_key = item, item_key
    if found:
        return best
    if default is _MISSING:
        raise ValueError(_EMPTY[largest])
    return default


def reduce(
    function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = _MISSING, /
) -> Any:
    """`functools.reduce`"""
    iterator = iter(iterable)
    if initial is _MISSING:
        try:
            value = next(iterator)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    else:
        value = initial
    for item in iterator:
        value = function(value, item)
    return value


def type_repr(cls: type, /) -> str:
    """`type.__repr__`"""
    module: object = cls.__module__
    if not isinstance(module, str) or module == "builtins":
        return f"<class '{cls.__qualname__}'>"
    return f"<class '{module}.{cls.__qualname__}'>"


def reversed_values(mapping: dict[Any, Any]) -> Iterator[Any]:
    """`reversed(mapping.values())`"""
    return (mapping[key] for key in reversed(mapping))


def reversed_items(mapping: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """`reversed(mapping.items())`"""
    return ((key, mapping[key]) for key in reversed(mapping))


def call_until(function: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    """`iter(function, sentinel)`"""
    if not callable(function):
        raise TypeError(_NOT_CALLED)
    return _call_until(function, sentinel)


def _call_until(function: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    while True:
        item = function()
        if item == sentinel:
            return
        yield item


def copy_ordered(ordered: OrderedDict[Any, Any]) -> OrderedDict[Any, Any]:
    """`OrderedDict.copy` of a subclass"""
    made: OrderedDict[Any, Any] = type(ordered)()
    for key in OrderedDict.__iter__(ordered):
        made[key] = ordered[key]
    return made


def setdefault_ordered(ordered: OrderedDict[Any, Any], key: Any, default: Any) -> Any:
    """`OrderedDict.setdefault` of a subclass"""
    if key in ordered:
        return ordered[key]
    ordered[key] = default
    return default
