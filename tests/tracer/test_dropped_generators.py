"""Generators that a program drops in the middle."""

from __future__ import annotations

import collections.abc
import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import jitpkg

LOG: list[str] = []


class Rows(collections.abc.Sequence[torch.Tensor]):
    """Its inherited `__iter__` waits in a `try` that catches IndexError."""

    def __init__(self, rows: list[torch.Tensor]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, k: Any) -> Any:
        return self.rows[k]


def passes_by(x: torch.Tensor) -> Any:
    for row in Rows([x, x + 1, x + 2]):
        if row is not x:
            return row * 2
    return None


def catches(x: torch.Tensor, error: type[BaseException]) -> Any:
    def numbers() -> Iterator[int]:
        try:
            yield 0
            yield 1
            yield 2
        except error:
            LOG.append("caught")
            raise

    for k in numbers():
        if k == 1:
            break
    LOG.append("behind")
    return x + 1


def finishes(x: torch.Tensor) -> Any:
    def numbers() -> Iterator[int]:
        try:
            try:
                yield 1
            except KeyError:
                LOG.append("never")
            yield 2
        finally:
            LOG.append("finally")

    first = next(numbers())
    LOG.append("behind")
    return x + first


def everything(x: torch.Tensor) -> Any:
    def numbers() -> Iterator[int]:
        try:
            yield 1
        except:
            LOG.append("caught")
            raise

    first = next(numbers())
    LOG.append("behind")
    return x + first


@pytest.mark.parametrize(
    ("function", "graphs"),
    [
        (passes_by, 1),
        (lambda x: catches(x, ValueError), None),
        (lambda x: catches(x, GeneratorExit), None),
        (lambda x: catches(x, BaseException), None),
        (finishes, None),
        (everything, None),
    ],
)
def test_as_eager(function: Callable[..., Any], graphs: int | None) -> None:
    x = torch.ones(2)
    LOG.clear()
    expected = function(x), list(LOG)
    if graphs is not None:
        explained = jitpkg.explain(function)(x)
        assert (explained.graph_count, explained.graph_break_count) == (graphs, 0)
    compiled = jitpkg.compile(function)
    for _ in range(3):
        LOG.clear()
        assert torch.equal(compiled(x), expected[0])
        assert expected[1] == LOG


def fails_inside(x: torch.Tensor, n: int) -> Any:
    def rows() -> Iterator[torch.Tensor]:
        try:
            yield x
        finally:
            LOG.append("closed")

    for row in rows():
        y = row + 1
        row[0] *= 0  # of a leaf that requires grad, which only the graph notices
        y = y * n
    return y


@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
def test_they_are_closed_when_a_graph_has_failed(backend: str) -> None:
    """Nothing holds the exception, so nothing holds the frames that it came through."""
    compiled = jitpkg.compile(fails_inside, backend=backend)
    called = False
    gc.disable()
    try:
        for function in (compiled, fails_inside, compiled, compiled):
            LOG.clear()
            with contextlib.suppress(RuntimeError):
                function(torch.ones(3, requires_grad=True), 2)
            if function is compiled and not called:
                gc.collect()  # the first call's trace may have left an exception of its own
            called = True
            assert LOG == ["closed"]
    finally:
        gc.enable()
