"""Containers that change while they are walked: Python raises, and so does compiled code."""

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.testing import Comparison, assert_same

MAPPINGS: dict[str, Callable[[], Any]] = {
    "dict": lambda: {"a": 1, "b": 2},
    "ordered": lambda: collections.OrderedDict(a=1, b=2),
    "default": lambda: collections.defaultdict(int, a=1, b=2),
}

CHANGES: dict[str, Callable[[Any], Any]] = {
    "set": lambda d: d.__setitem__("z", 1),
    "set again": lambda d: d.__setitem__("a", 1),
    "delete": lambda d: d.pop("a", None),
    "delete and set": lambda d: (d.pop("a", None), d.__setitem__("z", 1)),
    "clear": lambda d: d.clear(),
    "update": lambda d: d.update(q=1),
    "last": lambda d: d.popitem(),
    "move": lambda d: getattr(d, "move_to_end", lambda k: None)("a"),
}

WALKS: dict[str, Callable[[Any], Any]] = {
    "keys": iter,
    "values": lambda d: iter(d.values()),
    "backwards": reversed,
    "items backwards": lambda d: reversed(d.items()),
    "zipped": lambda d: zip(d, range(9), strict=False),
}


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("change", CHANGES)
def test_mappings(mapping: str, change: str) -> None:
    make, alter = MAPPINGS[mapping], CHANGES[change]
    for walk in WALKS.values():

        def before_the_first(x: Any, d: Any, walk: Any = walk) -> Any:
            it = walk(d)
            alter(d)
            return x + 1, list(it)

        def behind_the_first(x: Any, d: Any, walk: Any = walk) -> Any:
            it = walk(d)
            first = next(it)
            alter(d)
            x = x * 2
            return x, first, next(it, None), d

        def in_the_loop(x: Any, d: Any, walk: Any = walk) -> Any:
            for _ in walk(d):
                if len(d) > 5:
                    break
                alter(d)
                x = x + 1
            return x, d

        def made_here(x: Any, walk: Any = walk) -> Any:
            d = make()
            it = walk(d)
            next(it)
            alter(d)
            try:
                return x + 1, list(it), d
            except RuntimeError as error:
                return x, str(error), d

        for function in (before_the_first, behind_the_first, in_the_loop):
            assert_same(function, torch.ones(1), make())
        assert_same(made_here, torch.ones(1))
        broken = Comparison(settings={"disturb": "break"})
        broken.assert_same(behind_the_first, torch.ones(1), make())


def comprehended(x: Any, d: Any) -> Any:
    return x + 1, [d.pop(k) for k in d]


def generated(x: Any, d: Any) -> Any:
    return x + 1, sum(d.pop(k) for k in d)


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("function", [comprehended, generated])
def test_comprehensions(mapping: str, function: Any) -> None:
    assert_same(function, torch.ones(1), MAPPINGS[mapping]())


SETS: dict[str, Callable[[], Any]] = {
    "set": lambda: {1, 2, 3},
    "deque": lambda: collections.deque([1, 2]),
}


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize(
    "method", ["add", "append", "discard", "pop", "clear", "rotate", "update", "extend"]
)
def test_sets_and_deques(kind: str, method: str) -> None:
    arguments: dict[str, list[Any]] = {
        "update": [[7, 8]],
        "extend": [[7]],
        "pop": [],
        "clear": [],
        "rotate": [],
    }

    def walked(x: Any, s: Any) -> Any:
        it = iter(s)
        first = next(it)
        getattr(s, method)(*arguments.get(method, [first]))
        x = x + 1
        return x, first, next(it, None), s

    def looped(x: Any, s: Any) -> Any:
        for k in s:
            if len(s) > 5:
                break
            getattr(s, method)(*arguments.get(method, [k + 10]))
            x = x + 1
        return x, s

    for function in (walked, looped):
        assert_same(function, torch.ones(1), SETS[kind]())


def test_attributes() -> None:
    class Plain:
        def __init__(self) -> None:
            self.a, self.b = 1, 2

    def walked(x: Any, o: Any) -> Any:
        for k in vars(o):
            setattr(o, k + "x", 1)
            x = x + 1
        return x

    assert_same(walked, torch.ones(1), Plain())
