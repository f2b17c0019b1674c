"""Weak references, and hooks of modules that are removed again, which torch finds by them."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import jitpkg

Program = Callable[..., Any]


class Owner:
    scale = 2.0


def called(m, x, owner):
    return x * weakref.ref(owner)().scale


def kept(m, x, owner):
    owner.back = weakref.ref(m)
    return owner.back()(x)


def to_a_tensor(m, x, owner):
    return weakref.ref(x)() + weakref.ref(m.weight)().sum()


def to_a_class(m, x, owner):
    return x * weakref.ref(type(owner))().scale


def returned(m, x, owner):
    reference = weakref.ref(owner)
    return reference() is owner, reference, x * 2


def forward_hook(m, x, owner):
    handle = m.register_forward_hook(lambda module, args, result: result * 2)
    first = m(x)
    handle.remove()
    return first, m(x), len(m._forward_hooks)


def pre_hook(m, x, owner):
    with m.register_forward_pre_hook(lambda module, args: (args[0] * 2,)):
        first = m(x)
    return first, m(x)


def with_keywords(m, x, owner):
    handle = m.register_forward_hook(
        lambda module, args, named, result: result + len(named), with_kwargs=True
    )
    first = m(input=x)
    handle.remove()
    handle.remove()
    return first, m(x)


def features(m, x, owner):
    seen = []
    handles = [
        child.register_forward_hook(lambda module, args, result: seen.append(result.mean()))
        for child in m.modules()
    ]
    m(x)
    for handle in handles:
        handle.remove()
    return torch.stack(seen)


def handle_outlives(m, x, owner):
    handle = m.register_forward_hook(lambda module, args, result: result * 2)
    return m(x), handle


WHOLE = (called, kept, to_a_tensor, to_a_class, returned)


def to_what_is_new(m, x, owner):
    new = Owner()
    reference = weakref.ref(new)
    return x * reference().scale


def to_what_is_gone(m, x, owner):
    reference = weakref.ref(Owner())
    return x if reference() is None else x * 2


def one_of_two(m, x, owner):
    a, b = weakref.ref(owner), weakref.ref(owner)
    return x * (2 if a is b else 3)


def existing_and_new(m, x, owner):
    return x * (2 if weakref.ref(owner) is owner.back else 3)


def equal_ones(m, x, owner):
    return x * (2 if weakref.ref(owner) == weakref.ref(owner) else 3)


def as_keys(m, x, owner):
    return x * {weakref.ref(owner): 3}[weakref.ref(owner)]


def no_callback(m, x, owner):
    return x if weakref.ref(owner).__callback__ is None else x * 2


def of_an_existing_one(m, x, owner):
    return x if owner.back.__callback__ is None else x * 2, hash(owner.back) == hash(owner)


def existing_ones(m, x, owner):
    return (
        x * (2 if owner.back == owner.back else 3),
        owner.back is owner.back,
        repr(type(owner.back)),
    )


def with_a_callback(m, x, owner):
    said = []
    reference = weakref.ref(owner, said.append)
    return x * len(said), reference() is owner


def of_a_number(m, x, owner):
    return weakref.ref(len(x.shape))


def with_an_argument(m, x, owner):
    return weakref.ref(owner)(3)


def none_given(m, x, owner):
    return weakref.ref()


HOOKS = (forward_hook, pre_hook, with_keywords, features, handle_outlives)
"""A class counts the hooks, which is a break."""
BROKEN = (
    to_what_is_new,
    to_what_is_gone,
    one_of_two,
    existing_and_new,
    equal_ones,
    as_keys,
    no_callback,
    of_an_existing_one,
    existing_ones,
    with_a_callback,
    of_a_number,
    with_an_argument,
    none_given,
)


def given() -> tuple[nn.Linear, torch.Tensor, Owner]:
    torch.manual_seed(0)
    owner = Owner()
    owner.back = weakref.ref(owner)  # type: ignore[attr-defined]
    return nn.Linear(3, 3), torch.ones(2, 3), owner


def result(function: Program) -> Any:
    def plain(value: Any) -> Any:
        if isinstance(value, weakref.ref):
            return "a reference to", type(value()).__name__
        if isinstance(value, torch.utils.hooks.RemovableHandle):
            return "a handle"
        return value

    def called() -> Any:
        results = []
        for _ in range(2):
            m, x, owner = given()
            found = function(m, x, owner)
            found = found if isinstance(found, tuple) else (found,)
            left = len(m._forward_hooks), len(m._forward_pre_hooks)
            for handle in found:
                if isinstance(handle, torch.utils.hooks.RemovableHandle):
                    handle.remove()
            after = len(m._forward_hooks), m(x)
            results.append((*map(plain, found), left, after, plain(owner.back)))  # type: ignore[attr-defined]
        return results

    try:
        return called()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("program", WHOLE, ids=lambda f: f.__name__)
def test_one_graph(program: Program) -> None:
    assert_same(jitpkg.compile(program, fullgraph=True), program)


@pytest.mark.parametrize("program", [*WHOLE, *HOOKS, *BROKEN], ids=lambda f: f.__name__)
def test_as_eager(program: Program) -> None:
    assert_same(jitpkg.compile(program), program)


def assert_same(compiled: Program, program: Program) -> None:
    found, expected = flat(result(compiled)), flat(result(program))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def flat(value: Any) -> list[Any]:
    return pytree.tree_flatten(value)[0]
