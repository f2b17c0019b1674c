"""`torch.cond`, `while_loop`, `scan` and `map` in compiled functions, as in eager code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as mapped

import jitpkg
from jitpkg.internals import trees, versions
from jitpkg.testing.programs.modes import HOW_COMPUTED
from jitpkg.testing.same import Comparison, call

Program = Callable[..., Any]
ROUNDED: dict[str, Any] = {"ignore": HOW_COMPUTED, "relative": 1e-5, "absolute": 1e-5}
UNSEEN = ("version", "view")
"""How often torch's own loops write to what they return, and of what it is a view."""
WAYS: dict[str, dict[str, Any]] = {
    "eager": {"ignore": UNSEEN},
    "breaks": {"settings": {"disturb": "break"}, "ignore": UNSEEN},
    "jitpkg": {"backend": "jitpkg", **ROUNDED},
    "aot_eager": {"backend": "aot_eager", **ROUNDED},
}
WEIGHT = torch.linspace(-1, 1, 4)


def given(sign: float = 1.0) -> Tensor:
    return sign * torch.linspace(0.1, 1.2, 12).reshape(3, 4)


def branch(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin() + WEIGHT, lambda x: x.cos(), (x,)) * 2


def of_structures(x: Tensor) -> Any:
    return torch.cond(
        x.max() > 0,
        lambda a, b: {"sum": a + b["y"], "rest": [b["y"] * 2, a.argmax(0)]},
        lambda a, b: {"sum": a - b["y"], "rest": [b["y"] * 3, a.argmin(0)]},
        (x, {"y": x + 1}),
    )


def of_nothing(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda: x * 2, lambda: x.exp())


def of_a_number(x: Tensor) -> Any:
    return torch.cond(x.shape[0] > 2, torch.neg, torch.abs, (x,)), torch.cond(
        0.0, torch.neg, torch.abs, [x]
    )


def nested(x: Tensor) -> Any:
    def inner(x: Tensor) -> Tensor:
        return torch.cond(x.max() > 1, lambda x: x + 10, lambda x: x - 10, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: inner(x * 2) * 3, (x,))


def in_a_loop(x: Tensor) -> Any:
    for k in range(3):
        x = torch.cond(x.sum() > k, lambda x: x - 1, lambda x: x + 1, (x,))
    return x


def to_a_bound(x: Tensor) -> Any:
    return while_loop(
        lambda n, x: n < 5, lambda n, x: (n + 1, x * 1.1 + WEIGHT), (torch.tensor(0), x)
    )


def until_it_is_large(x: Tensor) -> Any:
    (found,) = while_loop(lambda x: x.sum() < 100, lambda x: ((x * 2).abs() + 1,), [x])
    return found / 2


def not_once(x: Tensor) -> Any:
    return while_loop(lambda x: x.sum() < -1e9, lambda x: (x + 1,), (x,))


def running(x: Tensor) -> Any:
    return scan(lambda c, x: (c + x * WEIGHT, (c * 2).sin()), torch.zeros(4), x)


def backwards(x: Tensor) -> Any:
    def step(c: Any, x: Any) -> Any:
        total = c["total"] * 0.5 + x[0]
        return {"total": total}, [total + x[1], total.exp()]

    return scan(step, {"total": torch.ones(3)}, (x, x * 2), dim=1, reverse=True)


def to_scalars(x: Tensor) -> Any:
    return scan(lambda c, x: (c + x.sum(), x.max()), torch.zeros(()), x, dim=-1)


def each_row(x: Tensor) -> Any:
    return mapped(lambda a, b: {"sum": a.sin() + b, "twice": a * 2}, x, x.sum(0))


def with_a_branch_inside(x: Tensor) -> Any:
    def step(c: Tensor, x: Tensor) -> Any:
        c = torch.cond(x.sum() > 0, lambda c, x: c + x, lambda c, x: c - x, (c, x))
        return c, c * 2

    return scan(step, torch.zeros(4), x)


CONDITIONS: dict[str, Program] = {
    each.__name__: each
    for each in (branch, of_structures, of_nothing, of_a_number, nested, in_a_loop)
}
LOOPS: dict[str, Program] = {
    each.__name__: each
    for each in (
        *(to_a_bound, until_it_is_large, not_once, running, backwards, to_scalars, each_row),
        with_a_branch_inside,
    )
}
PROGRAMS = CONDITIONS | LOOPS
LATER = {"backwards", "to_scalars"}
"""What is called for real before PyTorch 2.13: a scan along another dim than the first one."""
ONE_GRAPH = {
    name: program
    for name, program in PROGRAMS.items()
    if name not in LATER or versions.has("2.13", None)
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_as_eager_code(sign: float, name: str, way: str) -> None:
    def program(x: Tensor) -> Any:
        with torch.no_grad():
            return PROGRAMS[name](x)

    Comparison(**WAYS[way]).assert_same(program, given(sign))


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name: str, way: str) -> None:
    program = torch.no_grad()(ONE_GRAPH[name])
    jitpkg.compile(program, backend=way, fullgraph=True)(given())
    explained = jitpkg.explain(program, backend=way)(given())
    assert explained.graph_break_count == 0
    assert explained.graph_count == 1
    assert not explained.declined


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", ["branch", "of_nothing", "nested", "in_a_loop"])
def test_gradients(name: str, sign: float, way: str) -> None:
    """Of the branch that is taken, and zeros of what only the other one takes."""
    weight = torch.linspace(0.5, 1.5, 4, requires_grad=True)

    def trained(x: Tensor) -> Any:
        other = torch.cond(x.sum() > 0, lambda x: x * weight, lambda x: x + 1, (x,))
        return CONDITIONS[name](x * weight) + other

    Comparison(**WAYS[way]).assert_same(trained, given(sign).requires_grad_())
    jitpkg.compile(trained, backend="eager", fullgraph=True)(given(sign).requires_grad_())


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_modules(backend: str, sign: float) -> None:
    """Torch's compiler marks their parameters: so nothing else is compared."""
    layer, norm = nn.Linear(4, 4), nn.BatchNorm1d(4).eval()

    def program(x: Tensor) -> Any:
        return torch.cond(x.mean() > 0, lambda x: layer(x).relu(), lambda x: norm(x), (x,))

    found = []
    for each in (program, jitpkg.compile(program, backend=backend, fullgraph=True)):
        layer.zero_grad(), norm.zero_grad()
        made = each(given(sign))
        made.sum().backward()
        found.append([made, *(p.grad for p in (*layer.parameters(), *norm.parameters()))])
    torch.testing.assert_close(*found)


def test_a_gradient_of_what_is_not_taken_is_zero() -> None:
    weight = torch.ones(4, requires_grad=True)

    @jitpkg.jit
    def f(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * weight, lambda x: x + 1, (x,))

    (found,) = torch.autograd.grad(f(given(-1).requires_grad_()).sum(), weight)
    assert torch.equal(found, torch.zeros(4))


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_whole_numbers_beside_what_is_trained(backend: str) -> None:
    """Torch's own `cond` fails going backward."""

    @jitpkg.jit(backend=backend, fullgraph=True)
    def f(x: Tensor) -> Any:
        return torch.cond(
            x.sum() > 0, lambda x: (x * 2, x.argmax(0)), lambda x: (x * 3, x.argmin(0)), (x,)
        )

    for sign, times in ((1.0, 2.0), (-1.0, 3.0)):
        x = given(sign).requires_grad_()
        made, places = f(x)
        assert places.dtype is torch.int64 and not places.requires_grad
        made.sum().backward()
        assert torch.equal(x.grad, torch.full((3, 4), times))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["running", "each_row"])
def test_gradients_of_loops_are_torchs(name: str) -> None:
    """What trains through a loop calls torch's own function."""
    found = []
    for program in (LOOPS[name], jitpkg.compile(LOOPS[name], backend="eager")):
        x = given().requires_grad_()
        leaves = [each for each in trees.leaves_of(program(x)) if each.requires_grad]
        sum(each.sum() for each in leaves).backward()
        found.append((leaves, x.grad))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


@pytest.mark.parametrize("name", [*CONDITIONS, "running", "each_row", "to_a_bound"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_other_sizes(dynamic: bool | None, name: str) -> None:
    def program(x: Tensor) -> Any:
        with torch.no_grad():
            return PROGRAMS[name](x)

    calls = [call(torch.randn(n, 4)) for n in (3, 5, 2, 7)]
    for way in ("eager", "jitpkg"):
        Comparison(**WAYS[way], dynamic=dynamic).assert_same_calls(program, *calls)


def random_branch(x: Tensor) -> Any:
    taken = torch.cond(x.sum() > 0, lambda x: x + torch.rand(4), lambda x: x * 2, (x,))
    return taken, torch.rand(2)


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_only_the_branch_that_is_taken_draws(sign: float, way: str) -> None:
    with torch.no_grad():
        Comparison(**WAYS[way]).assert_same(random_branch, given(sign))


# What is called for real, or raises


SEEN: list[int] = []


def changing(x: Tensor) -> Any:
    def first(x: Tensor) -> Tensor:
        SEEN.append(1)
        return x + 1

    return torch.cond(x.sum() > 0, first, lambda x: x, (x,))


REFUSED: dict[str, Program] = {
    "a branch changes a list": changing,
    "a branch returns what it is given": lambda x: torch.cond(
        x.sum() > 0, lambda x: x, lambda x: x + 1, (x,)
    ),
    "other sizes": lambda x: torch.cond(x.sum() > 0, lambda x: x[0], lambda x: x + 1, (x,)),
    "other dtypes": lambda x: torch.cond(x.sum() > 0, lambda x: x.long(), lambda x: x + 1, (x,)),
    "other structures": lambda x: torch.cond(
        x.sum() > 0, lambda x: (x + 1,), lambda x: x + 1, (x,)
    ),
    "several conditions": lambda x: torch.cond(x > 0, torch.sin, torch.cos, (x,)),
    "operands that are numbers": lambda x: torch.cond(
        x.sum() > 0, lambda x, n: x + n, lambda x, n: x - n, (x, 2)
    ),
    "carried along as another dtype": lambda x: while_loop(
        lambda x: x.sum() < 5, lambda x: (x.double() + 1,), (x,)
    ),
    "a number is carried": lambda x: while_loop(
        lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (0, x)
    ),
    "a scan of nothing": lambda x: scan(lambda c, x: (c + x, c * 2), x[0], x[:0]),
    "rows of different lengths": lambda x: mapped(lambda xs: xs[0] + xs[1], [x, x.t()]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_called_for_real(name: str) -> None:
    """The same result, or an exception of the same type."""

    def outcome(program: Program) -> Any:
        with torch.no_grad():
            try:
                return program(given())
            except Exception as error:
                return type(error)

    wanted = outcome(REFUSED[name])
    found = outcome(jitpkg.compile(REFUSED[name], backend="eager"))
    if isinstance(wanted, type):
        assert found is wanted
    else:
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_torchs_compiler_is_not_imported() -> None:
    """Eager code calls it: seconds."""
    script = (
        "import sys, torch, jitpkg\n"
        "f = jitpkg.compile(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)))\n"
        "f(torch.ones(3)), f(-torch.ones(3))\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_associative_scan() -> None:
    def program(x: Tensor) -> Any:
        return associative_scan(lambda a, b: a * 0.5 + b, x, 0, combine_mode="generic")

    with torch.no_grad():
        Comparison().assert_same(program, given())
        assert jitpkg.explain(program, backend="eager")(given()).graph_break_count == 0
