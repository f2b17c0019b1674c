"""Handlers around ops after a write, for exceptions that these ops do not raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.testing import Comparison, call


def only_views(k: torch.Tensor, at: torch.Tensor, seen: list[Any]) -> Any:
    k.add_(1)
    try:
        parts = [k[1:].view(2, 1), k.unsqueeze(0).expand(2, 3)[:, 0], k.unbind()[2], k.chunk(3)[0]]
    except Exception:
        return k * 2
    return parts[0] + parts[1], parts[2:]


class OwnFailure(RuntimeError):
    pass


def for_a_class_of_the_program(k: torch.Tensor, at: torch.Tensor, seen: list[Any]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    except OwnFailure:
        y = k * 2
    return y


def for_a_class_of_the_program_that_says_more(
    k: torch.Tensor, at: torch.Tensor, seen: list[Any]
) -> Any:
    k.add_(1)
    try:
        y = k[at] * 2
    except OwnFailure as failure:
        raise OwnFailure(f"{failure} of {tuple(k.shape)}") from None
    return y


@torch.library.custom_op("jitpkg_test::raises_its_own", mutates_args=())
def raises_its_own(k: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    if at.item() > 2:
        raise OwnFailure("too far")
    return k[at]


@raises_its_own.register_fake
def _(k: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return k.new_empty(at.shape)


def of_an_op_of_the_program(k: torch.Tensor, at: torch.Tensor, seen: list[Any]) -> Any:
    k.add_(1)
    try:
        y = torch.ops.jitpkg_test.raises_its_own(k, at)
    except OwnFailure:
        y = k * 2
    return y


PROGRAMS = [only_views, for_a_class_of_the_program, for_a_class_of_the_program_that_says_more]


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("f", PROGRAMS)
def test_as_eager(f: Callable[..., Any], backend: str) -> None:
    calls = [call(torch.zeros(3), torch.tensor([at]), []) for at in (1, 0, 9, 2, 9)]
    Comparison(backend=backend, ignore=("traceback",)).assert_same_calls(f, *calls)


@pytest.mark.parametrize("f", PROGRAMS)
def test_no_break(f: Callable[..., Any]) -> None:
    explained = jitpkg.explain(f, backend="eager")
    assert explained(torch.zeros(3), torch.tensor([1]), []).graph_break_count == 0


def test_what_an_op_of_the_program_raises_is_handled() -> None:
    compiled = jitpkg.compile(of_an_op_of_the_program)
    for at in (1, 0, 9, 2, 9):
        expected = of_an_op_of_the_program(torch.zeros(3), torch.tensor([at]), [])
        assert torch.equal(compiled(torch.zeros(3), torch.tensor([at]), []), expected)
