"""A program whose branches on data always go the same way is compiled a few times, and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg import events

X = torch.linspace(-1, 1, 6)
Function = Callable[[Tensor], Tensor]


def once(x: Tensor) -> Tensor:
    if x.sum() > 100:
        return x
    return x + 1


def in_a_loop(x: Tensor) -> Tensor:
    for k in range(4):
        if x[k].item() > 100:
            x = x - 1
        x = x + 1
    return x


def in_a_loop_the_other_way(x: Tensor) -> Tensor:
    for k in range(4):
        if x[k] < 100:
            x = x - 1
        x = x + 1
    return x


def in_a_while_loop(x: Tensor) -> Tensor:
    k = 0
    while k < 5:
        if bool((x > 100).any()):
            x = x.clamp(max=100)
        x = x * 1.01
        k += 1
    return x


def of_a_list(x: Tensor) -> Tensor:
    for part in x.unbind():
        if part > 100:
            x = x - part
        x = x + 1
    return x


def in_nested_loops(x: Tensor) -> Tensor:
    for k in range(3):
        for factor in (0.5, 2.0):
            if x[k] * factor > 100:
                x = x / factor
            x = x + factor
    return x


def two_of_them(x: Tensor) -> Tensor:
    for k in range(3):
        if x[k] > 100:
            x = x - 1
        if x.min() < -100:
            x = x + 2
        x = x + 0.5
    return x


def in_a_function(x: Tensor) -> Tensor:
    for _ in range(3):
        x = once(x)
    return x


def until_data_say_so(x: Tensor) -> Tensor:
    while x.sum() < 20:
        x = x + 1
    return x


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "function",
    [
        once,
        in_a_loop,
        in_a_loop_the_other_way,
        in_a_while_loop,
        of_a_list,
        in_nested_loops,
        two_of_them,
        in_a_function,
        until_data_say_so,
    ],
)
def test_nothing_is_compiled_for_ever(function: Function, dynamic: bool | None) -> None:
    made: list[str] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.EntryAdded):
            made.append(event.entry)

    wanted = function(X)
    compiled = jitpkg.compile(function, backend="eager", dynamic=dynamic)
    counts = []
    with events.STREAM.listening(note):
        for _ in range(4):
            for _ in range(60):
                torch.testing.assert_close(compiled(X), wanted)
            counts.append(len(made))
    assert counts[1] == counts[-1], counts
