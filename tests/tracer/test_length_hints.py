"""What makes a list or a tuple of an iterable asks how long that is: a method may be heard."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import jitpkg

LOG: list[str] = []


def length(self: Any) -> Any:
    LOG.append("length")
    return 2


def refuses(self: Any) -> Any:
    LOG.append("refuses")
    raise TypeError("no length")


def fails(self: Any) -> Any:
    LOG.append("fails")
    raise KeyError("length")


def unknown(self: Any) -> Any:
    LOG.append("unknown")
    return NotImplemented


def negative(self: Any) -> Any:
    LOG.append("negative")
    return -1


def a_text(self: Any) -> Any:
    LOG.append("a text")
    return "2"


def steps(self: Any) -> Iterator[int]:
    LOG.append("iterated")
    yield 3
    yield 1


class Counter:
    """An iterator."""

    def __init__(self) -> None:
        self.at = 3

    def __iter__(self) -> Counter:
        LOG.append("iterated")
        return self

    def __next__(self) -> int:
        if not self.at:
            raise StopIteration
        self.at -= 1
        return self.at


class Steps:
    __iter__ = steps


class OldStyle:
    def __getitem__(self, k: int) -> int:
        return (3, 1)[k]


BASES: dict[str, tuple[type, tuple[Any, ...]]] = {
    "list": (list, ([3, 1],)),
    "tuple": (tuple, ((3, 1),)),
    "set": (set, ([3, 1],)),
    "dict": (dict, ([(3, 0), (1, 0)],)),
    "OrderedDict": (OrderedDict, ([(3, 0), (1, 0)],)),
    "deque": (deque, ([3, 1],)),
    "object": (Steps, ()),
    "iterator": (Counter, ()),
    "old style": (OldStyle, ()),
}


def taken(*args: Any) -> Any:
    return args


def extended(k: Any) -> Any:
    made = [0]
    made.extend(k)
    return made


def added(k: Any) -> Any:
    made = [0]
    made += k
    return made


def assigned(k: Any) -> Any:
    made = [0, 1, 2]
    made[1:] = k
    return made


def unpacked(k: Any) -> Any:
    a, *b = k
    return a, b


def two(k: Any) -> Any:
    a, b = k
    return a, b


def in_a_deque(k: Any) -> Any:
    made = deque([0])
    made.extend(k)
    return made


USES: dict[str, Callable[[Any], Any]] = {
    "list": lambda k: list(k),
    "tuple": lambda k: tuple(k),
    "sorted": lambda k: sorted(k),
    "[*k]": lambda k: [*k],
    "(0, *k)": lambda k: (0, *k),
    "{*k}": lambda k: {*k},
    "f(*k)": lambda k: taken(*k),
    "f(0, *k)": lambda k: taken(0, *k),
    "extend": extended,
    "+=": added,
    "[1:] =": assigned,
    "a, *b": unpacked,
    "a, b": two,
    "set": lambda k: set(k),
    "frozenset": lambda k: frozenset(k),
    "deque": lambda k: deque(k),
    "deque.extend": in_a_deque,
    "fromkeys": lambda k: dict.fromkeys(k),
    "sum": lambda k: sum(k),
    "max": lambda k: max(k),
    "zip": lambda k: list(zip(k, k, strict=False)),
    "map": lambda k: list(map(str, k)),
    "enumerate": lambda k: list(enumerate(k)),
    "join": lambda k: ",".join(map(str, k)),
    "comprehension": lambda k: [x + 1 for x in k],
    "any": lambda k: any(k),
}


def outcome(f: Callable[..., Any], made: Any) -> Any:
    LOG.clear()
    try:
        result = f(torch.ones(1), made)[1]
    except Exception as error:
        return type(error), str(error), list(LOG)
    return type(result), str(result), list(LOG)


@pytest.mark.parametrize("answer", [length, refuses, fails, unknown, negative, a_text])
@pytest.mark.parametrize("special", ["__len__", "__length_hint__"])
@pytest.mark.parametrize("base", BASES)
def test_the_length_is_asked_for_once(base: str, special: str, answer: Any) -> None:
    cls, args = BASES[base]
    own = type("Own", (cls,), {special: answer})
    wrong = []
    for name, use in USES.items():

        def f(x: torch.Tensor, k: Any, use: Any = use) -> Any:
            return x + 1, use(k)

        expected = outcome(f, own(*args))
        found = outcome(jitpkg.compile(f, backend="eager"), own(*args))
        if found != expected:
            wrong.append((name, expected, found))
    assert not wrong, f"{len(wrong)}: {wrong[:3]}"


@pytest.mark.parametrize(
    "made", [lambda: iter([5, 6]), lambda: (k for k in (5, 6)), Counter, Steps]
)
def test_a_slice_is_assigned_what_an_iterator_gives_once(made: Callable[[], Any]) -> None:
    def f(x: torch.Tensor, items: list[int]) -> torch.Tensor:
        items[1:] = made()
        return x + 1

    for function in (f, jitpkg.compile(f, backend="eager")):
        LOG.clear()
        items = [0, 1, 2]
        function(torch.ones(1), items)
        assert items == [0, *made()]
        assert len(LOG) == {Counter: 3, Steps: 2}.get(made, 0)  # type: ignore[call-overload]
