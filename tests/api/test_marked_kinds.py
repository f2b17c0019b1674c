"""`disable` of callables of all kinds: they are called as they are."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import jitpkg
from jitpkg import errors, marks
from jitpkg.tracer import reasons
from tests.api.support import Counts, X, affine, fresh, sine


class Scale:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


class Slots:
    __slots__ = ()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")

KINDS: dict[str, Callable[[], Any]] = {
    "function": lambda: fresh(sine),
    "partial": lambda: functools.partial(affine, k=3),
    "object": Scale,
    "object with slots": Slots,
    "bound method": lambda: type("Local", (Scale,), {"method": fresh(Scale.method)})().method,
    "remembered": lambda: functools.lru_cache(fresh(sine)),
    "function of numpy": lambda: np.negative,
    "module": lambda: nn.Tanh(),
    "compiled function": lambda: jitpkg.compile(fresh(sine)),
    "compiled function with defaults": lambda: jitpkg.compile(fresh(affine)),
    "compiled object": lambda: jitpkg.compile(Scale()),
    "compiled module": lambda: jitpkg.compile(nn.Tanh()),
    "module compiled in place": lambda: jitpkg.jit(nn.Tanh()),
}
CLASSES: dict[str, Callable[[], Any]] = {
    "class": lambda: type("Local", (), {"__call__": fresh(Scale.__call__)}),
    "class that inherits": lambda: type("Local", (Scale,), {}),
    "class of modules": lambda: type("Local", (nn.Tanh,), {}),
    "compiled class": lambda: jitpkg.compile(type("Local", (Scale,), {})),
    "compiled class of modules": lambda: jitpkg.jit(type("Local", (nn.Tanh,), {})),
}


@pytest.fixture(autouse=True)
def _marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test marks is not marked after it."""
    monkeypatch.setattr(marks._MARKED, "_marks", {})


def check(called: Any, expected: torch.Tensor, backend: Counts) -> None:
    f = jitpkg.compile(lambda x: called(x) + 1, backend=backend)
    for _ in range(2):
        assert torch.equal(f(X), expected + 1)
    (graph,) = backend.graphs
    assert [node.name for node in graph.graph.nodes if node.op.startswith("call")] == ["add"]
    with pytest.raises(errors.GraphBreak) as caught:
        jitpkg.compile(called, fullgraph=True)(X)
    assert caught.value.graph_break.reason is reasons.DISABLED
    assert torch.equal(called(X), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_called_as_it_is(kind: str, backend: Counts) -> None:
    called = KINDS[kind]()
    expected = called(X)
    assert jitpkg.disable(called, reason="no") is called
    check(called, expected, backend)


@pytest.mark.parametrize("kind", CLASSES)
def test_instances_of_a_class(kind: str, backend: Counts) -> None:
    cls = CLASSES[kind]()
    expected = cls()(X)
    assert jitpkg.disable(cls) is cls
    check(cls(), expected, backend)
    base = cls.__mro__[1]
    if base is not object:
        jitpkg.compile(base(), backend=backend, fullgraph=True)(X)
        assert len(backend.graphs) == 2


def test_a_builtin(backend: Counts) -> None:
    negative = operator.methodcaller("neg")
    jitpkg.disable(negative)
    check(negative, -X, backend)


@pytest.mark.parametrize("obj", [3, property(sine), int, type("Local", (), {})])
def test_what_cannot_be_called_is_refused(obj: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"^disable\(\) "):
        jitpkg.disable(obj)
