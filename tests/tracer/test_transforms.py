"""`torch.func` in compiled functions: what it returns, raises, writes and draws is eager code's."""

from __future__ import annotations

import functools
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import func, nn

import jitpkg
from jitpkg.testing.programs.modes import HOW_COMPUTED
from jitpkg.testing.same import Comparison, call

Program = Callable[..., Any]
ROUNDED: dict[str, Any] = {"ignore": HOW_COMPUTED, "relative": 1e-5, "absolute": 1e-5}
WAYS: dict[str, dict[str, Any]] = {
    "eager": {},
    "breaks": {"settings": {"disturb": "break"}},
    "jitpkg": {"backend": "jitpkg", **ROUNDED},
    "aot_eager": {"backend": "aot_eager", **ROUNDED},
}


def square(t: Any) -> Any:
    return (t * t).sum()


def pair(t: Any) -> Any:
    return t.sin(), t.sum()


MAPPED = func.vmap(pair, out_dims=(1, 0))
DERIVED = func.grad(square)
LAYER = nn.Linear(4, 2)
NET = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
STATE = {name: each.detach() for name, each in NET.named_parameters()}
STACKED = {name: torch.stack([each, each * 2, each + 1]) for name, each in STATE.items()}


def loss_of_one(state: Any, x: Any, y: Any) -> Any:
    made = func.functional_call(NET, state, (x.unsqueeze(0),))
    return nn.functional.mse_loss(made, y.unsqueeze(0))


class Scaled:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, t: Any) -> Any:
        return (t * self.scale).sum()


ONE_GRAPH: dict[str, Program] = {
    "vmap": lambda x: func.vmap(lambda r: r.sum() * r)(x),
    "torch.vmap": lambda x: torch.vmap(torch.sin)(x),
    "in_dims": lambda x: func.vmap(lambda r, s: r * s, in_dims=(1, None))(x, x[:, 0]),
    "negative in_dims": lambda x: func.vmap(torch.sum, in_dims=-1)(x),
    "out_dims": lambda x: func.vmap(pair, out_dims=(1, 0))(x),
    "out_dims in a tuple": lambda x: func.vmap(torch.exp, out_dims=(1,))(x),
    "trees": lambda x: func.vmap(
        lambda d, t: {"a": d["a"] + t[0], "b": [d["b"]]}, in_dims=({"a": 0, "b": None}, (0, None))
    )({"a": x, "b": x[0]}, (x, 3)),
    "not mapped": lambda x: func.vmap(lambda r: (r + 1, x), out_dims=(0, None))(x),
    "constant result": lambda x: func.vmap(lambda r: x[0])(x),
    "keywords": lambda x: func.vmap(lambda r, scale: r * scale)(x, scale=x[0]),
    "chunks": lambda x: func.vmap(pair, chunk_size=2)(x),
    "captured": lambda x: func.vmap(lambda r: r * x)(x),
    "as it is": lambda x: func.vmap(lambda r: r)(x),
    "data of its own": lambda x: func.vmap(
        func.grad(lambda t: (t * torch.tensor([1.0, 2, 3, 4])).sum())
    )(x),
    "an index of its own": lambda x: func.vmap(lambda t: t[torch.tensor([2, 0, 1])])(x),
    "a number of its own": lambda x: func.jacrev(lambda t: t * torch.tensor(2.5))(x[0]),
    "a view": lambda x: func.vmap(lambda r: r[1:])(x),
    "products": lambda x: func.vmap(lambda r: LAYER(r))(x),
    "of a module": lambda x: func.vmap(NET)(x),
    "own writes": lambda x: func.vmap(lambda r: (r + 1).mul_(2).sin_())(x),
    "of a partial": lambda x: func.vmap(functools.partial(torch.add, alpha=2))(x, x),
    "made before": lambda x: MAPPED(x),
    "in vmap": lambda x: func.vmap(func.vmap(lambda a: a.exp()))(x),
    "grad": lambda x: func.grad(square)(x),
    "grad of what was made before": lambda x: DERIVED(x) + 1,
    "argnums": lambda x: func.grad(lambda a, b: (a * b.sin()).sum(), argnums=(1, 0))(x, x + 1),
    "negative argnums": lambda x: func.grad(lambda a, b: (a * b).sum(), argnums=-1)(x, x + 1),
    "grad of a dict": lambda x: func.grad(lambda d: (d["a"] * d["b"]).sum())({"a": x, "b": x + 1}),
    "aux": lambda x: func.grad(lambda t: (square(t), {"a": t + 1}), has_aux=True)(x),
    "grad_and_value": lambda x: func.grad_and_value(square)(x),
    "value and aux": lambda x: func.grad_and_value(lambda t: (square(t), t), has_aux=True)(x),
    "grad of captured": lambda x: func.grad(lambda t: (t * x).sum())(x),
    "grad of a callable": lambda x: func.grad(Scaled(3.0))(x),
    "no gradient": lambda x: func.grad(lambda a, b: a.sum(), argnums=1)(x, x + 1),
    "second derivative": lambda x: func.grad(lambda t: func.grad(square)(t).sin().sum())(x),
    "no_grad inside": lambda x: func.grad(lambda t: (t * _constant(t)).sum())(x),
    "detach inside": lambda x: func.grad(lambda t: (t * t.detach()).sum())(x),
    "per sample": lambda x: func.vmap(func.grad(square))(x),
    "through vmap": lambda x: func.grad(lambda t: func.vmap(square)(t).sum())(x),
    "vjp": lambda x: _vjp(torch.sin, x),
    "vjp of two": lambda x: func.vjp(lambda a, b: (a * b, a + b), x, x + 1)[1]((x, x)),
    "vjp and aux": lambda x: func.vjp(lambda a: (a.sin(), a + 1), x, has_aux=True)[2],
    "vjp twice": lambda x: [func.vjp(torch.exp, x)[1](each) for each in (x, x + 1)],
    "jvp": lambda x: func.jvp(torch.sin, (x,), (x + 1,)),
    "jvp of two": lambda x: func.jvp(lambda a, b: (a * b, a), (x, x), (x + 1, x)),
    "jvp and aux": lambda x: func.jvp(lambda a: (a.sin(), a), (x,), (x,), has_aux=True),
    "jvp in jvp": lambda x: func.jvp(lambda t: func.jvp(torch.sin, (t,), (t,))[1], (x,), (x,)),
    "jacrev": lambda x: func.jacrev(lambda t: t.sin().sum(0))(x),
    "jacrev of two": lambda x: func.jacrev(lambda a, b: (a * b, a.sum()), argnums=(0, 1))(x, x + 1),
    "jacrev of trees": lambda x: func.jacrev(lambda d: {"b": d["a"].sin()})({"a": x}),
    "jacrev in chunks": lambda x: func.jacrev(lambda t: t.sin().sum(0), chunk_size=2)(x),
    "jacrev row by row": lambda x: func.jacrev(lambda t: t.sin().sum(0), chunk_size=1)(x),
    "jacrev and aux": lambda x: func.jacrev(lambda t: (t.sin(), t), has_aux=True)(x),
    "jacfwd": lambda x: func.jacfwd(lambda t: t.sin().sum(0))(x),
    "jacfwd of two": lambda x: func.jacfwd(lambda a, b: (a * b, a.sum()), argnums=(0, 1))(x, x + 1),
    "jacfwd and aux": lambda x: func.jacfwd(lambda t: (t.sin(), t), has_aux=True)(x),
    "hessian": lambda x: func.hessian(lambda t: t.sin().prod())(x[0]),
    "hessians": lambda x: func.vmap(func.hessian(lambda t: t.sin().prod()))(x),
    "functional_call": lambda x: func.functional_call(NET, STATE, (x,)),
    "gradients of a network": lambda x: func.grad(
        lambda state: func.functional_call(NET, state, (x,)).square().mean()
    )(STATE),
    "per-sample gradients": lambda x: func.vmap(func.grad(loss_of_one), in_dims=(None, 0, 0))(
        STATE, x, x[:, :2]
    ),
    "an ensemble": lambda x: func.vmap(
        lambda state, t: func.functional_call(NET, state, (t,)), in_dims=(0, None)
    )(STACKED, x),
}


def _constant(t: Any) -> Any:
    with torch.no_grad():
        return t.sin()


def _vjp(function: Program, x: Any) -> Any:
    value, pull = func.vjp(function, x)
    return value, pull(x + 1)


SEEN: list[Any] = []


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 3


def _noted(t: Any) -> Any:
    SEEN.append(t.shape)
    return t * 2


def _kept(seen: list[Any], t: Any) -> Any:
    seen.append(1)
    return t * 2


def _caught(program: Program, *args: Any) -> Any:
    try:
        return program(*args)
    except (RuntimeError, ValueError) as error:
        return type(error)


OTHERS: dict[str, Program] = {
    "a list outside": lambda x: (func.vmap(_noted)(x), len(SEEN)),
    "a list of the trace": lambda x: (lambda seen: (func.vmap(lambda t: _kept(seen, t))(x), seen))(
        []
    ),
    "requires_grad": lambda x: func.grad(lambda t: square(t) if t.requires_grad else t.sum())(x),
    "contiguous": lambda x: func.vmap(lambda t: t + t.is_contiguous())(x),
    "a function": lambda x: func.grad(lambda t: Doubled.apply(t).sum())(x),
    "a function outside": lambda x: Doubled.apply(func.grad(square)(x)),
    "raises inside": lambda x: _caught(func.vmap(lambda t: t.view(7)), x),
    "no number": lambda x: _caught(func.grad(torch.sin), x),
    "sizes differ": lambda x: _caught(func.vmap(torch.add), x, x[1:]),
    "argnums out of range": lambda x: _caught(func.grad(square, argnums=3), x),
    "whole numbers": lambda x: _caught(func.grad(lambda t: t.sum()), x.to(torch.int64)),
    "nothing mapped": lambda x: _caught(func.vmap(torch.sin, in_dims=None), x),
    "no tensor": lambda x: _caught(func.vmap(lambda t: 3), x),
    "an aux of numbers": lambda x: _caught(func.grad(lambda t: (square(t), 3), has_aux=True), x),
    "random": lambda x: _caught(func.vmap(lambda t: t + torch.rand(4)), x),
    "random, same": lambda x: func.vmap(lambda t: t + torch.rand(4), randomness="same")(x),
    "random, different": lambda x: func.vmap(
        lambda t: nn.functional.dropout(t + torch.rand(4)), randomness="different"
    )(x),
    "random in grad": lambda x: func.grad(lambda t: (t * torch.rand(3, 4)).sum())(x),
    "random in vjp": lambda x: _vjp(lambda t: t * torch.rand(3, 4), x),
    "random in jacfwd": lambda x: func.jacfwd(lambda t: t[0] * torch.rand(4), randomness="same")(x),
    "turned in place": lambda x: (_caught(func.vmap(lambda t: t[None].t_() * 2), x), x),
    "an argument turned": lambda x: (_caught(func.vmap(lambda t: t.unsqueeze_(0) * 2), x + 1), x),
    "a write outside": lambda x: (func.vmap(lambda t: t.mul_(2))(x), x),
    "a write to what is captured": lambda x: (
        lambda y: (_caught(func.vmap(lambda t: y.add_(1)), x), y)
    )(torch.ones(4)),
    "a write between": lambda x: (
        lambda y: (lambda f: (y.add_(1), f(x)))(func.vjp(lambda t: t * t * y, x + 1)[1])
    )(torch.ones(3, 4)),
    "an operation with data": lambda x: _caught(func.vmap(lambda t: t * t.sum().item()), x),
    "a branch": lambda x: _caught(func.vmap(lambda t: t if t.sum() > 0 else -t), x),
    "autocast": lambda x: _under_autocast(x),
    "autocast inside": lambda x: func.vmap(_under_autocast)(x[None]),
    "a pullback returned": lambda x: func.vjp(torch.sin, x)[1](x),
    "a mapped function returned": lambda x: func.vmap(torch.sin, in_dims=1)(x),
    "backward inside": lambda x: _caught(
        func.grad(lambda t: torch.autograd.grad(square(t), t)[0].sum()), x
    ),
    "batch norm": lambda x: func.vmap(
        lambda t: nn.functional.batch_norm(t[None].expand(2, 4), torch.zeros(4), torch.ones(4))
    )(x),
    "linear algebra": lambda x: func.jacrev(
        lambda t: torch.linalg.solve(t @ t.T + torch.eye(3), t)
    )(x),
    "cumulative": lambda x: func.vmap(func.grad(lambda t: t.cumsum(0).prod()))(x),
    "indexed": lambda x: func.vmap(lambda t, k: t[k] + t.gather(0, k[None]), (0, 0))(
        x, torch.tensor([0, 3, 1])
    ),
    "attention": lambda x: func.vmap(
        func.grad(lambda t: nn.functional.scaled_dot_product_attention(t, t, t).sum())
    )(x.expand(2, 1, 3, 4)),
}


def _under_autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return func.vmap(lambda t: t @ t.mT)(x.expand(2, *x.shape[-2:]))


func.vmap(torch.sin)(torch.ones(2))
func.jvp(torch.sin, (torch.ones(2),), (torch.ones(2),))
"""What torch warns of when it loads this for the first time."""


def given() -> Any:
    return torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [*ONE_GRAPH, *OTHERS])
def test_as_eager_code(name: str, way: str) -> None:
    Comparison(**WAYS[way]).assert_same((ONE_GRAPH | OTHERS)[name], given())


LEFT = ("no gradient", "hessians")
"""What has no kernels: nothing is computed, or a formula writes to what overlaps."""


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name: str, way: str) -> None:
    program = ONE_GRAPH[name]
    jitpkg.compile(program, backend=way, fullgraph=True)(given())
    explained = jitpkg.explain(program, backend=way)(given())
    assert explained.graph_break_count == 0
    assert explained.graph_count == 1
    if way == "jitpkg" and name not in LEFT:
        assert not explained.declined


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", [*ONE_GRAPH, *OTHERS])
def test_differentiated_from_outside(name: str, way: str) -> None:
    """The gradients of what transforms return, by what they are given."""
    program = (ONE_GRAPH | OTHERS)[name]
    weight = torch.linspace(0.5, 1.5, 4, requires_grad=True)

    def trained(x: Any) -> Any:
        return program(x * weight)

    if name == "attention":
        _check_second_derivative(trained(given()))
        weight.grad = None
    Comparison(**WAYS[way]).assert_same(trained, given())


def _check_second_derivative(result: torch.Tensor) -> None:
    """PyTorch 2.14 chooses a kernel for attention below transforms that has none."""
    try:
        result.sum().backward()
    except RuntimeError as error:
        if "is not implemented" in str(error):
            pytest.skip(f"eager code raises: {error}")
        raise


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", ["grad", "vjp", "jvp", "jacrev", "per sample", "captured"])
def test_without_grad_mode(name: str, way: str) -> None:
    def program(x: Any) -> Any:
        with torch.no_grad():
            return ONE_GRAPH[name](x)

    Comparison(**WAYS[way]).assert_same(program, given())
    Comparison(**WAYS[way]).assert_same(program, given().requires_grad_())


@pytest.mark.parametrize("name", ["vmap", "grad", "per-sample gradients", "jacrev"])
def test_varying_sizes(name: str) -> None:
    calls = [call(torch.randn(n, 4)) for n in (3, 5, 2, 7)]
    for way in ("eager", "jitpkg"):
        Comparison(**WAYS[way]).assert_same_calls(ONE_GRAPH[name], *calls)
        Comparison(**WAYS[way], dynamic=True).assert_same_calls(ONE_GRAPH[name], *calls)


def test_a_pullback_that_leaves() -> None:
    def program(x: Any) -> Any:
        return func.vjp(torch.sin, x)

    value, pull = jitpkg.compile(program, backend="eager")(given())
    assert torch.equal(value, given().sin())
    assert torch.equal(pull(given())[0], given() * given().cos())


def test_a_mapped_function_that_leaves() -> None:
    def program(x: Any) -> Any:
        return x + 1, func.vmap(torch.sin, in_dims=1)

    _, mapped = jitpkg.compile(program, backend="eager")(given())
    assert torch.equal(mapped(given()), given().sin().T)


def test_in_a_training_step() -> None:
    def step(weight: Any, x: Any) -> Any:
        loss = func.vmap(lambda t: (t * weight).sin().sum())(x).sum()
        loss.backward()
        return loss.detach()

    leaf = torch.linspace(0.5, 1.5, 4, requires_grad=True)
    Comparison().assert_same(step, leaf, given())
    assert jitpkg.explain(step, backend="eager")(leaf, given()).graph_break_count == 0


def test_torch_dynamo_is_not_imported() -> None:
    """Eager code imports it: a second."""
    script = (
        "import sys, torch, jitpkg\n"
        "from torch.func import grad, jacrev, vmap\n"
        "f = jitpkg.compile(lambda x: (vmap(grad(torch.sin))(x), jacrev(torch.exp)(x)))\n"
        "f(torch.ones(3))\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


TRANSFORMS: dict[str, Program] = {
    "vmap": func.vmap(pair, out_dims=(1, 0)),
    "grad": func.grad(square),
    "grad_and_value": func.grad_and_value(square),
    "jacrev": func.jacrev(torch.sin),
    "jacfwd": func.jacfwd(torch.sin),
    "hessian": func.hessian(square),
    "per sample": func.vmap(func.grad(square)),
}


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_a_transform_returns_is_compiled(name: str, backend: str) -> None:
    made = TRANSFORMS[name]
    compiled = jitpkg.compile(made, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(given()), made(given()))
    Comparison(backend=backend, **ROUNDED).assert_same(made, given())


def test_what_warns_is_no_part_of_a_graph() -> None:
    """Of an op without a rule for batches torch says so."""

    def program(x: Any) -> Any:
        return func.vmap(lambda r: (r + 1).clamp_(max=3))(x)

    Comparison().assert_same(program, given())


# Random nests

_BASES: dict[str, Program] = {
    "sin": torch.sin,
    "cube": lambda t: t**3,
    "product": lambda t: t * t.flip(0) if t.dim() else t * t,
    "sum": lambda t: t.exp().sum(),
    "norm": lambda t: (t * t).sum().add(1).sqrt() * t,
    "softmax": lambda t: t.softmax(-1) if t.dim() else t.tanh(),
}


def _nest(draw: random.Random, depth: int) -> tuple[Program, str]:
    """A function of one tensor, and what it is."""
    if not depth:
        name = draw.choice(list(_BASES))
        return _BASES[name], name
    inner, text = _nest(draw, depth - 1)
    made: dict[str, Program] = {
        "grad": lambda t: func.grad(lambda u: inner(u).sum())(t),
        "vmap": lambda t: func.vmap(inner)(t) if t.dim() else inner(t),
        "columns": lambda t: func.vmap(inner, -1, -1)(t) if t.dim() > 1 else inner(t),
        "jacrev": lambda t: func.jacrev(inner)(t).sum(0) if t.dim() < 2 else inner(t),
        "jacfwd": lambda t: func.jacfwd(inner)(t).sum(-1) if t.dim() == 1 else inner(t),
        "vjp": lambda t: func.vjp(inner, t)[1](inner(t))[0],
        "jvp": lambda t: func.jvp(inner, (t,), (t.cos(),))[1],
        "then": lambda t: inner(t) * t.sum() + 1,
    }
    name = draw.choice(list(made))
    return made[name], f"{name}({text})"


@pytest.mark.parametrize("seed", range(60))
def test_random_nests(seed: int) -> None:
    draw = random.Random(seed)
    function, text = _nest(draw, draw.randint(1, 4))
    shape = draw.choice([(), (3,), (2, 3), (3, 1, 2)])
    x = torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    way = draw.choice(["eager", "jitpkg"])
    options = WAYS[way] | ({"ignore": (*HOW_COMPUTED, "idle strides")} if way == "jitpkg" else {})
    if draw.random() < 0.3:
        x.requires_grad_()
    try:
        function(x)
    except Exception:  # what torch cannot do either
        return
    Comparison(**options).assert_same(function, x)
    assert text
