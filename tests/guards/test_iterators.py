"""Iterators that exist before the call: where they stand, and what they walk."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.guards.support import WAYS, Compiler, Way, X, check


def walk(x: Any, it: Any) -> Any:
    total = x * 2
    for item in it:
        total = total + item if isinstance(item, int) else (total, item)
    return total


def stepped(it: Any, steps: int = 1) -> Any:
    for _ in range(steps):
        next(it, None)
    return it


def changed(it: Any, change: Callable[[], Any]) -> Any:
    change()
    return it


def dict_walk(change: Callable[[dict[str, int]], Any], view: str = "values") -> Any:
    numbers = {"a": 1, "b": 2, "c": 3}
    it = stepped(iter(getattr(numbers, view)()))
    return changed(it, lambda: change(numbers))


Make = Callable[[], Any]
CHANGES: dict[str, tuple[Make, Make]] = {
    "list, place": (lambda: iter([1, 2, 3]), lambda: stepped(iter([1, 2, 3]))),
    "list, item": (lambda: iter([1, 2, 3]), lambda: iter([1, 5, 3])),
    "list, length": (lambda: iter([1, 2, 3]), lambda: iter([1, 2, 3, 4])),
    "list, class": (lambda: iter([1, 2, 3]), lambda: iter((1, 2, 3))),
    "list, backwards": (lambda: iter([1, 2, 3]), lambda: reversed([3, 2, 1])),
    "list, place from behind": (
        lambda: stepped(reversed([1, 2, 3])),
        lambda: stepped(reversed([1, 2, 3]), 2),
    ),
    "list, at its end": (lambda: iter([1]), lambda: stepped(iter([1]), 2)),
    "tuple, place": (lambda: iter((1, 2, 3)), lambda: stepped(iter((1, 2, 3)))),
    "tuple, item": (lambda: iter((1, 2, 3)), lambda: iter((1, 2, 4))),
    "range, place": (lambda: iter(range(4)), lambda: stepped(iter(range(4)))),
    "range, step": (lambda: iter(range(4)), lambda: iter(range(0, 8, 2))),
    "dict, value": (lambda: dict_walk(lambda d: None), lambda: dict_walk(lambda d: d.update(b=7))),
    "dict, key added": (
        lambda: dict_walk(lambda d: None, "keys"),
        lambda: dict_walk(lambda d: d.update(z=7), "keys"),
    ),
    "dict, key replaced": (
        lambda: dict_walk(lambda d: None, "items"),
        lambda: dict_walk(lambda d: (d.pop("a"), d.update(z=7)), "items"),
    ),
    "dict, last key replaced": (
        lambda: dict_walk(lambda d: None),
        lambda: dict_walk(lambda d: (d.pop("c"), d.update(z=3))),
    ),
    "dict, other view": (
        lambda: dict_walk(lambda d: None),
        lambda: dict_walk(lambda d: None, "keys"),
    ),
    "enumerate, number": (lambda: enumerate([1, 2]), lambda: enumerate([1, 2], 3)),
    "enumerate, place": (lambda: enumerate([1, 2, 3]), lambda: stepped(enumerate([1, 2, 3]))),
    "enumerate, inner": (lambda: enumerate([1, 2]), lambda: enumerate((1, 2))),
    "zip, length": (
        lambda: zip([1, 2], [3, 4], strict=False),
        lambda: zip([1, 2], [3], strict=False),
    ),
    "zip, count": (lambda: zip([1, 2], [3, 4], strict=True), lambda: zip([1, 2], strict=True)),
    "zip, strict": (
        lambda: zip([1, 2], [3, 4], strict=True),
        lambda: zip([1, 2], [3, 4], strict=False),
    ),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", CHANGES)
def test_an_iterator_changes(name: str, way: Way) -> None:
    before, after = CHANGES[name]

    def case(C: Compiler) -> Iterator[Any]:
        f = C(walk)
        for make in (before, after, before, after):
            it = make()
            try:
                yield f(X, it)
            except RuntimeError as error:
                yield str(error)
            yield list(it) if "key" not in name else None

    check(case, way, None)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_same_walk_is_no_change(way: Way) -> None:
    def case(C: Compiler) -> Iterator[Any]:
        f = C(walk)
        yield f(X, stepped(enumerate([7, 8, 9])))
        yield f(X, stepped(enumerate([7, 8, 9])))

    check(case, way, (1, 1))
