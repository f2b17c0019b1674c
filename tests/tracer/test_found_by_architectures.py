"""What architectures of transformers broke on, as small programs: one graph, and eager code's."""

from __future__ import annotations

import collections
import copy
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from jitpkg.testing import Comparison, call

LAYERS = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
SEQUENCE = nn.Sequential(*LAYERS)


class Settings:
    def __init__(self) -> None:
        self.numbers = (220, 50256, 1.5)
        self.names = ["a", "b"]


SETTINGS = Settings()


def backwards(x: Any) -> Any:
    for layer in reversed(LAYERS):
        x = layer(x)
    for layer in reversed(SEQUENCE):
        x = layer(x)
    return x, next(reversed(LAYERS)) is LAYERS[2]


def classes_as_dtypes(x: Any) -> Any:
    n = x.shape[0]
    return (
        torch.zeros(n, dtype=int),
        x.to(bool),
        torch.ones(n, 2, dtype=float),
        x.new_ones(n, dtype=int),
    )


def parts_of_a_union(x: Any) -> Any:
    first, second = typing.get_args(int | str)
    return x + len(typing.get_args(int | None)), first, second, bool in (int | bool).__args__


def of_an_inherited_hook(x: Any) -> Any:
    cls = collections.UserDict
    return isinstance(x, cls), isinstance({}, cls), issubclass(collections.UserList, cls), x + 1


def a_copied_configuration(x: Any) -> Any:
    made = copy.deepcopy(SETTINGS)
    made.names.append("c")
    return x * made.numbers[0], made.names, SETTINGS.names, made.numbers


PROGRAMS: list[Callable[..., Any]] = [
    *(backwards, classes_as_dtypes, parts_of_a_union, of_an_inherited_hook, a_copied_configuration),
]
WAYS: dict[str, dict[str, Any]] = {
    "eager": {"fullgraph": True},
    "dynamic": {"fullgraph": True, "dynamic": True},
    "breaks": {"settings": {"disturb": "break"}},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_code(program: Callable[..., Any], way: str) -> None:
    Comparison(**WAYS[way]).assert_same_calls(program, *(call(torch.ones(n, 2)) for n in (3, 4, 5)))
