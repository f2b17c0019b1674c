"""`.grad = None` and `zero_grad`: after the graph, and seen by what comes behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

import jitpkg
from jitpkg import events
from jitpkg.testing import Comparison


def forgets(x: Tensor, w: Tensor) -> Any:
    w.grad = None
    return x * w, w.grad is None


def uses_it_first(x: Tensor, w: Tensor) -> Any:
    g = w.grad
    w.grad = None
    return x + g, w.grad, g


def then_breaks(x: Tensor, w: Tensor) -> Any:
    y = x * w
    w.grad = None
    print(end="")
    return y, w.grad


def then_fails(x: Tensor, w: Tensor) -> Any:
    w.grad = None
    try:
        return x.view(7), w.grad
    except RuntimeError:
        return x, w.grad


def in_both_ways(x: Tensor, w: Tensor) -> Any:
    if x.sum() > 3:
        w.grad = None
    return x * 2, w.grad


def of_a_result(x: Tensor, w: Tensor) -> Any:
    y = w * 2
    y.grad = None
    return y


def something_else(x: Tensor, w: Tensor) -> Any:
    w.grad = x.detach().clone()
    return w.grad * 2


def of_another_kind(x: Tensor, w: Tensor) -> Any:
    try:
        w.grad = 3
    except TypeError as error:
        return str(error)


PROGRAMS = [
    *(forgets, uses_it_first, then_breaks, then_fails, in_both_ways, of_a_result),
    *(something_else, of_another_kind),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("has_one", [False, True])
def test_programs(program: Callable[..., Any], has_one: bool) -> None:
    if program is uses_it_first and not has_one:
        pytest.skip("it needs one")
    w = torch.ones(3, requires_grad=True)
    if has_one:
        w.grad = torch.full((3,), 2.0)
    Comparison(backward=False).assert_same(program, torch.ones(3), w)
    Comparison(backward=False).assert_same(program, torch.full((3,), 5.0), w)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}], ids=str)
def test_zero_grad(set_to_none: bool, options: dict[str, Any]) -> None:
    def run(compile_: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
        optimizer = Adam(model.parameters(), **options)
        forget = compile_(lambda: optimizer.zero_grad(set_to_none=set_to_none))
        found: list[Any] = []
        for k in range(4):
            model(torch.randn(2, 3)).sum().backward()
            if k == 2:
                model[0].bias.grad = None
            forget()
            found += [p.grad if p.grad is None else p.grad.clone() for p in model.parameters()]
        return found

    for mine, theirs in zip(run(jitpkg.compile), run(lambda f: f), strict=True):
        assert mine is theirs or torch.equal(mine, theirs)


def test_a_whole_step_does_not_break() -> None:
    torch.manual_seed(0)
    model, other = nn.Linear(3, 1), nn.Linear(3, 1)
    other.load_state_dict(model.state_dict())

    def trained(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    heard: list[events.Event] = []
    compiled = jitpkg.compile(trained, backend="eager")
    mine, theirs = SGD(model.parameters(), lr=0.1), SGD(other.parameters(), lr=0.1)
    with events.STREAM.listening(heard.append):
        for _ in range(4):
            x = torch.randn(5, 3)
            assert torch.equal(compiled(model, mine, x), trained(other, theirs, x))
    assert all(map(torch.equal, model.parameters(), other.parameters()))
    assert not any(isinstance(event, events.Broke) for event in heard)
