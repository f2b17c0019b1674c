"""In company of `torch.compile` and `torch.export`: they find functions as their author wrote them,
whatever has become of these, and what they have traced is left alone from then on."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import fx

import jitpkg
from jitpkg.rewriter.door import Door
from tests.auto.project import Project, called

X = torch.tensor([1.0, 2.0])

SOURCE = """
import contextlib
import torch

@contextlib.contextmanager
def scope(log):
    log.append("in")
    try:
        yield len(log)
    finally:
        log.append("out")

def inner(x, k=2):
    return x.cos() * k

def plain(x):
    return inner(x).sin() + inner(x, k=3)

def loops(x):
    total = x
    for k, part in enumerate([x, x + 1, inner(x)]):
        if k == 1:
            continue
        total = total + part * k
    while k > 0:
        k -= 1
        total = total * 2
    return total

def closures(x):
    weight = x * 2
    def scaled(y):
        return y * weight
    return [scaled(inner(y)) for y in (x, x + 1)][-1] + (lambda z: z - weight)(x)

def blocks(x):
    log = []
    try:
        with torch.no_grad(), scope(log) as n:
            x = inner(x) * n
        {}["missing"]
    except KeyError as error:
        x = x + len(error.args)
    finally:
        x = x * 2
    return x + len(log)

def generators(x):
    def halves(x):
        yield inner(x) / 2
        yield from (inner(y) for y in (x, x))
    return sum(halves(x))

class Base:
    def method(self, x):
        return x - 1

class Thing(Base):
    factor = 3.0
    def method(self, x):
        return super().method(inner(x)) * self.factor
    @staticmethod
    def static(x):
        return inner(x).exp()
    @property
    def value(self):
        return self.factor + 1

def objects(x):
    thing = Thing()
    return thing.method(x) + Thing.static(x) * thing.value

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(), Layer()])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return inner(x)

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((2,), 0.5))
    def forward(self, x):
        return x * self.weight

def modules(x, net=Net()):
    return net(x)
"""

FUNCTIONS = ("plain", "loops", "closures", "blocks", "generators", "objects", "modules")


class Counted:
    """A backend that counts graphs."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return graph.forward


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize("warm", [0, 1, 5], ids=["new", "called once", "compiled"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_by_torch_as_a_whole(project: Project, name: str, warm: int) -> None:
    module = project.load("whole", SOURCE)
    function = getattr(module, name)
    wanted = [function(X + k).detach() for k in range(warm)]
    backend = Counted()
    by_torch = torch.compile(function, backend=backend, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(by_torch(X), function(X))
    assert backend.graphs == 1
    torch.testing.assert_close([function(X + k).detach() for k in range(warm)], wanted)


def test_broken_by_torch_where_it_is_without_us(project: Project) -> None:
    source = (
        "import torch\ndef helper(x):\n    print(end='')\n    return x * 2\n"
        "def f(x):\n    y = helper(x.sin())\n    if y.sum() > 0:\n        y = helper(y)\n"
        "    return y + 1\n"
    )
    counts = []
    for warm in (0, 4):
        module = project.load(f"broken_{warm}", source)
        called(module.f, X, times=warm)
        backend = Counted()
        by_torch = torch.compile(module.f, backend=backend)
        for _ in range(4):
            torch.testing.assert_close(by_torch(X), X.sin() * 4 + 1)
        counts.append(backend.graphs)
    plain: dict[str, Any] = {}
    exec(source, plain)
    backend = Counted()
    torch.compile(plain["f"], backend=backend)(X)
    assert counts == [backend.graphs] * 2
    assert "helper" not in {found.name for found in jitpkg.stats().functions}


def test_what_torch_has_traced_is_left_alone_and_traced_once(project: Project) -> None:
    module = project.load("left_alone", SOURCE)
    called(module.loops, X)
    project.compiled.clear()
    backend = Counted()
    by_torch = torch.compile(module.plain, backend=backend, fullgraph=True)
    for _ in range(4):
        by_torch(X)
        called(module.plain, X)
        called(module.inner, X)
    assert backend.graphs == 1
    assert project.compiled == []
    called(module.objects, X)
    assert "objects" in project.compiled


def test_closures_that_are_made_later(project: Project) -> None:
    module = project.load(
        "later", "import torch\ndef make(k):\n    def f(x): return x.sin() * k\n    return f"
    )
    backend = Counted()
    torch.compile(module.make(2), backend=backend, fullgraph=True)(X)
    torch.testing.assert_close(called(module.make(3), X)[-1], X.sin() * 3)
    assert project.compiled == []
    torch.testing.assert_close(torch.compile(module.make(3), backend=backend)(X), X.sin() * 3)


@pytest.mark.parametrize("strict", [False, True])
def test_exported(project: Project, strict: bool) -> None:
    module = project.load("exported", SOURCE)
    for warm in (0, 4):
        net = module.Net()
        called(net, X, times=warm)
        exported = torch.export.export(net, (X,), strict=strict).module()
        torch.testing.assert_close(exported(X), net(X))


def test_traced_scripted_and_symbolically(project: Project) -> None:
    project.write("in_fx", SOURCE)
    module = project.load("in_fx", SOURCE)
    for _ in range(4):
        assert "cos" in fx.symbolic_trace(module.plain).code
        module.plain(X)
    net = module.Net()
    called(net, X)
    torch.testing.assert_close(fx.symbolic_trace(net)(X), net(X))
    torch.testing.assert_close(torch.jit.trace(net, (X,))(X + 1), net(X + 1))
    torch.testing.assert_close(torch.jit.script(module.Layer())(X), module.Layer()(X))


def test_a_model_that_compiles_itself(project: Project) -> None:
    module = project.load("itself", SOURCE)
    net = module.Net()
    wanted = called(net, X)[-1]
    backend = Counted()
    net.compile(backend=backend, fullgraph=True)
    torch.testing.assert_close(called(net, X)[-1], wanted)
    assert backend.graphs == 1


def test_what_is_compiled_by_name_stays_so_when_torch_traces_it() -> None:
    @jitpkg.jit
    def named(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    def outer(x: torch.Tensor) -> torch.Tensor:
        return named(x) * 2

    named(X)
    code = named.__code__
    by_torch = torch.compile(outer, backend="eager", fullgraph=True)
    torch.testing.assert_close(by_torch(X), (X.sin() + 1) * 2)
    torch.testing.assert_close(named(torch.ones(3)), torch.ones(3).sin() + 1)
    assert named.__code__ is code


def test_compiled_functions_call_what_torch_has_compiled() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    by_torch = torch.compile(inner, backend="eager")
    events: list[jitpkg.events.Event] = []

    def outer(x: torch.Tensor) -> torch.Tensor:
        return by_torch(x * 2) + 1

    with jitpkg.events.STREAM.listening(events.append):
        compiled = jitpkg.compile(outer)
        assert torch.equal(called(compiled, X)[-1], (X * 2).sin() + 1)
    breaks = [event for event in events if isinstance(event, jitpkg.events.Broke)]
    assert [event.function.rpartition(".")[2] for event in breaks] == ["outer"]


def test_a_door_is_a_frozenset_to_dynamo_only() -> None:
    class Region:
        seen = 0

        def traced(self) -> None:
            self.seen += 1

    region = Region()
    door: Any = Door(region)  # type: ignore[arg-type]
    assert isinstance(door, weakref.ref)
    assert not isinstance(door, frozenset)
    assert door.__class__ is Door
    names = {"__name__": "torch._dynamo.variables.constant", "door": door}
    assert eval("isinstance(door, frozenset)", names)
    assert eval("list(door)", names) == []
    assert region.seen == 1
    assert copy.copy(door) is copy.deepcopy(door) is door
    assert bool(door)
