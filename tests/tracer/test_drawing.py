"""Ops that fail behind random draws, where the program handles it: streams are as eagerly."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import jitpkg
from tests.api.support import Counts

X = torch.ones(4)
GOOD, BAD = torch.tensor([0, 1]), torch.tensor([0, 9])
LOST = torch.full((2, 2), -1.0)


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    torch.manual_seed(1)
    try:
        result = f(*args).tolist()
    except Exception as error:
        result = (type(error), str(error))
    return result, torch.rand(3).tolist()


def check(f: Callable[..., Any], *calls: tuple[Any, ...], graphs: int, backend: Any = None) -> None:
    counts = Counts()
    compiled = jitpkg.compile(f, backend=backend or counts)
    for args in calls:
        assert outcome(compiled, *args) == outcome(f, *args)
    assert backend or len(counts.graphs) == graphs


def handled(x, index):
    try:
        x = F.dropout(x)
        x = x[index]
        return x + torch.rand(2)
    except IndexError:
        return x * torch.rand(4)


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_handler_draws_on(backend: Any) -> None:
    check(handled, (X, GOOD), (X, BAD), (X, GOOD), graphs=1, backend=backend)


def test_several_draws_before_the_failure() -> None:
    def f(x, index):
        try:
            for _ in range(3):
                x = x + torch.randn(4)
            y = x[index]
        finally:
            x = x + torch.rand(4)
        return y + x[:2]

    check(f, (X, GOOD), (X, BAD), (X, GOOD), graphs=1)


@contextmanager
def noting(notes: list[str]) -> Any:
    try:
        yield
    except RuntimeError as error:
        notes.append(str(error)[:6])


def test_contexts() -> None:
    def f(x, m):
        notes: list[str] = []
        with noting(notes):
            x = F.dropout(x, 0.3)
            x = x.sum() * torch.linalg.cholesky(m)
        return x + len(notes)

    eye = torch.eye(2)
    check(f, (X, eye), (X, LOST), (X, eye), graphs=1)


def test_draws_before_the_region_stay() -> None:
    def f(x, index):
        x = F.dropout(x)
        print(end="")
        try:
            x = F.dropout(x)
            return x[index]
        except IndexError:
            return x + torch.rand(4)

    check(f, (X, GOOD), (X, BAD), graphs=2)


def test_a_write_as_well_is_a_break() -> None:
    def f(x, total, index):
        total.add_(1)
        try:
            x = F.dropout(x)
            return x[index] + total
        except IndexError:
            return x * total

    for index in (GOOD, BAD):
        mine, theirs = torch.zeros(1), torch.zeros(1)
        compiled = jitpkg.compile(f)
        assert outcome(compiled, X, mine, index) == outcome(f, X, theirs, index)
        assert torch.equal(mine, theirs)


def test_without_a_handler_streams_go_on() -> None:
    def f(x, index):
        x = F.dropout(x)
        x = x[index]
        return x + torch.rand(2)

    check(f, (X, GOOD), (X, BAD), (X, GOOD), graphs=1)


def test_a_compiled_function_that_is_handled_by_its_caller() -> None:
    @jitpkg.jit
    def inner(x, index):
        return F.dropout(x)[index]

    def f(x, index):
        try:
            return inner(x, index)
        except IndexError:
            return x + torch.rand(4)

    check(f, (X, GOOD), (X, BAD), graphs=1)
