"""Attributes that a program stores on tensors, those that it makes and those that it is given."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import jitpkg
from jitpkg.errors import GraphBreak
from jitpkg.testing import Comparison, call

BREAKS = {"disturb": "break"}
WAYS: dict[str, dict[str, Any]] = {
    "eager": {"fullgraph": True},
    "jitpkg": {"backend": "jitpkg", "fullgraph": True, "ignore": ("version", "grad_fn")},
    "breaks": {"settings": BREAKS},
    "breaks before the second": {"settings": {"disturb": "break:1"}},
    "breaks before the fourth": {"settings": {"disturb": "break:3"}},
}


def comparison(way: str) -> Comparison:
    return Comparison(relative=1e-6, absolute=1e-6, **WAYS[way])


class Record:
    pass


def read_back(x: Tensor) -> Any:
    y = x + 1
    y.tag = 3
    y.tag += y.tag
    return y, y * y.tag


def not_inherited(x: Tensor) -> Any:
    y = x + 1
    y.tag = 3
    made = y * 2, y.view(-1), y.detach(), y.clone(), y[0], y.t(), y.data, torch.zeros_like(y)
    return y, [hasattr(each, "tag") for each in made], made


def kept_in_place(x: Tensor) -> Any:
    y = x.clone()
    y.tag = ["a"]
    z = y.mul_(2)
    z.tag.append("b")
    y += 1
    y[0] = 0
    return z, y.tag, z is y, y.contiguous().tag


def asked_by_builtins(x: Tensor) -> Any:
    y = x * 2
    before = getattr(y, "tag", None), hasattr(y, "tag")
    setattr(y, "tag", 4)  # noqa: B010
    object.__setattr__(y, "other", 5)
    after = getattr(y, "tag", None), hasattr(y, "tag"), y.other
    delattr(y, "tag")
    return y, before, after, hasattr(y, "tag")


def deleted(x: Tensor) -> Any:
    y = x * 2
    y.first, y.second, y.third = 1, 2, 3
    del y.first
    y.first = 4
    try:
        y.fourth
    except AttributeError as error:
        y.said = str(error)
    return y


def of_all_kinds(x: Tensor) -> Any:
    y, z = x + 1, x.sin()
    y.tensor, y.items, y.itself = z, [z, {"x": x, "y": y}], y
    y.record = Record()
    y.record.of = y
    y.text, y.none, y.function = "text", None, read_back
    return [y]


def only_inside(x: Tensor) -> Any:
    y = x + 1
    y.scale = x.sum()
    y.scale.of = y
    return y * y.scale


def hides_a_method(x: Tensor) -> Any:
    y = x + 1
    y.log = 3
    z = y * y.log
    del y.log
    return y.log(), z


def marked_as_a_parameter(x: Tensor) -> Any:
    y = x.detach() + 1
    y._is_param = True
    return isinstance(y, nn.Parameter), isinstance(y * 1, nn.Parameter), y


def on_an_argument(x: Tensor) -> Any:
    x.tag = 3
    x.last = [x.sum()]
    return x * x.tag, x.last


def again_on_an_argument(x: Tensor) -> Any:
    x.calls = getattr(x, "calls", 0) + 1
    x.first, x.second = 1, 2
    del x.first
    x.first = 3
    return x * x.calls


def taken_from_an_argument(x: Tensor) -> Any:
    x.tag = x + 1
    y = x.tag * 2
    del x.tag
    return y, hasattr(x, "tag")


def stored_elsewhere(x: Tensor, found: list[Any]) -> Any:
    y = x + 1
    found.append(y)
    y.place = len(found)
    y.found = found
    return y * 2


def with_gradients(x: Tensor, w: Tensor) -> Any:
    w.used = True
    y = (x * w).sum()
    y.of = w
    y.backward()
    w.grad.tag = "gradient"
    return y.detach(), w.grad, y.of is w


ONE_GRAPH: dict[Callable[..., Any], tuple[Any, ...]] = {
    **dict.fromkeys(
        (
            *(read_back, not_inherited, kept_in_place, asked_by_builtins, deleted, of_all_kinds),
            *(only_inside, hides_a_method, marked_as_a_parameter, on_an_argument),
            *(again_on_an_argument, taken_from_an_argument),
        ),
        (torch.rand(2, 3),),
    ),
    stored_elsewhere: (torch.rand(2, 3), []),
    with_gradients: (torch.rand(3), nn.Parameter(torch.rand(3))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", ONE_GRAPH)
def test_as_eager_code(program: Callable[..., Any], way: str) -> None:
    comparison(way).assert_same(program, *ONE_GRAPH[program])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", [read_back, not_inherited, of_all_kinds, on_an_argument])
def test_of_what_requires_grad(program: Callable[..., Any], way: str) -> None:
    comparison(way).assert_same(program, torch.rand(2, 3, requires_grad=True))


def reads(x: Tensor) -> Any:
    scale = getattr(x, "scale", None)
    x.scale = 2 if scale is None else scale + 1
    return x * x.scale


def test_what_is_there_is_guarded() -> None:
    given = [torch.ones(3) for _ in range(4)]
    given[1].scale = 5  # type: ignore[attr-defined]
    given[2].scale = torch.ones(3)  # type: ignore[attr-defined]
    Comparison(fullgraph=True).assert_same_calls(reads, *[call(x) for x in given * 2])


def of_two(x: Tensor, y: Tensor) -> Any:
    x.tag = 1
    y.tag = 2
    return x + y, x.tag


def of_one_of_two(x: Tensor, y: Tensor) -> Any:
    x.tag = 1
    return x + y, getattr(y, "tag", None)


@pytest.mark.parametrize("program", [of_two, of_one_of_two])
@pytest.mark.parametrize("first", [True, False])
def test_two_that_may_be_one(program: Callable[..., Any], first: bool) -> None:
    def calls() -> list[Any]:
        x, y, z = torch.ones(3), torch.zeros(3), torch.rand(3)
        return [call(z, z), call(x, y)] if first else [call(x, y), call(z, z)]

    Comparison(fullgraph=True).assert_same_calls(program, *calls())


def behind_a_break(x: Tensor) -> Any:
    y = x + 1
    y.tag = x.sum()
    z = y * 2
    jitpkg.graph_break()
    z.tag = y.tag + 1
    return y, z, hasattr(y, "tag"), y.tag is z.tag


def in_a_module_of_its_own(x: Tensor) -> Any:
    def mark(y: Tensor) -> Tensor:
        y.marks = [*getattr(y, "marks", ()), len(y.shape)]  # type: ignore[attr-defined]
        return y

    return mark(mark(x + 1)), mark(mark(x).t())


def fails_behind(x: Tensor, found: list[Any]) -> Any:
    y = x + 1
    y.tag = 1
    found.append(y)
    y.tag = found
    x.add_(1)
    x.tag = "written"
    z = y[torch.full((1,), 7)]
    y.tag = 3
    x.tag = "late"
    return z


def fails_when_deleted(x: Tensor) -> Any:
    y = x + 1
    x.tag = 3
    del x.tag
    del y.tag
    return y


def sets_what_torch_has(x: Tensor) -> Any:
    y = x.detach() + 1
    y.data = x
    return y


def hides_a_method_of_an_argument(x: Tensor) -> Any:
    y = x.exp()
    x.log = 3
    return x.log * y


def keeps_a_generator(x: Tensor) -> Any:
    y = x + 1
    y.found = (each for each in (1, 2, 3))
    return y, next(y.found)


@pytest.mark.parametrize("settings", [{}, BREAKS], ids=["once", "breaks"])
@pytest.mark.parametrize(
    "program",
    [
        *(behind_a_break, in_a_module_of_its_own, fails_when_deleted, sets_what_torch_has),
        *(hides_a_method_of_an_argument, keeps_a_generator),
    ],
)
def test_with_breaks(program: Callable[..., Any], settings: dict[str, Any]) -> None:
    Comparison(settings=settings).assert_same(program, torch.rand(2, 3))


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_what_fails_behind_it(backend: str) -> None:
    same = Comparison(backend=backend, ignore=("version", "message"))
    same.assert_same(fails_behind, torch.rand(2, 3), [])


class Scaled(torch.autograd.Function):
    """It reads an attribute."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.scale = getattr(x, "scale", 1)
        return x * ctx.scale

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * ctx.scale


class Marking(Scaled):
    """It sets one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        made = Scaled.forward(ctx, x)
        made.made = True  # type: ignore[attr-defined]
        return made


SCALES = [3]


class Keeping(Scaled):
    """It keeps a tensor that leads to an object of others."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.kept = x.sum()
        ctx.kept.scales = SCALES
        return Scaled.forward(ctx, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * ctx.kept.scales[0]


@pytest.mark.parametrize("function", [Scaled, Marking, Keeping])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("has", [True, False])
def test_an_autograd_function(function: Any, grad: bool, has: bool) -> None:
    def program(x: Tensor) -> Any:
        y = x + 1
        if has:
            y.scale = 3
        made = function.apply(y)
        return made, hasattr(made, "made")

    Comparison().assert_same(program, torch.ones(2, requires_grad=grad))


@jitpkg.allow_in_graph
def scaled(x: Tensor) -> Tensor:
    return x * getattr(x, "scale", 1)


def by_a_function_in_the_graph(x: Tensor) -> Any:
    y = x + 1
    y.scale = 3
    return scaled(y)


def test_a_function_in_the_graph_that_reads_one() -> None:
    Comparison().assert_same(by_a_function_in_the_graph, torch.ones(2))


def inside_a_level(x: Tensor) -> Any:
    def row(z: Tensor) -> Tensor:
        z.tag = 3  # type: ignore[attr-defined]
        made = z * z.tag  # type: ignore[attr-defined]
        made.tag = 4
        return made

    made = torch.func.vmap(row)(x)
    return made, hasattr(x, "tag"), hasattr(made, "tag")


def outside_of_a_level(x: Tensor) -> Any:
    y = x + 1

    def row(z: Tensor) -> Tensor:
        y.tag = 4
        return z * y.tag

    return torch.func.vmap(row)(x), y


def set_on_what_a_level_is_given(x: Tensor) -> Any:
    y = x + 1
    y.tag = 3
    found = []

    def row(z: Tensor) -> Tensor:
        found.append(hasattr(z, "tag"))
        return z * y.tag

    return torch.func.vmap(row)(y), found


@pytest.mark.parametrize(
    "program", [inside_a_level, outside_of_a_level, set_on_what_a_level_is_given]
)
def test_inside_of_a_transform(program: Callable[..., Any]) -> None:
    Comparison().assert_same(program, torch.ones(2, 3))


class Marked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Tensor) -> Any:
        for parameter in self.parameters():
            parameter.calls = getattr(parameter, "calls", 0) + 1  # type: ignore[attr-defined]
        self.seen = self.seen + x
        self.seen.of = "the last call"
        return self.weight * x, self.seen


@pytest.mark.parametrize("way", WAYS)
def test_of_a_module(way: str) -> None:
    comparison(way).assert_same(Marked(), torch.rand(3))


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_what_backward_reads_is_read_then(backend: str) -> None:
    compiled = jitpkg.compile(lambda x: Keeping.apply(x) * 2, backend=backend)
    for scale in (5, 3):
        x = torch.ones(2, requires_grad=True)
        y = compiled(x)
        SCALES[0] = scale
        y.sum().backward()
        assert torch.equal(x.grad, torch.full((2,), 2.0 * scale))


def test_a_method_of_an_argument_is_hidden_for_real() -> None:
    """Calls of methods are not guarded against what may be stored on the tensor at any time."""
    compiled = jitpkg.compile(hides_a_method_of_an_argument, fullgraph=True)
    with pytest.raises(GraphBreak, match="hides"):
        compiled(torch.ones(2))


def test_nobody_lives_on() -> None:
    """What was set on a tensor dies with it."""

    def program(x: Tensor) -> Any:
        y = x + 1
        y.record = Record()
        return y

    compiled = jitpkg.compile(program)
    compiled(torch.ones(3))
    y = compiled(torch.ones(3))
    reference = weakref.ref(y.record)
    del y
    assert reference() is None
