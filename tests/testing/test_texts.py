"""Texts that tell of a respect which is ignored: messages of torch, and printed tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.testing import Comparison, call

Function = Callable[[object], object]


def modified(of: str, version: int) -> str:
    return f"modified: [2]{of} is at version {version}; expected version 1."


def written(of: str) -> str:
    return f"Output {of} is a view and is being modified inplace. This view"


def without_history(why: str, mode: str = "no_grad") -> str:
    return (
        f"A view was created in {mode} mode and is being modified inplace with grad mode enabled. "
        + why
    )


def of_a_leaf(what: str) -> str:
    return f"{what} that requires grad is being used in an in-place operation."


SEVERAL = "This view is the output of a function that returns multiple views. Such functions do not"
SINGLE = "Given that this use case is ambiguous, it is forbidden (if you don't want it tracked)"

SAME = [
    (modified("", 2), modified("", 3), "version"),
    (modified(", which is output 0 of AddBackward0,", 2), modified("", 2), "grad_fn"),
    (modified(", which is output 0 of torch::autograd::Copy,", 2), modified("", 2), "grad_fn"),
    (written("1 of Split"), written("0 of Unbind"), "grad_fn"),
    ("tensor(2., grad_fn=<SumBackward0>)", "tensor(2., grad_fn=<KernelsBackward>)", "grad_fn"),
    (without_history(SEVERAL), without_history(SINGLE), "view"),
    (of_a_leaf("a view of a leaf Variable"), of_a_leaf("a leaf Variable"), "view"),
]
DIFFERENT = [
    (modified("", 2), modified("", 3), "grad_fn"),
    (written("1 of Split"), written("0 of Unbind"), "version"),
    (written("1 of Split"), modified("", 2), "grad_fn"),
    (modified(" of Add", 2), modified("", 2), "grad_fn version"),
    ("tensor(2., grad_fn=<SumBackward0>)", "tensor(2., grad_fn=<KernelsBackward>)", "version view"),
    ("tensor(2., grad_fn=<SumBackward0>)", "tensor(3., grad_fn=<KernelsBackward>)", "grad_fn"),
    ("tensor(2., grad_fn=<SumBackward0>)", "tensor(2., requires_grad=True)", "grad_fn"),
    (without_history(SEVERAL), without_history(SINGLE), "grad_fn version"),
    (without_history(SEVERAL), without_history(SINGLE, "inference"), "view"),
    (without_history(SEVERAL), without_history("It is old."), "view"),
    (of_a_leaf("a view of a leaf Variable"), of_a_leaf("a leaf Variable"), "grad_fn version"),
    (of_a_leaf("a view of a leaf Variable"), "a leaf Variable that is written", "view"),
]


def raising(text: str) -> Function:
    def function(x: object) -> None:
        raise RuntimeError(text)

    return function


def printing(text: str) -> Function:
    return lambda x: print("before", text)


def respects(one: Function, other: Function, ignore: str) -> set[str]:
    how = Comparison(compile=lambda f: other, ignore=ignore.split())
    return {found.what for found in how.differences(one, call(0))[1]}


@pytest.mark.parametrize(("eager", "compiled", "ignore"), SAME)
def test_what_a_text_tells_can_be_ignored(eager: str, compiled: str, ignore: str) -> None:
    assert respects(raising(eager), raising(compiled), ignore) <= {"traceback"}
    assert not respects(printing(eager), printing(compiled), ignore)


@pytest.mark.parametrize(("eager", "compiled", "ignore"), DIFFERENT)
def test_nothing_else_is_ignored(eager: str, compiled: str, ignore: str) -> None:
    assert "raised" in respects(raising(eager), raising(compiled), ignore)
    assert respects(printing(eager), printing(compiled), ignore) == {"output"}


def falling(n: Any) -> Any:
    return falling(n)


def falling_by_turns(n: Any) -> Any:
    return turn(n)


def turn(n: Any) -> Any:
    return falling_by_turns(n)


@pytest.mark.parametrize("function", [falling, falling_by_turns])
def test_how_deep_a_recursion_gets_is_not_compared(function: Function) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        Comparison(settings={"disturb": "break"}).assert_same(function, torch.ones(1))
        wrong = respects(function, lambda x: falling(x), "")
    finally:
        sys.setrecursionlimit(limit)
    assert wrong == {"traceback"}
