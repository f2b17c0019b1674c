"""Operators and conversions whose operands decide which method Python takes."""

from __future__ import annotations

import collections
from typing import Any

import torch

import jitpkg


class Fives(dict[str, Any]):
    def __getitem__(self, key: str) -> int:
        return 5


class OtherKeys(dict[str, Any]):
    def keys(self) -> Any:
        return ["other"]


class OrderedFives(collections.OrderedDict[str, Any]):
    def __getitem__(self, key: str) -> int:
        return 5


def test_augmented_assignment_to_a_number() -> None:
    def function(x: torch.Tensor) -> tuple[Any, ...]:
        total: Any = 0
        total += x
        factor: Any = 2.0
        factor *= x
        items: list[Any] = [1]
        items += x
        return total, factor, items, total + factor

    x = torch.arange(2.0)
    compiled = jitpkg.compile(function)
    for _ in range(2):
        assert str(compiled(x)) == str(function(x))
    assert torch.equal(x, torch.arange(2.0))


def test_which_mappings_are_copied_without_asking_their_methods() -> None:
    def function(x: torch.Tensor) -> list[Any]:
        found: list[Any] = [x + 1]
        for made in (Fives(a=x), OtherKeys(a=x), OrderedFives(a=x)):
            found += [{**made}, dict(made), list(made.items()), list(made.values()), list(made)]
        return found

    x = torch.arange(2.0)
    compiled = jitpkg.compile(function)
    for _ in range(2):
        assert str(compiled(x)) == str(function(x))
