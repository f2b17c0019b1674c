"""Attributes that a program stores on a tensor hide methods of its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.testing import Comparison, call

TENSOR = torch.ones(1)


def stored_after_reading() -> Any:
    method = TENSOR.log
    more = TENSOR + 1
    TENSOR.log = 0
    return method, more


def stored_after_calling() -> Any:
    found = TENSOR.log()
    TENSOR.log = lambda: 3
    return found


def stored_by_name() -> Any:
    size = TENSOR.size
    setattr(TENSOR, "size", 5)  # noqa: B010
    return size, TENSOR + 1


def stored_inside() -> Any:
    def store() -> None:
        TENSOR.neg = None

    method = TENSOR.neg
    store()
    return method


def counted() -> Any:
    log = TENSOR.log
    TENSOR.log = log + 1 if type(log) is int else 0
    return TENSOR.log


def deleted() -> Any:
    if "log" in vars(TENSOR):
        del TENSOR.log
    else:
        TENSOR.log = 4
    return TENSOR.log


PROGRAMS = [
    stored_after_reading,
    stored_after_calling,
    stored_by_name,
    stored_inside,
    counted,
    deleted,
]


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_calls_that_follow_see_it(program: Callable[[], Any], backend: str) -> None:
    Comparison(backend=backend).assert_same_calls(program, *[call()] * 3)
    assert not vars(TENSOR)


def reads(x: Any) -> Any:
    return x.log, x.log == 0, x + 1


def calls(x: Any) -> Any:
    return x.cos() + 1


def test_what_was_stored_before() -> None:
    hidden = torch.ones(2)
    hidden.log = 0
    hidden.cos = lambda: 7
    for program in (reads, calls):
        Comparison().assert_same_calls(program, call(hidden), call(torch.ones(2)), call(hidden))
