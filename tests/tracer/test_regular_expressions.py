"""Regular expressions over texts that are known: folded, as other functions of constants are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.testing import Comparison

LAYER = re.compile(r"layer(?P<number>\d+)\.(\w+)")
NAMES = ("layer1.weight", "layer12.bias", "head.weight", "")


def of_a_pattern(x: torch.Tensor, name: str) -> Any:
    found = LAYER.match(name)
    if not found:
        return x, None
    scale = int(found.group("number")) + int(found[1])
    return x * scale, found.groups(), found.span(), found.groupdict(), found.end(2)


def of_functions(x: torch.Tensor, name: str) -> Any:
    made = re.sub(r"\d", "#", name), re.split(r"\.", name), re.findall(r"[a-z]+", name)
    tests = bool(re.search("weight", name)), re.fullmatch(r"\w+", name) is None, re.escape(name)
    return x + len(made[1]), made, tests, re.subn("e", "E", name, count=1)


def compiled_inside(x: torch.Tensor, name: str) -> Any:
    pattern = re.compile("LAYER", re.IGNORECASE)
    return x + 1, pattern.pattern, pattern.flags, pattern.search(name) is not None


def with_a_function(x: torch.Tensor, name: str) -> Any:
    return x + 1, re.sub(r"\d+", lambda found: str(int(found[0]) * 2), name)


def walks(x: torch.Tensor, name: str) -> Any:
    return x + 1, [found[0] for found in LAYER.finditer(name)]


def is_wrong(x: torch.Tensor, name: str) -> Any:
    try:
        return x, re.search("(", name)
    except re.error as error:
        return x + 1, str(error)


def prints(x: torch.Tensor, name: str) -> Any:
    return x + 1, re.compile(f"a{name}", re.DEBUG).pattern


ONE_GRAPH: tuple[Callable[..., Any], ...] = (of_a_pattern, of_functions, compiled_inside)
PROGRAMS = (*ONE_GRAPH, with_a_function, walks, is_wrong, prints)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_code(program: Callable[..., Any], name: str) -> None:
    Comparison().assert_same(program, torch.ones(2), name)


@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_one_graph(program: Callable[..., Any]) -> None:
    compiled = jitpkg.compile(program, backend="eager", fullgraph=True)
    for name in NAMES:
        compiled(torch.ones(2), name)
