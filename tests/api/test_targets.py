"""What can be compiled: functions and methods of each kind, and modules."""

import asyncio
import copy
import functools
import inspect
import pickle
from typing import Any

import pytest
import torch

import jitpkg
from tests.api.support import Counts, Net, X, fresh, sine

# What can be compiled


class Methods:
    def __init__(self, k: int) -> None:
        self.k = k

    def plain(self, x):
        return x.sin() * self.k

    @classmethod
    def of_class(cls, x):
        return x.sin() * len(cls.__name__)

    @staticmethod
    def static(x):
        return x.sin() * 3

    def __call__(self, x):
        return x.sin() + self.k


def test_method_in_the_class_body(C: Any, backend: Counts) -> None:
    class Local(Methods):
        @C(backend=backend)
        def plain(self, x):
            return x.sin() * self.k

    assert torch.equal(Local(2).plain(X), Methods(2).plain(X))
    assert torch.equal(Local(3).plain(X), Methods(3).plain(X))
    assert len(backend.graphs) == 2


@pytest.mark.parametrize("kind", [classmethod, staticmethod])
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
def test_class_and_static_methods(C: Any, backend: Counts, kind: Any, inside: bool) -> None:
    def scaled(*args):
        return args[-1].sin() * len(args)

    compiled = kind(C(scaled, backend=backend)) if inside else C(kind(scaled), backend=backend)
    assert isinstance(compiled, kind)
    Local = type("Local", (), {"scaled": compiled})
    expected = X.sin() * (2 if kind is classmethod else 1)
    assert torch.equal(Local.scaled(X), expected)
    assert torch.equal(Local().scaled(X), expected)
    assert len(backend.graphs) == 1


def test_bound_method(C: Any, backend: Counts) -> None:
    class Local(Methods):
        def plain(self, x):
            return x.sin() * self.k

    o = Local(5)
    compiled = C(o.plain, backend=backend)
    assert compiled.__self__ is o
    assert torch.equal(compiled(X), X.sin() * 5)
    assert len(backend.graphs) == 1


def test_lambda_closure_and_nested_function(C: Any) -> None:
    k = 2

    def outer(x):
        def inner(v):
            return v * k

        return inner(x) + 1

    assert torch.equal(C(lambda x: x * k)(X), X * 2)
    assert torch.equal(C(outer)(X), X * 2 + 1)
    k = 3
    assert torch.equal(C(outer)(X), X * 3 + 1)


def test_call_of_a_class(C: Any, backend: Counts) -> None:
    class Local(Methods):
        pass

    Local.__call__ = C(fresh(Methods.__call__), backend=backend)
    assert torch.equal(Local(4)(X), X.sin() + 4)
    assert len(backend.graphs) == 1


def test_generator_function(C: Any) -> None:
    def f(x):
        y = yield x + 1
        yield y * 2

    compiled = C(f)
    assert inspect.isgeneratorfunction(compiled)
    it = compiled(X)
    assert torch.equal(next(it), X + 1)
    assert torch.equal(it.send(X), X * 2)


@pytest.mark.parametrize("has_default", [False, True])
def test_coroutine_function(C: Any, has_default: bool) -> None:
    async def plain(x):
        await asyncio.sleep(0)
        return x.sin() + 1

    async def with_default(x, k=1):
        await asyncio.sleep(0)
        return x.sin() + k

    compiled = C(with_default if has_default else plain)
    assert asyncio.iscoroutinefunction(compiled)
    assert torch.equal(asyncio.run(compiled(X)), X.sin() + 1)


def test_function_that_torch_compile_has_compiled(C: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # torch.compile wraps these two for good.
    for name in "__init__", "__setstate__":
        monkeypatch.setattr(torch.nn.Module, name, getattr(torch.nn.Module, name))
    theirs = torch.compile(fresh(sine), backend="eager")
    assert torch.equal(C(theirs)(X), sine(X))


def test_function_of_torchscript(C: Any) -> None:
    with pytest.warns((DeprecationWarning, FutureWarning), match="torch.jit"):  # which: torch 2.14
        scripted = torch.jit.script(torch.nn.Linear(2, 2))
    assert torch.equal(C(scripted)(X), scripted(X))


def test_wrapper_with_the_attributes_of_a_compiled_function(backend: Counts) -> None:
    """`functools.wraps` copies attributes; they are not the wrapper's own."""
    inner = jitpkg.jit(fresh(sine), backend=backend)

    @functools.wraps(inner)
    def wrapper(x):
        return inner(x * 2)

    jitpkg.jit(wrapper)
    inner(X)
    assert len(backend.graphs) == 1


# Modules


def test_module(C: Any, backend: Counts) -> None:
    net = Net()
    compiled = C(net, backend=backend)
    assert (compiled is net) is (C is jitpkg.jit)
    assert torch.equal(compiled(X), net.forward(X))
    assert torch.equal(compiled(X, scale=2.0), net.forward(X, scale=2.0))
    assert len(backend.graphs) == 2
    assert isinstance(compiled, Net)
    assert type(compiled).__name__ == "Net"
    assert list(compiled.state_dict()) == ["shift", "layer.weight", "layer.bias"]
    assert compiled.layer is net.layer
    assert list(compiled.parameters()) == list(net.parameters())
    assert repr(compiled) == repr(net)
    assert torch.equal(compiled.extra(X), net.extra(X))


def test_view_of_a_module_is_the_module_itself_but_for_calls() -> None:
    net = Net()
    compiled = jitpkg.compile(net)
    compiled.eval()
    assert not net.training
    net.layer.weight.data.zero_()
    assert torch.equal(compiled(X), net(X))
    compiled.note = 5
    assert net.note == 5
    compiled.load_state_dict(Net().state_dict())
    assert torch.equal(compiled(X), net(X))


def test_module_trains(C: Any) -> None:
    torch.manual_seed(0)
    expected = Net()
    compiled = C(copy.deepcopy(expected))
    for net in (expected, compiled):
        optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            net(X).square().sum().backward()
            optimiser.step()
    for a, b in zip(expected.parameters(), compiled.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copy_of_a_module_has_parameters_of_its_own(C: Any, copied: Any) -> None:
    net = C(Net())
    result = net(X)
    other = copied(net)
    assert isinstance(other, Net)
    assert torch.equal(other(X), result)
    other.layer.weight.data.zero_()
    other.layer.bias.data.zero_()
    assert torch.equal(other(X), torch.ones(2))
    assert torch.equal(net(X), result)


def test_module_compiled_twice(C: Any) -> None:
    net = Net()
    assert torch.equal(C(C(net))(X), net.forward(X))
    assert torch.equal(jitpkg.compile(jitpkg.jit(net))(X), net.forward(X))
    assert torch.equal(jitpkg.jit(jitpkg.compile(net))(X), net.forward(X))


def test_submodule_compiled_by_itself(backend: Counts) -> None:
    net = Net()
    jitpkg.jit(net.layer, backend=backend)
    net(X)
    net(X)
    assert len(backend.graphs) == 1
