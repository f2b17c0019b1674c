"""Dicts and sets whose keys are tensors: found by identity, by the paths to them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import jitpkg
from jitpkg import events
from jitpkg.testing import Comparison

A, B, C = (torch.full((2,), float(k)) for k in range(3))


def looked_up(kept: Any, a: Tensor, b: Tensor) -> Any:
    return kept[a] * 2, b in kept, kept.get(b, 0)


def stored(kept: Any, a: Tensor, b: Tensor) -> Any:
    kept[b] = a + 1
    kept[a] = kept[a] + kept[b]
    return kept[a], len(kept)


def defaulted(kept: Any, a: Tensor, b: Tensor) -> Any:
    made = defaultdict(list)
    made[a].append(1)
    made[b].append(2)
    made[a].append(3)
    return made[a], made[b], a in made, len(made)


def deleted(kept: Any, a: Tensor, b: Tensor) -> Any:
    taken = kept.pop(a)
    missing = kept.pop(b, None)
    return taken, missing, a in kept


def missing(kept: Any, a: Tensor, b: Tensor) -> Any:
    try:
        return kept[b]
    except KeyError as error:
        return error.args[0] is b


def swapped(kept: Any, a: Tensor, b: Tensor) -> Any:
    kept[a], kept[b] = a.sin(), kept[a]
    return kept[a], kept[b]


def made_here(kept: Any, a: Tensor, b: Tensor) -> Any:
    c = a + b
    kept[c] = b
    return kept[c], c in kept, (a + b) in kept


def in_tuples(kept: Any, a: Tensor, b: Tensor) -> Any:
    made = {(a, 1): 1, (b, 1): 2}
    return made[a, 1], made[b, 1], (a, 2) in made


def walked(kept: Any, a: Tensor, b: Tensor) -> Any:
    return [key * 2 for key in kept], [value + 1 for value in kept.values()]


PROGRAMS = [looked_up, stored, defaulted, deleted, missing, swapped, made_here, in_tuples, walked]


@pytest.mark.parametrize("cls", [dict, OrderedDict, lambda pairs: defaultdict(None, pairs)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_dicts(program: Callable[..., Any], cls: Any) -> None:
    comparison = Comparison()
    comparison.assert_same(program, cls([(A, B)]), A, C)
    comparison.assert_same(program, cls([(C, A), (A, A)]), A, B)


class Counting(dict[Any, Any]):
    def __missing__(self, key: Any) -> Any:
        self[key] = 7
        return 7


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_dict_of_a_class_of_its_own(program: Callable[..., Any]) -> None:
    Comparison().assert_same(program, Counting([(A, B)]), A, C)


def members(kept: Any, a: Tensor, b: Tensor) -> Any:
    found = a in kept, b in kept
    kept.add(b)
    kept.discard(a)
    return found, len(kept), a in kept, b in kept


@pytest.mark.parametrize("elements", [(A,), (A, B), (), (A, B, C)], ids=len)
def test_sets(elements: tuple[Tensor, ...]) -> None:
    compiled = jitpkg.compile(members, backend="eager")
    for _ in range(2):
        mine, theirs = set(elements), set(elements)
        assert compiled(mine, A, B) == members(theirs, A, B)
        assert {id(e) for e in mine} == {id(e) for e in theirs}


def test_an_entry_is_for_other_tensors_too() -> None:
    """Unless a key is missing, or is another one's."""

    def program(kept: dict[Tensor, Tensor], a: Tensor, b: Tensor) -> Tensor:
        return kept[a] + kept.get(b, 0)

    compiled = jitpkg.compile(program, backend="eager")
    heard: list[events.Event] = []
    with events.STREAM.listening(heard.append):
        for k in range(4):
            a, b, c, d = (torch.full((2,), float(k + n)) for n in range(4))
            assert compiled({a: c, b: d}, a, b).equal(c + d)
            assert compiled({b: c, a: d}, a, b).equal(c + d)
            assert compiled({a: c, d: d}, a, b).equal(c)
            with pytest.raises(KeyError):
                compiled({b: c}, a, b)
            assert compiled({a: c}, a, a).equal(c * 2)
    assert sum(isinstance(e, events.EntryAdded) for e in heard) <= 5


def test_state_by_parameters() -> None:
    def program(model: nn.Module, state: dict[Tensor, dict[str, Tensor]], x: Tensor) -> Tensor:
        for parameter in model.parameters():
            if parameter not in state:
                state[parameter] = {"seen": torch.zeros_like(parameter)}
            state[parameter]["seen"].add_(1)
        total = sum(kept["seen"].sum() for kept in state.values())
        return model(x) + total

    Comparison(calls=3).assert_same(program, nn.Linear(2, 2), {}, torch.ones(2))


class Key:
    pass


def nested(kept: dict[Any, int], key: Any, x: Tensor) -> Any:
    return x + 1, ((key,), 1) in kept, kept.get(((key,), 1)), kept.get((key, 1))


def test_objects_in_tuples_in_tuples() -> None:
    """No path names such a key."""
    key, other = Key(), Key()
    compiled = jitpkg.compile(nested, backend="eager")
    for kept in (
        {((key,), 1): 5},
        {((other,), 1): 6, (key, 1): 7},
        {(None, 1): 8},
        {((None,), 1): 9},
    ):
        assert compiled(kept, key, A)[1:] == nested(kept, key, A)[1:]
