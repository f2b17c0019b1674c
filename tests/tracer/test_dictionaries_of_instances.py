"""`vars(o)`: what lies in slots, or goes to other data descriptors, is not in an instance's
dictionary."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg


class Slotted:
    __slots__ = ("__dict__", "slot")


class Base:
    __slots__ = ("low",)


class Derived(Base):
    pass


class Guarded:
    def __init__(self) -> None:
        self._kept = 1

    @property
    def kept(self) -> int:
        return self._kept

    @kept.setter
    def kept(self, value: int) -> None:
        self._kept = value


def slotted() -> Any:
    made = Slotted()
    made.slot, made.free = 1, 2
    return made


def derived() -> Any:
    made = Derived()
    made.high, made.low = 3, 4
    return made


def guarded() -> Any:
    made = Guarded()
    made.kept = 5
    return made


def raised() -> Any:
    made = ValueError(1, 2)
    made.note, made.args = 3, (4,)
    return made


def function() -> Any:
    def inner() -> int:
        return 1

    inner.__name__, inner.tag = "other", 2
    return inner


def wrapped() -> Any:
    @functools.wraps(slotted)
    def inner() -> int:
        return 1

    @functools.wraps(inner)
    def outer() -> int:
        return 2

    return outer


MADE = (slotted, derived, guarded, raised, function, wrapped)
NAMES = ("slot", "free", "low", "high", "kept", "_kept", "args", "note", "__name__", "tag")


def names(o: Any) -> object:
    return list(vars(o)), len(o.__dict__)


def items(o: Any) -> object:
    return [name for name, _ in o.__dict__.items()], list(vars(o).keys())


def has(o: Any) -> object:
    return [name in vars(o) for name in NAMES]


def got(o: Any) -> object:
    return [o.__dict__.get(name, NAMES) is not NAMES for name in NAMES]


def taken(o: Any) -> object:
    return [type(vars(o).get(name)).__name__ for name in NAMES]


def copied(o: Any) -> object:
    return sorted({**vars(o)}), sorted(dict(vars(o)))


def asked(o: Any) -> object:
    return [hasattr(o, name) for name in NAMES]


def subscripted(o: Any) -> object:
    found = []
    for name in NAMES:
        try:
            found.append(type(o.__dict__[name]).__name__)
        except KeyError as error:
            found.append(str(error))
    return found


def shown(result: Any) -> object:
    made, *rest = result
    return made.tolist(), rest


ASKED = (names, items, has, got, taken, copied, asked, subscripted)


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("make", MADE)
def test_of_what_the_function_makes(make: Callable[[], Any], ask: Callable[[Any], object]) -> None:
    def program(x: torch.Tensor) -> object:
        return x + 1, ask(make())

    x = torch.ones(2)
    real = shown(program(x))
    compiled = jitpkg.jit(program, backend="eager")
    for _ in range(2):
        assert shown(compiled(x)) == real


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("make", [slotted, derived, guarded])
def test_of_what_exists(make: Callable[[], Any], ask: Callable[[Any], object]) -> None:
    """Written to in the function, with entries of the slots' names in the dictionary besides."""

    def program(x: torch.Tensor, o: Any) -> object:
        before = ask(o)
        o.slot = o.low = o.kept = o.tag = 7
        return x + 1, before, ask(o)

    def given(entries: dict[str, int]) -> Any:
        made = make()
        made.__dict__.update(entries)
        return made

    x = torch.ones(2)
    states: list[dict[str, int]] = [{}, {"slot": 1, "low": 2, "kept": 3}]
    expected = [(given(entries), entries) for entries in states]
    real = [shown(program(x, o)) for o, _ in expected]
    compiled = jitpkg.jit(program, backend="eager")
    for (o, entries), result in zip(expected, real, strict=True):
        for _ in range(2):
            other = given(entries)
            assert shown(compiled(x, other)) == result
            assert vars(other) == vars(o)


def test_wraps_of_a_wrapper_is_one_graph() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = x + wrapped()()
        return made

    real = program(torch.ones(2))
    compiled = jitpkg.jit(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), real)
