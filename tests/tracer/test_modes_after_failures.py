"""What grad mode and autocast are when an op has failed after a tensor was changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg

NO_GRAD = torch.no_grad()


def switched(k: torch.Tensor, at: torch.Tensor) -> Any:
    torch.set_grad_enabled(False)
    k.add_(1)
    return k[at]


def switched_twice(k: torch.Tensor, at: torch.Tensor) -> Any:
    torch.set_grad_enabled(False)
    k.add_(1)
    torch.set_grad_enabled(True)
    y = k[at]
    torch.set_grad_enabled(False)
    return y


def switched_within_a_context(k: torch.Tensor, at: torch.Tensor) -> Any:
    with torch.enable_grad():
        torch.set_grad_enabled(False)
        k.add_(1)
        return k[at]


def switched_before_a_context(k: torch.Tensor, at: torch.Tensor) -> Any:
    torch.set_grad_enabled(False)
    with torch.enable_grad():
        k.add_(1)
        return k[at]


def autocast_is_set(k: torch.Tensor, at: torch.Tensor) -> Any:
    torch.set_autocast_enabled("cpu", True)
    k.add_(1)
    return k[at]


def in_a_callee(k: torch.Tensor, at: torch.Tensor) -> Any:
    try:
        y = switched(k, at)
    finally:
        k.sin()
    return y


def behind_a_break(k: torch.Tensor, at: torch.Tensor) -> Any:
    with torch.enable_grad():
        jitpkg.graph_break()
        torch.set_grad_enabled(False)
        k.add_(1)
        return k[at]


def a_block_that_a_break_has_split_is_left(k: torch.Tensor, at: torch.Tensor) -> Any:
    with torch.no_grad():
        k.add_(1)
        jitpkg.graph_break()
    k.add_(1)
    return k[at]


def so_is_one_with_a_handler(k: torch.Tensor, at: torch.Tensor) -> Any:
    try:
        k.add_(1)
        with torch.no_grad():
            k[...] = 0
    except ValueError:
        return k
    return k.index_fill_(0, at, 0)


def one_of_two_blocks_is_left(k: torch.Tensor, at: torch.Tensor) -> Any:
    with torch.no_grad():
        with torch.enable_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            k.add_(1)
            jitpkg.graph_break()
        k.add_(1)
        return k[at]


def entered_by_hand(k: torch.Tensor, at: torch.Tensor) -> Any:
    context = torch.no_grad()
    context.__enter__()
    k.add_(1)
    return k[at]


def autocast_is_entered_by_hand(k: torch.Tensor, at: torch.Tensor) -> Any:
    context = torch.autocast("cpu", dtype=torch.bfloat16)
    context.__enter__()
    torch.autocast_decrement_nesting()
    k.add_(1)
    return k[at]


def entered_and_left_by_hand(k: torch.Tensor, at: torch.Tensor) -> Any:
    context = torch.no_grad()
    context.__enter__()
    k.add_(1)
    context.__exit__(None, None, None)
    return k[at]


def entered_by_a_stack_that_stays_open(k: torch.Tensor, at: torch.Tensor) -> Any:
    contextlib.ExitStack().enter_context(torch.no_grad())
    k.add_(1)
    return k[at]


def entered_by_a_stack(k: torch.Tensor, at: torch.Tensor) -> Any:
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        k.add_(1)
        return k[at]


def a_context_that_exists_is_entered(k: torch.Tensor, at: torch.Tensor) -> Any:
    with NO_GRAD:
        k.add_(1)
    k.add_(1)
    return k[at]


def entered_by_a_generator(k: torch.Tensor, at: torch.Tensor) -> Any:
    @contextlib.contextmanager
    def without() -> Any:
        with torch.no_grad():
            yield

    with without():
        k.add_(1)
        return k[at]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize(
    "f",
    [
        switched,
        switched_twice,
        switched_within_a_context,
        switched_before_a_context,
        autocast_is_set,
        in_a_callee,
        behind_a_break,
        a_block_that_a_break_has_split_is_left,
        so_is_one_with_a_handler,
        one_of_two_blocks_is_left,
        entered_by_hand,
        autocast_is_entered_by_hand,
        entered_and_left_by_hand,
        entered_by_a_stack_that_stays_open,
        entered_by_a_stack,
        a_context_that_exists_is_entered,
        entered_by_a_generator,
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_modes_are_what_they_were_where_the_op_failed(
    f: Callable[..., Any], backend: str, before: bool
) -> None:
    def left(f: Callable[..., Any], at: int) -> tuple[str, bool, bool]:
        with torch.set_grad_enabled(before), torch.autocast("cpu", enabled=False):
            try:
                f(torch.zeros(3), torch.tensor([at]))
            except Exception as error:
                said = str(error)
            else:
                said = ""
            return said, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")

    compiled = jitpkg.compile(f, backend=backend)
    with jitpkg.config.patch(never_worse=True):  # calls are timed, too
        for at in (1, 7, 7):
            assert left(compiled, at) == left(f, at)
