"""Keys that are equal and not the same: a container keeps the one that it had first."""

import collections
import enum
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import jitpkg


class Text(str, enum.Enum):  # noqa: UP042 (it is what is tested)
    A = "a"
    B = "b"


class Number(enum.IntEnum):
    ZERO = 0
    ONE = 1


class Other(enum.Enum):
    A = "a"


class Own(str, enum.Enum):  # noqa: UP042
    A = "a"

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return self is other


KEYS = (0, 1, 0.0, 1.0, False, True, "a", "b", 1j * 0, Text.A, Text.B, *Number, Other.A, Own.A)

Act = Callable[[dict[Any, Any], set[Any], Any], Any]


def put(d: dict[Any, Any], s: set[Any], key: Any) -> None:
    d[key] = len(d)
    s.add(key)


def take(d: dict[Any, Any], s: set[Any], key: Any) -> Any:
    s.discard(key)
    return d.pop(key, None)


def delete(d: dict[Any, Any], s: set[Any], key: Any) -> None:
    d.pop(key, None)
    if key in s:
        s.remove(key)


ACTS: tuple[Act, ...] = (
    put,
    take,
    delete,
    lambda d, s, key: d.get(key),
    lambda d, s, key: (key in d, key in s),
    lambda d, s, key: d.setdefault(key, -1),
    lambda d, s, key: d.update({key: 5}),
    lambda d, s, key: s.update((key,)),
    lambda d, s, key: (list(d), len(s)),
    lambda d, s, key: list(d.items()),
)


def shown(value: Any) -> Any:
    """With the classes of what is equal; a set in any order, which depends on how it came to be."""
    match value:
        case list() | tuple():
            return [shown(item) for item in value]
        case dict():
            return [shown(item) for item in value.items()]
        case set():
            return sorted(map(shown, value))
    return type(value).__name__, repr(value)


def check(keys: list[Any], steps: list[tuple[Act, Any]], kind: type = dict) -> None:
    def program(x: torch.Tensor, d: dict[Any, Any], s: set[Any], new: bool) -> Any:
        if new:
            d, s = kind(d), set(s)
        y = x + 1
        found = [act(d, s, key) for act, key in steps]
        return y, found, d, s

    compiled = jitpkg.compile(program)
    for new in (False, True):
        (_, *expected), (_, *got) = (
            f(torch.ones(1), kind((key, k) for k, key in enumerate(keys)), set(keys), new)
            for f in (program, compiled)
        )
        assert shown(got) == shown(expected)


steps = st.lists(st.tuples(st.sampled_from(ACTS), st.sampled_from(KEYS)), min_size=1, max_size=6)


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
@settings(deadline=None, max_examples=200, derandomize=True)
@given(keys=st.lists(st.sampled_from(KEYS), max_size=4), steps=steps)
def test_any_steps(kind: type, keys: list[Any], steps: list[tuple[Act, Any]]) -> None:
    check(keys, steps, kind)


def test_members_of_enumerations_are_in_the_graph() -> None:
    known = {Text.A: 1.0, Text.B: 2.0, Number.ONE: 3.0}

    def program(x: torch.Tensor) -> Any:
        made = {Text.A: 1, Number.ONE: 2}
        made["a"] = 4
        return x * known[Text.B] + known["a"] + known[1], list(made), list(known), Text.A in known

    x = torch.ones(1)
    (y, *rest), (z, *others) = jitpkg.compile(program, fullgraph=True)(x), program(x)
    assert torch.equal(y, z) and shown(rest) == shown(others)
