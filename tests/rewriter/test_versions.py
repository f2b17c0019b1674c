"""How much code is emitted: for each exit that a call finds, and for the function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from unittest import mock

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg import config
from jitpkg.rewriter.emission import Emission

X = torch.ones(3)


@contextmanager
def emitted() -> Iterator[list[CodeType]]:
    """The code objects that are emitted meanwhile."""
    found: list[CodeType] = []
    code = Emission.code

    def noted(self: Emission) -> CodeType:
        found.append(code(self))
        return found[-1]

    with mock.patch.object(Emission, "code", noted):
        yield found


def straight(breaks: int) -> Callable[[Tensor], Tensor]:
    """A function with so many breaks, one after the other."""
    body = "    x = x + 1\n    print(end='')\n" * breaks
    namespace: dict[str, Callable[[Tensor], Tensor]] = {}
    exec(f"def straight(x):\n{body}    return x\n", namespace)
    return namespace["straight"]


@pytest.fixture(autouse=True)
def _as_they_are() -> Iterator[None]:
    with config.patch(disturb=""):
        yield


def test_one_for_each_break_and_one_version() -> None:
    function = straight(12)
    with emitted() as stubs:
        compiled = jitpkg.compile(function, backend="eager")
    with emitted() as first:
        assert torch.equal(compiled(X), function(X))
    with emitted() as second:
        assert torch.equal(compiled(X), function(X))
    with emitted() as third:
        assert torch.equal(compiled(X), function(X))
    assert (len(stubs), len(first), len(second), len(third)) == (1, 12, 2, 0)


def test_a_resume_function_has_no_more_than_can_be_reached() -> None:
    compiled = jitpkg.compile(straight(40), backend="eager")
    with emitted() as found:
        compiled(X)
    lengths = [len(code.co_code) for code in found]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < lengths[0] / 5


def test_in_a_loop_everything_can_be_reached() -> None:
    def looping(x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = x + 1
            print(end="")
            x = x * 2
            print(end="")
        return x

    compiled = jitpkg.compile(looping, backend="eager")
    with emitted() as first:
        assert torch.equal(compiled(X, 5), looping(X, 5))
    with emitted() as second:
        assert torch.equal(compiled(X, 5), looping(X, 5))
    assert len(first) <= 5
    assert len(second) <= 2
    with emitted() as third:
        assert torch.equal(compiled(X, 7), looping(X, 7))
    assert not third
