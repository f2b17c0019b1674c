"""Tensors of subclasses: what their classes are told, and what they make of it."""

from __future__ import annotations

import operator
import random
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import jitpkg
from jitpkg.testing import Comparison
from jitpkg.testing.programs.modes import HOW_COMPUTED
from jitpkg.tracer import torch_calls
from tests.portions import portion
from tests.test_docs import BUILD
from tests.tracer.nests import Drawn, nest
from tests.tracer.subclasses import (
    KINDS,
    TOLD,
    Detached,
    Labelled,
    Noted,
    Other,
    Plain,
    Rude,
    Scaled,
    Swapped,
    Told,
    Weight,
    made,
)
from tests.tracer.test_function_modes import COVERED

Program = Callable[..., Any]

NOT_TRACKED = ("grad_fn", "version", "view")
"""What differs in what a `__torch_dispatch__` gives: eager code makes it below autograd."""

WAYS: dict[str, dict[str, Any]] = {
    "eager": {},
    "jitpkg": {"backend": "jitpkg", "relative": 1e-5, "ignore": HOW_COMPUTED},
    "breaks": {"settings": {"disturb": "break"}},
}


def numbers(*size: int) -> torch.Tensor:
    count = torch.Size(size).numel()
    return torch.linspace(-1.0, 2.0, count).reshape(size)


def comparison(way: str, cls: type) -> Comparison:
    """How results are compared where a tensor of this class is given."""
    options = WAYS[way]
    if issubclass(cls, Scaled):
        options = {"ignore": NOT_TRACKED, **options}
    return Comparison(**options)


# Programs


def ops(x: Any, y: Any) -> Any:
    a = torch.sin(x) + y.cos() * 2 - 1
    a = 3 - a / 2
    whole = torch.cat([x, y]), torch.stack([x, y], dim=1), x.sum(dim=-1, keepdim=True)
    part = x[0], y[:, 1:], x[..., None], x.max(dim=1), x.split(1)
    return a, whole, part, functional.softmax(x, -1), functional.relu(y), -x, x @ y.T, abs(x)


def operators(x: Any, y: Any) -> Any:
    made = []
    for each in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow):
        made += [each(x, y), each(y, x), each(x, 2), each(3, x)]
    compared = x > y, y > x, x == y, y != x, x <= 1, x >= 1
    return made, compared


def metadata(x: Any, y: Any) -> Any:
    known = x.shape, x.dtype, x.device, x.ndim, x.requires_grad, x.layout, x.size(), x.size(0)
    more = x.dim(), x.numel(), x.stride(), x.is_contiguous(), x.itemsize, x.is_sparse, len(x)
    kinds = isinstance(x, torch.Tensor), type(x), torch.is_tensor(x), isinstance(x, nn.Parameter)
    return known, more, kinds, x.is_floating_point(), y + x.shape[0], hasattr(x, "data_")


def writes(x: Any, y: Any) -> Any:
    z = x.clone()
    z += 1
    z[0] = 2
    z.mul_(3)
    z[:, 1].add_(1)
    torch.add(z, 1, out=z)
    return z, z.add_(y), z is z.sub_(1)


def walked(x: Any, y: Any) -> Any:
    rows = [row * 2 for row in x]
    first, second = x
    return rows, first + second, [*y]


def made_inside(x: Any, y: Any) -> Any:
    z = (y * 1).as_subclass(Labelled)
    z.label = "made"
    w = z + 1
    return z, w, w.label, z.shout(), z.area, z.as_subclass(torch.Tensor) * 2


def constructed_inside(x: Any, y: Any) -> Any:
    z = Detached(y * 2, title="z")
    w = z + y
    return z, z.title, w, type(w), Detached(y).add_(1), y, Detached(x) * 2


def wrapped_inside(x: Any, y: Any) -> Any:
    z = Scaled.of(y)
    w = z * 0.5
    return z, w, w.scale, w.dequantized() + 1, z + y, functional.linear(y, z)


def returned(x: Any, y: Any) -> Any:
    return x, [x], y * 2, x is x, {"x": x}


def with_attributes(x: Any, y: Any) -> Any:
    x.note = "written"
    x.other = y + 1
    return x.note, x.other * 2, x


def in_a_layer(x: Any, y: Any) -> Any:
    return functional.linear(y, x, x[:, 0] if x.shape[0] == 3 else None).relu()


def without_torch_functions(x: Any, y: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        z = torch.sin(x)
    return z, torch.cos(x), torch.overrides.has_torch_function_unary(x)


def prints(x: Any, y: Any) -> Any:
    z = x * 2
    print(type(z).__name__)
    return z + y


def under_no_grad(x: Any, y: Any) -> Any:
    with torch.no_grad():
        z = x * 2
    return z + y


def truths(x: Any, y: Any) -> Any:
    return (x + 1 if x.sum() > -100 else x - 1), float(y.sum()), bool((x == x).all())


PROGRAMS: tuple[Program, ...] = (
    *(ops, operators, metadata, writes, walked, made_inside, wrapped_inside, constructed_inside),
    *(
        returned,
        with_attributes,
        in_a_layer,
        without_torch_functions,
        prints,
        under_no_grad,
        truths,
    ),
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_code(program: Program, cls: type, way: str) -> None:
    comparison(way, cls).assert_same(program, made(cls, numbers(2, 2)), numbers(2, 2))


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("program", PROGRAMS[:8], ids=lambda program: program.__name__)
def test_one_graph(program: Program, cls: type) -> None:
    if issubclass(cls, Scaled) and program in (writes, constructed_inside):
        return  # which raises, and what is made of something without memory
    x, y = made(cls, numbers(2, 2)), numbers(2, 2)
    jitpkg.compile(program, backend="eager", fullgraph=True)(x, y)


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
def test_it_is_told_the_same(cls: type) -> None:
    logs = []
    for program in (ops, jitpkg.compile(ops, backend="eager", fullgraph=True)):
        x, y = made(cls, numbers(2, 2)), numbers(2, 2)
        TOLD.clear()
        program(x, y)
        logs.append(list(TOLD))
    assert logs[0] == logs[1]
    assert bool(logs[0]) is issubclass(cls, Noted)


def views(x: Any, y: Any) -> Any:
    with torch.no_grad():
        z = x.as_subclass(torch.Tensor)
        w = x[:1]
    return z, w, z.detach(), z.t(), x.view(-1), (x * y).sum(), y * 2


@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("program", [views, ops, writes], ids=lambda program: program.__name__)
def test_nobody_else_asks_it(program: Program, train: bool, backend: str) -> None:
    """Neither guards nor a backend make calls that a class hears of."""
    compiled = jitpkg.compile(program, backend=backend)
    logs = []
    for each in (program, compiled, compiled):
        y = numbers(2, 2).requires_grad_(train)
        trains = train and program is not writes
        x = torch.Tensor._make_subclass(Noted, numbers(2, 2), trains)  # which is no view
        TOLD.clear()
        results = each(x, y)
        logs.append(list(TOLD))
        if train:
            results[-2 if program is views else 0].sum().backward()
    assert logs[1:] == [logs[0]] * 2


def as_keys(x: Any, y: Any) -> Any:
    table = {x: 1, "y": 2}
    table[x] += 1
    return table[x], x in table, len({x, x, y}), [x, y].index(x), y + 1, next(iter(table)) is x


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
def test_as_keys(cls: type) -> None:
    comparison("eager", cls).assert_same(as_keys, made(cls, numbers(2, 2)), numbers(2, 2))


class AsMethod(torch.Tensor):
    """As it was written long ago, which warns."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func.__name__


@pytest.mark.filterwarnings("ignore:Defining your:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Defining your:UserWarning")
def test_a_handler_that_is_a_method() -> None:
    compiled = jitpkg.compile(lambda x: (torch.sin(x), x + 1), backend="eager")
    assert compiled(numbers(2, 2).as_subclass(AsMethod)) == ("sin", "add")


@pytest.mark.parametrize("grad", [True, False])
def test_what_a_wrapper_holds_may_require_grad(grad: bool) -> None:
    """Autograd sees the wrapper, which requires none."""

    def program(x: Any, y: Any) -> Any:
        with torch.set_grad_enabled(grad):
            z = x + y
            w = x * 0.5
        return z, z.requires_grad, w.scale.requires_grad, x.dequantized()

    scale = torch.ones(2, 1, requires_grad=True)
    for backend in ("eager", "jitpkg"):
        found = jitpkg.compile(program, backend=backend)
        x = Scaled(torch.ones(2, 2, dtype=torch.int8), scale)
        for _ in range(2):
            for one, other in zip(program(x, numbers(2, 2)), found(x, numbers(2, 2)), strict=True):
                if isinstance(one, torch.Tensor):
                    assert torch.equal(one, other)
                    assert one.requires_grad is other.requires_grad
                else:
                    assert one is other


# Several classes at once

PAIRS = [(a, b) for a in (*KINDS, Other) for b in (*KINDS, Other)]


def together(x: Any, y: Any) -> Any:
    return x + y, torch.sub(y, x), torch.cat([x, y]), torch.where(x > 0, x, y), [x, y]


@pytest.mark.parametrize(
    "classes", PAIRS, ids=lambda pair: f"{pair[0].__name__}-{pair[1].__name__}"
)
def test_two_classes(classes: tuple[type, type]) -> None:
    first, second = classes
    Comparison().assert_same(
        together, made(first, numbers(2, 2), "x"), made(second, numbers(2, 2) + 0.5, "y")
    )


def test_a_class_that_leaves_all_to_others() -> None:
    compiled = jitpkg.compile(together, backend="eager")
    for x, y in ((Rude, Rude), (Rude, Plain), (Noted, Rude), (Rude, None), (None, Rude)):
        given = [numbers(2, 2) if cls is None else made(cls, numbers(2, 2)) for cls in (x, y)]
        messages = []
        for each in (together, compiled):
            with pytest.raises(TypeError) as raised:
                each(*given)
            messages.append(str(raised.value))
        assert messages[0] == messages[1]


# Gradients


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cls", [Plain, Noted, Labelled], ids=lambda cls: cls.__name__)
def test_gradients_of_a_leaf(cls: type, way: str) -> None:
    def program(x: Any, y: Any) -> Any:
        return (torch.sin(x) * y).sum() + x[0].exp().sum()

    x = made(cls, numbers(2, 2)).detach()
    if isinstance(x, Labelled):
        x.label = "leaf"
    Comparison(**WAYS[way]).assert_same(program, x.requires_grad_(), numbers(2, 2))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("under", ["grad", "no grad", "no grad, then grad"])
def test_gradients_of_a_parameter(under: str, way: str) -> None:
    layer = nn.Linear(3, 2)
    layer.weight = Weight(numbers(2, 3))

    def program(x: Any) -> Any:
        if under == "grad":
            return layer(x).relu().sum()
        with torch.no_grad():
            y = layer(x)
        return y + layer(x) if under.endswith("then grad") else y

    Comparison(**WAYS[way]).assert_same(program, numbers(4, 3))


def test_no_gradient_is_lost_where_a_wrapper_needs_one() -> None:
    """Autograd goes through the wrapper there, not through what it is made of."""
    layer = nn.Linear(2, 2, bias=False)
    layer.weight = nn.Parameter(Scaled.of(numbers(2, 2)), requires_grad=False)
    x, other = numbers(3, 2).requires_grad_(), numbers(3, 2).requires_grad_()
    layer(x).sum().backward()
    jitpkg.compile(layer, backend="eager")(other).sum().backward()
    assert x.grad is not None and other.grad is not None
    assert torch.equal(x.grad, other.grad)


@pytest.mark.parametrize("cls", [Scaled, Told])
def test_a_quantised_model_is_one_graph(cls: type[Scaled]) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 4)).eval()
    for each in (model[0], model[3]):
        each.weight = nn.Parameter(cls.of(each.weight.detach()), requires_grad=False)
    compiled = jitpkg.compile(model, backend="jitpkg", fullgraph=True)
    with torch.no_grad():
        for rows in (2, 3, 2):
            x = numbers(rows, 4)
            torch.testing.assert_close(compiled(x), model(x))


# Guards


def test_another_class_is_another_call() -> None:
    compiled = jitpkg.compile(ops, backend="eager")
    for cls in (Plain, Swapped, torch.Tensor, Scaled, Plain, Labelled, Weight):
        x = made(cls, numbers(2, 2)) if cls is not torch.Tensor else numbers(2, 2)
        y = numbers(2, 2)
        for one, other in zip(ops(x, y), compiled(x, y), strict=True):
            assert type(one) is type(other)
            if isinstance(one, torch.Tensor):
                assert torch.equal(*(t.as_subclass(torch.Tensor) for t in (one, other)))


def test_other_sizes_and_other_contents() -> None:
    def program(x: Any) -> Any:
        return x + 1

    compiled = jitpkg.compile(program, backend="eager")
    for cls in (Plain, Scaled):
        for size in ((2, 2), (3, 2), (2, 3), (1, 1)):
            for dtype in (torch.float32, torch.float64):
                x = made(cls, numbers(*size).to(dtype))
                expected, found = program(x), compiled(x)
                assert type(expected) is type(found)
                assert torch.equal(*(t.as_subclass(torch.Tensor) for t in (expected, found)))


def test_attributes_are_guarded() -> None:
    def program(x: Any) -> Any:
        return x + 1 if x.label == "one" else x - 1

    compiled = jitpkg.compile(program, backend="eager")
    for label in ("one", "two", "one"):
        x = made(Labelled, numbers(2, 2), label)
        assert torch.equal(compiled(x), program(x))
        assert compiled(x).label == label


def test_another_behaviour_is_seen() -> None:
    class Changing(torch.Tensor):
        pass

    def program(x: Any) -> Any:
        return torch.sin(x)

    compiled = jitpkg.compile(program, backend="eager")
    x = numbers(2, 2).as_subclass(Changing)
    assert torch.equal(compiled(x), program(x))
    Changing.__torch_function__ = vars(Swapped)["__torch_function__"]  # type: ignore[method-assign]
    found = compiled(x)
    assert type(found) is type(program(x))
    Changing.__torch_function__ = classmethod(lambda *told: 7)  # type: ignore[assignment, method-assign]
    assert compiled(x) == 7


def test_one_object_passed_twice() -> None:
    def program(x: Any, y: Any) -> Any:
        x.add_(1)
        return x is y, y * 2

    compiled = jitpkg.compile(program, backend="eager")
    for same in (False, True, False):
        one, other = numbers(2, 2).as_subclass(Plain), numbers(2, 2).as_subclass(Plain)
        mine, its = (one, one if same else other), None
        a, b = numbers(2, 2).as_subclass(Plain), numbers(2, 2).as_subclass(Plain)
        its = (a, a if same else b)
        expected, found = program(*mine), compiled(*its)
        assert expected[0] is found[0] is same
        assert torch.equal(expected[1], found[1])
        assert torch.equal(mine[0], its[0])


def test_memory_that_is_shared() -> None:
    def program(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    for backend in ("eager", "jitpkg"):
        compiled = jitpkg.compile(program, backend=backend)
        for shared in (False, True, False):
            results = []
            for each in (program, compiled):
                base = numbers(2, 2)
                x = base.as_subclass(Plain)
                results.append(each(x, base if shared else numbers(2, 2)))
            assert torch.equal(*results)


# Everything that is on the page of what is covered


def _told(statements: str) -> Program:
    body = textwrap.indent(statements, "    ")
    text = f"def program(x, n):\n    x = x + 1\n    y = x.sin()\n{body}\n    return x * 2, made\n"
    namespace = {**vars(BUILD.coverage.coverage_names)}
    exec(compile(text, f"<{statements}>", "exec"), namespace)
    found: Program = namespace["program"]
    return found


@pytest.mark.parametrize(
    "statements", [s for _, s in portion(COVERED, 4)], ids=[line for line, _ in portion(COVERED, 4)]
)
def test_it_is_told_what_eager_code_tells(statements: str) -> None:
    program = _told(statements)
    logs = []
    for each in (program, jitpkg.compile(program, backend="eager")):
        with BUILD.coverage.quietly():
            torch.manual_seed(0)
            random.seed(0)
            x, n = BUILD.coverage.arguments()
            x = x.detach().as_subclass(Noted)
            TOLD.clear()
            try:
                result = type(each(x, n)[0])
            except Exception as error:
                result = type(error)
            logs.append((result, list(TOLD)))
    assert logs[0] == logs[1]


METHODS = sorted({*torch_calls.tensor_methods().values(), *torch_calls.REAL_METHODS})


@pytest.mark.parametrize("cls", [Noted, Scaled, Weight], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("name", portion(METHODS, 6))
def test_every_method_without_arguments(name: str, cls: type) -> None:
    def program(x: Any) -> Any:
        try:
            return getattr(x, name)()
        except Exception as error:
            return type(error)

    results = []
    for each in (program, jitpkg.compile(program, backend="eager")):
        x = made(cls, torch.linspace(1, 2, 4).reshape(2, 2))
        TOLD.clear()
        with BUILD.coverage.quietly():
            results.append((each(x), list(TOLD)))
    (expected, log), (found, found_log) = results
    assert type(expected) is type(found)
    assert log == found_log
    if isinstance(expected, type):
        assert expected is found


# Random programs

STATEMENTS: dict[str, Drawn] = {
    "op": lambda draw: draw.choice(
        [
            *("x = x + 1", "x = torch.sin(x)", "x = x.cos() * 2", "seen.append(x.shape)"),
            *("x = x[:1] + x", "x = functional.relu(x)", "x = torch.cat([x, x])[:2]"),
            *("seen.append(x.sum())", "x = x - torch.ones(2)", "x = y * x", "y = x"),
            *("x = (x + 0).as_subclass(Noted)", "y = Scaled.of(numbers(2, 2))", "x = y - x"),
            *("seen.append(type(x))", "x = x.as_subclass(torch.Tensor)", "x.note = len(seen)"),
            *("seen.append(getattr(x, 'note', None))", "y = x.detach()", "x = x.clone()"),
        ]
    ),
    "print": lambda draw: f"print({draw.randint(0, 9)})",
}
CONTEXTS: dict[str, Drawn] = {
    "block": lambda draw: draw.choice(
        ["torch.no_grad()", "torch._C.DisableTorchFunctionSubclass()"]
    ),
    "raise": lambda draw: "torch.no_grad()",
}
RANDOM_KINDS = ("op", "op", "op", "op", "block", "raise", "print")


def _random_program(seed: int) -> tuple[Program, str]:
    lines = nest(random.Random(seed), 3, RANDOM_KINDS, STATEMENTS, CONTEXTS, "x")
    body = textwrap.indent("\n".join(lines), "    ")
    text = f"def program(x, y):\n    seen = []\n{body}\n    return x, y, seen\n"
    namespace = dict(globals())
    exec(compile(text, f"<subclasses {seed}>", "exec"), namespace)
    return namespace["program"], text


@pytest.mark.parametrize("seed", range(160))
def test_random_programs(seed: int) -> None:
    program, text = _random_program(seed)
    way = ("eager", "eager", "jitpkg", "breaks")[seed % 4]
    cls = (Plain, Noted, Labelled, Scaled, Weight, Swapped)[seed % 6]
    x, y = made(cls, numbers(2, 2)), numbers(2, 2)
    try:
        comparison(way, Scaled).assert_same(program, x, y)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{text}") from error


def test_told_is_not_dispatched() -> None:
    x = Told.of(numbers(2, 2))
    compiled = jitpkg.compile(functional.linear, backend="eager", fullgraph=True)
    y = numbers(3, 2).requires_grad_()
    assert torch.equal(compiled(y, x), functional.linear(y, x))


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
def test_beside_a_list_in_itself(cls: type) -> None:
    def program(x: Any) -> Any:
        items = [x]
        items.append(items)  # type: ignore[arg-type]
        return torch.is_tensor(items), x + 1, items[0] is x

    Comparison().assert_same(program, made(cls, numbers(2, 2)))


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("train", [False, True])
def test_a_plain_view_of_it_is_returned(cls: type, train: bool) -> None:
    """A backend that takes such a view again finds what it is a view of: the one of a subclass."""

    def program(x: Any, y: Any) -> Any:
        with torch.no_grad():
            z = x.as_subclass(torch.Tensor)
            w = z[:1]
        return z, w, z.detach(), w.t(), y * 2

    x = made(cls, numbers(2, 2))
    if train and not issubclass(cls, Scaled):
        x = x.detach().requires_grad_()
    comparison("jitpkg", cls).assert_same(program, x, numbers(2, 2).requires_grad_())
