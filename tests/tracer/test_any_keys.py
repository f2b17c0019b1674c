"""Existing dicts with keys of all kinds, in tuples in tuples: found is what Python finds."""

from __future__ import annotations

import enum
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import jitpkg


class Thing:
    pass


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


THINGS = [Thing(), Thing()]
TENSORS = [torch.ones(1), torch.ones(1)]
ATOMS: list[Any] = [
    *(None, 0, 1, True, 1.0, -0.0, "a", b"a", Thing, int, len, Colour.RED, Level.LOW),
    *(torch.float32, torch.device("cpu"), *THINGS, *TENSORS),
]
atoms = st.sampled_from(ATOMS)
keys = st.recursive(atoms, lambda inner: st.lists(inner, max_size=2).map(tuple), max_leaves=3)
X = torch.ones(1)


def asked(kept: dict[Any, int], key: Any, x: Tensor) -> Any:
    found = key in kept, kept.get(key, -1)
    try:
        return x + 1, found, kept[key]
    except KeyError:
        return x + 1, found, None


def made(kept: dict[Any, int], part: Any, x: Tensor) -> Any:
    key = part, (part, 1)
    kept[key] = kept.get(key, 0) + 1
    return x + 1, kept.pop((part,), None), kept[key]


def same(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(map(_is, a, b))


def _is(a: Any, b: Any) -> bool:
    return a is b or (type(a) is tuple and type(b) is tuple and same(a, b)) or _equal(a, b)


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and not isinstance(a, Tensor) and bool(a == b)


@pytest.mark.parametrize("program", [asked, made], ids=lambda program: program.__name__)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(keys, max_size=4), keys, st.data())
def test_keys(program: Any, held: list[Any], key: Any, data: st.DataObject) -> None:
    compiled = jitpkg.compile(program, backend="eager", recompile_limit=64)
    for _ in range(3):
        kept = {each: k for k, each in enumerate(held)}
        if program is made:
            kept[key, (key, 1)] = 5
        mine, theirs = dict(kept), dict(kept)
        _, *found = compiled(mine, key, X)
        _, *wanted = program(theirs, key, X)
        assert found == wanted
        assert same(tuple(mine), tuple(theirs))
        assert list(mine.values()) == list(theirs.values())
        key = data.draw(st.sampled_from([*held, key]))
        held = data.draw(st.permutations(held))
    jitpkg.reset()
