"""Properties, and instances of classes derived from `property`, that are made in the trace."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import distributions

import jitpkg
from jitpkg.testing.same import Comparison

Program = Callable[..., Any]


class Labelled(property):
    """A property that knows more."""

    def __init__(self, getter: Any, label: str) -> None:
        property.__init__(self, getter)
        self.label = label


def three(o: Any) -> int:
    """Three."""
    return 3


class Described:
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return Labelled(three, "of the class") if instance is None else 4


class Owner:
    described = Described()


def asked(x: Any) -> Any:
    found = Owner.described
    is_one = isinstance(found, property), isinstance(found, Labelled), type(found) is Labelled
    return x + Owner().described, is_one, found.label, found.fget is three, found.fset


def read(x: Any) -> Any:
    made = property(three)
    assert made.fget is not None
    return x * made.fget(None), made.fdel


def leaves(x: Any) -> Any:
    return x + 1, Owner.described.fget, len([Owner.described])


def handed_out(x: Any) -> Any:
    made = Labelled(three, "out")
    y = x + 1
    return y, made.label, made.fget, {"made": made}["made"].fset


def reads_through_an_instance(x: Any) -> Any:
    made = Labelled(three, "a")
    return x + made.__get__(Owner(), Owner)


PROGRAMS: list[Program] = [asked, read, leaves, handed_out]


@pytest.mark.parametrize("disturb", ["", "break"])
@pytest.mark.parametrize(
    "program", [*PROGRAMS, reads_through_an_instance], ids=lambda p: p.__name__
)
def test_as_eager_code(program: Program, disturb: str) -> None:
    Comparison(settings={"disturb": disturb}).assert_same(program, torch.ones(3))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program: Program) -> None:
    jitpkg.compile(program, backend="eager", fullgraph=True)(torch.ones(3))


def test_one_that_is_returned() -> None:
    def program(x: Any) -> Any:
        return x + 1, Labelled(three, "returned"), property(three)

    _, labelled, plain = jitpkg.compile(program)(torch.ones(3))
    assert type(labelled) is Labelled and type(plain) is property
    assert labelled.label == "returned" and labelled.__doc__ == plain.__doc__ == "Three."
    for made in (labelled, plain):
        assert (made.fget, made.fset, made.fdel) == (three, None, None)
        assert type("C", (), {"made": made})().made == 3


def lazily(kind: str, x: Any) -> Any:
    given = x.sigmoid() if kind == "probs" else x
    discrete: list[Any] = [
        distributions.Categorical(**{kind: given}),
        distributions.OneHotCategorical(**{kind: given}),
    ]
    found: list[Any] = [d.sample().shape for d in discrete]
    found += [distributions.Bernoulli(**{kind: given}).log_prob(torch.ones_like(x))]
    found += [distributions.Geometric(**{kind: given}).log_prob(torch.ones_like(x))]
    found += [discrete[0].log_prob(torch.zeros(x.shape[:-1])), discrete[0].entropy()]
    return *found, discrete[0].probs, discrete[0].logits


@pytest.mark.parametrize("disturb", ["", "break"])
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_distributions_with_lazy_properties(kind: str, disturb: str) -> None:
    program = functools.partial(lazily, kind)
    Comparison(settings={"disturb": disturb}).assert_same(program, torch.randn(4, 3))


def test_an_actor_is_one_graph() -> None:
    def act(x: Any) -> Any:
        policy = distributions.Categorical(logits=x)
        action = policy.sample()
        return action, policy.log_prob(action), policy.entropy()

    compiled = jitpkg.compile(act, backend="eager", fullgraph=True)
    x = torch.randn(5, 4)
    torch.manual_seed(3)
    expected = act(x)
    torch.manual_seed(3)
    for found, wanted in zip(compiled(x), expected, strict=True):
        assert torch.equal(found, wanted)
