"""Callables of all kinds: what each compiled one returns, and what it looks like."""

import asyncio
import contextlib
import copy
import functools
import inspect
import operator
import pickle
import traceback
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import jitpkg
from jitpkg import errors
from tests.api.support import Counts, X, affine, fresh, sine


class Scale:
    """Is called with a tensor."""

    def __init__(self, k: float = 2) -> None:
        self.k = k

    def __call__(self, x: torch.Tensor, *, shift: float = 1) -> torch.Tensor:
        return x.sin() * self.k + shift

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x.cos() * self.k

    partial = functools.partialmethod(method)

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x.cos() * len(cls.__name__)

    @staticmethod
    def static(x: torch.Tensor) -> torch.Tensor:
        return x.cos() * 3


class Doubled(Scale):
    def __call__(self, x: torch.Tensor, *, shift: float = 1) -> torch.Tensor:
        return super().__call__(x, shift=shift) * 2


class Slots:
    __slots__ = ("k",)

    def __init__(self, k: float = 2) -> None:
        self.k = k

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() * self.k


@dataclass(frozen=True)
class Frozen:
    k: float = 2

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() * self.k


class Forwarding:
    def __init__(self, to: Any) -> None:
        self.to = to

    def __getattr__(self, name: str) -> Any:
        return getattr(self.to, name)

    def __call__(self, *args: Any) -> Any:
        return self.to(*args)


@functools.lru_cache
def remembered(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


@functools.singledispatch
def dispatched(x: Any) -> Any:
    return x + 1


@dispatched.register(torch.Tensor)
def _(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def decorated(f: Any) -> Any:
    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs) + 1

    return wrapper


@contextlib.contextmanager
def scaling(x: torch.Tensor) -> Any:
    yield x * 2


@dataclass(frozen=True)
class Kind:
    """A kind of callable."""

    make: Callable[[], Any]
    args: tuple[Any, ...] = (X,)
    graphs: int = 1


KINDS: dict[str, Kind] = {
    "partial": Kind(lambda: functools.partial(affine, k=4)),
    "partial of a partial": Kind(
        lambda: functools.partial(functools.partial(affine, n=1), k=functools.partial(int, 3)())
    ),
    "partial with a tensor": Kind(lambda: functools.partial(torch.add, X, alpha=2)),
    "partial of a method": Kind(lambda: functools.partial(Scale(3).method)),
    "partial method": Kind(lambda: Scale(3).partial),
    "partial of a builtin": Kind(lambda: functools.partial(operator.mul, 2)),
    "partial of an object": Kind(lambda: functools.partial(Scale(3), shift=2)),
    "partial of a class": Kind(lambda: functools.partial(torch.Size, [1]), args=(), graphs=0),
    "operator": Kind(lambda: operator.add, (X, X)),
    "itemgetter": Kind(lambda: operator.itemgetter(0)),
    "methodcaller": Kind(lambda: operator.methodcaller("sin")),
    "builtin": Kind(lambda: len, graphs=0),
    "builtin sum": Kind(lambda: sum),
    "function of torch": Kind(lambda: torch.sin),
    "another one": Kind(lambda: torch.addr, (torch.ones(2, 2), X, X)),
    "method of the class of tensors": Kind(lambda: torch.Tensor.sin),
    "method of a tensor": Kind(lambda: X.sin, ()),
    "operator of a tensor": Kind(lambda: X.__add__),
    "op": Kind(lambda: torch.ops.aten.sin.default),
    "packet of ops": Kind(lambda: torch.ops.aten.sin),
    "method of a list": Kind(lambda: [X, X].pop, (), graphs=0),
    "function of numpy": Kind(lambda: np.sin, (np.ones(2),), graphs=0),
    "object": Kind(lambda: Scale(3)),
    "object with slots": Kind(lambda: Slots(3)),
    "frozen object": Kind(lambda: Frozen(3)),
    "super().__call__": Kind(lambda: Doubled(3)),
    "object that forwards": Kind(lambda: Forwarding(Scale(3))),
    "bound method": Kind(lambda: Scale(3).method),
    "bound method of a partial": Kind(lambda: types.MethodType(functools.partial(operator.mul), 2)),
    "bound method of a builtin": Kind(lambda: types.MethodType(torch.add, X)),
    "class method": Kind(lambda: Scale.of_class),
    "static method": Kind(lambda: Scale.static),
    "static method, as it is": Kind(lambda: vars(Scale)["static"]),
    "lambda": Kind(lambda: lambda x: x.sin()),
    "remembered": Kind(lambda: remembered, graphs=0),
    "single dispatch": Kind(lambda: dispatched),
    "decorated": Kind(lambda: decorated(fresh(sine))),
    "decorated by torch": Kind(lambda: torch.no_grad()(fresh(sine))),
    "context manager": Kind(lambda: lambda x: scaling(x).__enter__()),
    "module": Kind(lambda: nn.Softmax(0)),
    "method of a module": Kind(lambda: nn.Softmax(0).forward),
    "module without forward": Kind(lambda: nn.Module(), graphs=0),
    "transformed": Kind(lambda: torch.vmap(sine)),
    "autograd function": Kind(lambda: torch.autograd.Function.apply, graphs=0),
    "closure": Kind(lambda: functools.reduce(lambda f, g: lambda x: g(f(x)), [sine, sine])),
}


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        result = f(*args)
    except Exception as error:
        return type(error), str(error)[:80]
    return result.tolist() if isinstance(result, torch.Tensor | np.ndarray) else result


@pytest.mark.parametrize("kind", KINDS)
def test_as_eager(kind: str, backend: Counts) -> None:
    of = KINDS[kind]
    compiled = jitpkg.compile(of.make(), backend=backend)
    expected = outcome(of.make(), *of.args)
    assert outcome(compiled, *of.args) == expected
    assert outcome(compiled, *of.args) == expected
    assert len(backend.graphs) == of.graphs


@pytest.mark.parametrize("kind", KINDS)
def test_called_by_compiled_code(kind: str) -> None:
    of = KINDS[kind]
    inner = jitpkg.compile(of.make(), backend="eager")
    outer = jitpkg.compile(lambda *args: [inner(*args)], backend="eager")
    expected = outcome(lambda *args: [of.make()(*args)], *of.args)
    assert str(outcome(outer, *of.args)) == str(expected)
    assert str(outcome(outer, *of.args)) == str(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_too_many_arguments(kind: str) -> None:
    of = KINDS[kind]
    args = (*of.args, *[X] * 5)
    assert outcome(jitpkg.compile(of.make(), backend="eager"), *args) == outcome(of.make(), *args)


def attributes(obj: Any, names: str) -> list[Any]:
    found = [getattr(obj, name, "missing") for name in names.split()]
    return [
        value if isinstance(value, str | dict | tuple | None) else type(value) for value in found
    ]


def signature(obj: Any) -> Any:
    try:
        return inspect.signature(obj)
    except ValueError:
        return None


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_looks_like(kind: str) -> None:
    original = KINDS[kind].make()
    compiled = jitpkg.compile(original, backend="eager")
    assert callable(compiled)
    names = (
        "__name__ __qualname__ __module__ __doc__ __self__ func args keywords k cache_info registry"
    )
    assert attributes(compiled, names) == attributes(original, names)
    assert signature(compiled) == signature(original)
    assert asyncio.iscoroutinefunction(compiled) is asyncio.iscoroutinefunction(original)
    assert type(compiled) is staticmethod or weakref.ref(compiled)() is compiled


def through_pickle(obj: Any) -> Any:
    return pickle.loads(pickle.dumps(obj))


@pytest.mark.parametrize("kind", ["partial", "operator", "object", "frozen object", "module"])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, through_pickle])
def test_copies(kind: str, copied: Any) -> None:
    of = KINDS[kind]
    compiled = jitpkg.compile(of.make(), backend="eager")
    other = copied(compiled)
    assert type(other).__name__ == type(compiled).__name__
    assert other is not compiled
    assert outcome(other, *of.args) == outcome(of.make(), *of.args)


def test_state_is_the_original_s(backend: Counts) -> None:
    scale = Scale(3)
    compiled: Any = jitpkg.compile(scale, backend=backend)
    compiled.k = 5
    compiled.other = "here"
    assert (scale.k, scale.other) == (5, "here")
    assert torch.equal(compiled(X), scale(X))
    scale.k = 7
    assert torch.equal(compiled(X, shift=2), scale(X, shift=2))
    del compiled.other
    assert not hasattr(scale, "other")
    assert torch.equal(compiled.method(X), scale.method(X))
    assert "method" in dir(compiled)
    assert repr(compiled) == f"<compiled {scale!r}>"
    copied = copy.deepcopy(compiled)
    copied.k = 1
    assert scale.k == 7


def test_what_a_class_does_not_bind_is_not_bound() -> None:
    class Local:
        scaled = jitpkg.compile(functools.partial(operator.mul, 2))
        sine = jitpkg.compile(torch.sin)
        scale = jitpkg.compile(Scale(3))
        remembered = jitpkg.compile(functools.lru_cache(lambda self, x: x * self.k))
        k = 4

    assert torch.equal(Local().scaled(X), X * 2)
    assert torch.equal(Local().sine(X), X.sin())
    assert torch.equal(Local().scale(X), Scale(3)(X))
    o = Local()
    assert torch.equal(o.remembered(X), X * 4)
    assert o.remembered.__self__ is o
    assert Local.remembered.cache_info().misses == 1


def test_compiled_twice(backend: Counts) -> None:
    partial = functools.partial(affine, k=4)
    compiled = jitpkg.compile(jitpkg.compile(partial), backend=backend)
    assert compiled.__wrapped__ is partial
    assert torch.equal(compiled(X), affine(X, 4))
    assert len(backend.graphs) == 1


def test_compiled_again_in_place(backend: Counts) -> None:
    compiled = jitpkg.compile(functools.partial(affine, k=4))
    assert jitpkg.jit(compiled, backend=backend) is compiled
    assert torch.equal(compiled(X), affine(X, 4))
    assert len(backend.graphs) == 1


@pytest.mark.parametrize("first", [True, False])
def test_decorators_in_either_order(first: bool) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    remember = functools.lru_cache(maxsize=None)
    g = jitpkg.compile(remember(f)) if first else remember(jitpkg.compile(f))
    assert g(X) is g(X)
    assert g.cache_info().hits == 1
    g.cache_clear()
    assert torch.equal(g(X), f(X))


def test_a_wrapper_of_a_compiled_object_is_compiled(backend: Counts) -> None:
    """`functools.wraps` copies its module, by which libraries are told."""
    inner = jitpkg.compile(Scale(3), backend="eager")

    @functools.wraps(inner)
    def wrapper(x: torch.Tensor) -> torch.Tensor:
        return inner(x) + 1

    assert torch.equal(jitpkg.compile(wrapper, backend=backend)(X), Scale(3)(X) + 1)
    assert len(backend.graphs) == 1


def failing(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    raise KeyError(y.shape)


@pytest.mark.parametrize("make", [lambda: functools.partial(failing), lambda: failing])
def test_tracebacks_show_nothing_of_it(make: Any) -> None:
    def frames(f: Any) -> list[str]:
        try:
            f(X)
        except KeyError as error:
            return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        raise AssertionError

    compiled = jitpkg.compile(make(), backend="eager")
    assert frames(compiled) == frames(make())
    assert frames(compiled) == frames(make())


async def slow(x: torch.Tensor) -> torch.Tensor:
    await asyncio.sleep(0)
    return x.sin() + 1


class Slow:
    async def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return await slow(x)


@pytest.mark.parametrize("make", [lambda: slow, lambda: functools.partial(slow), Slow])
def test_asynchronous_callables(make: Any) -> None:
    compiled = jitpkg.compile(make(), backend="eager")
    assert asyncio.iscoroutinefunction(compiled) is asyncio.iscoroutinefunction(make())
    for _ in range(2):
        assert torch.equal(asyncio.run(compiled(X)), sine(X))


# Classes


@pytest.fixture(params=[Scale, Doubled, Slots])
def cls(request: pytest.FixtureRequest) -> type:
    made: type = types.new_class(request.param.__name__, (request.param,))
    return made


def test_calls_of_the_instances_of_a_class(C: Any, cls: type, backend: Counts) -> None:
    before = cls(3)
    expected = before(X)
    assert C(cls, backend=backend) is cls
    assert torch.equal(before(X), expected)
    assert torch.equal(cls(3)(X), expected)
    assert len(backend.graphs) == 1
    assert torch.equal(cls.__mro__[1](3)(X), expected)
    assert len(backend.graphs) == 1


def test_calls_of_the_modules_of_a_class(C: Any, backend: Counts) -> None:
    class Net(nn.Linear):
        pass

    assert C(Net, backend=backend) is Net
    net = Net(2, 2)
    assert torch.equal(net(X), net.forward(X))
    assert len(backend.graphs) == 1
    assert "_compiled_call_impl" not in vars(net)
    loud = copy.deepcopy(net)
    loud.register_forward_hook(lambda module, args, result: result * 2)
    assert torch.equal(loud(X), net.forward(X) * 2)
    nn.Linear(2, 2)(X)
    assert len(backend.graphs) == 2


# What is refused

NOT_CALLABLE: dict[str, Any] = {
    "number": 3,
    "string": "f",
    "tensor": X,
    "generator": (x for x in ()),
}
DESCRIPTORS: dict[str, Any] = {
    "property": property(sine),
    "partialmethod": functools.partialmethod(sine),
    "cached_property": functools.cached_property(sine),
    "singledispatchmethod": functools.singledispatchmethod(sine),
}


@pytest.mark.parametrize("obj", [*NOT_CALLABLE.values(), *DESCRIPTORS.values()])
def test_what_cannot_be_called(C: Any, obj: Any) -> None:
    with pytest.raises(errors.NotCompilable) as caught:
        C(obj)
    text = f"{C.__name__}() takes something that can be called, not {obj!r} ({type(obj).__name__})"
    assert str(caught.value).startswith(text)
    is_descriptor = any(obj is one for one in DESCRIPTORS.values())
    assert ("compile the function that it is made of" in str(caught.value)) is is_descriptor
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    "kind", ["partial", "operator", "function of torch", "object", "remembered"]
)
def test_what_has_no_code_cannot_be_compiled_in_place(kind: str) -> None:
    obj = KINDS[kind].make()
    with pytest.raises(errors.NotCompilable) as caught:
        jitpkg.jit(obj)
    assert f"and {obj!r} (" in str(caught.value)
    assert "use jitpkg.compile()" in str(caught.value)


@pytest.mark.parametrize("cls", [int, dict, types.SimpleNamespace, Exception])
def test_classes_whose_instances_have_no_call_in_python(C: Any, cls: type) -> None:
    with pytest.raises(errors.NotCompilable, match="has none that is written in Python"):
        C(cls)
