"""`torch.profiler.record_function`: nothing where no profiler runs, and as ever where one does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function

import jitpkg
from jitpkg import events
from jitpkg.testing import Comparison


def named(x: Tensor) -> Tensor:
    with record_function("outer"):
        y = x.sin()
        with record_function(f"inner {x.dim()}"):
            y = y * 2
    return y


@record_function("decorated")
def inside(x: Tensor) -> Tensor:
    return x + 1


def decorated(x: Tensor) -> Tensor:
    return inside(x) * 2


def broken(x: Tensor) -> Tensor:
    with record_function("around a break"):
        y = x + 1
        print("inside")
        return y * 2


def raising(x: Tensor) -> Tensor:
    try:
        with record_function("left by an exception"):
            y = x + 1
            raise ValueError(y)
    except ValueError as error:
        return error.args[0] * 2


def writing(x: Tensor) -> Tensor:
    with record_function("around writes"):
        x.add_(1)
        x.mul_(2)
    return x


def kept(x: Tensor) -> tuple[Tensor, Any]:
    with record_function("kept") as range_:
        y = x + 1
    return y, range_.name


PROGRAMS = [named, decorated, broken, raising, writing, kept]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_without_a_profiler(program: Any) -> None:
    Comparison().assert_same(program, torch.ones(2))


@pytest.mark.parametrize("program", [named, writing, kept], ids=lambda program: program.__name__)
def test_one_graph(program: Any) -> None:
    jitpkg.compile(program, backend="eager", fullgraph=True)(torch.ones(2))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_profiler_comes_and_goes(program: Any) -> None:
    def ranges(function: Any) -> set[str]:
        with profile(activities=[ProfilerActivity.CPU]) as found:
            function(torch.ones(2))
        return {e.key for e in found.key_averages()}

    words = ("outer", "inner", "decorated", "around", "left", "kept")
    eagerly = {name for name in ranges(program) if name.startswith(words)}
    assert eagerly
    compiled = jitpkg.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2)) is not None
        assert {name for name in ranges(compiled) if name.startswith(words)} == eagerly


def test_a_range_is_no_reason_to_compile_again() -> None:
    heard: list[events.Event] = []
    compiled = jitpkg.compile(named, backend="eager")
    with events.STREAM.listening(heard.append):
        for _ in range(3):
            compiled(torch.ones(2))
    assert sum(isinstance(e, events.EntryAdded) for e in heard) == 1
