"""Ops that fail at run time after a tensor was changed, and what handlers make of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.testing import Comparison, call

Failure: type[BaseException] = NotImplementedError


def without_handler(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    return k[at]


def for_what_types_raise(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    v = torch.ones(1)
    k.add_(1)
    try:
        k.index_copy_(0, at, v)
        y = k * 2
    except NotImplementedError:
        y = k * 3
    return y


def around_a_comprehension(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        ys = [k[at] for _ in range(2)]
    except IndexError:
        return k * 2
    return ys[0]


def bare(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    except:  # noqa: E722
        return k * 2
    return y


def bare_and_raised_again(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    except:
        raise
    return y


def one_of_several(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    except (NotImplementedError, IndexError):
        return k * 2
    return y


def a_later_clause(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    except KeyError:
        return k
    except LookupError as error:
        return k * 2, type(error)
    return y


def further_out(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        try:
            y = k[at]
        except KeyError:
            return k
    except IndexError:
        return k * 2
    return y


def by_a_global(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    except Failure:
        return k * 2
    return y


def at_last(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    finally:
        seen.append(1)
    return y


def in_a_context(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        with torch.no_grad():
            y = k[at]
    except IndexError:
        return k * 2
    return y


PROGRAMS = [
    without_handler,
    for_what_types_raise,
    around_a_comprehension,
    bare,
    bare_and_raised_again,
    one_of_several,
    a_later_clause,
    further_out,
    by_a_global,
    at_last,
    in_a_context,
]


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("f", PROGRAMS)
def test_as_eager(f: Callable[..., Any], backend: str) -> None:
    calls = [call(torch.zeros(3), torch.tensor([at]), []) for at in (1, 0, 9, 2, 9)]
    Comparison(backend=backend, ignore=("traceback",)).assert_same_calls(f, *calls)


def test_what_a_clause_is_for_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = jitpkg.compile(by_a_global, backend="eager")
    assert compiled(torch.zeros(3), torch.tensor([1]), []) == 1
    monkeypatch.setitem(globals(), "Failure", IndexError)
    assert (compiled(torch.zeros(3), torch.tensor([9]), []) == 2).all()


def test_a_handler_for_what_types_raise_is_no_break() -> None:
    explained = jitpkg.explain(for_what_types_raise, backend="eager")
    assert explained(torch.zeros(3), torch.tensor([1]), []).graph_break_count == 0
