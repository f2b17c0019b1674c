"""Steps of `torch.optim`: one graph, and what eager code computes, bit for bit."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

import jitpkg
from jitpkg import events
from jitpkg.testing import Comparison
from tests.optimizers import EVERY, Run, give_gradients, made, named, train

ROOT = Path(__file__).parents[2]
Options = dict[str, Any]


def same(a: Run, b: Run) -> None:
    for mine, theirs in zip(a.parameters, b.parameters, strict=True):
        assert torch.equal(mine, theirs)
        assert mine._version == theirs._version
    for (name, x, v), (other, y, w) in zip(a.state(), b.state(), strict=True):
        assert (name, v) == (other, w)
        assert torch.equal(torch.as_tensor(x), torch.as_tensor(y)), name


def compiled_step(run: Run, *, alone: bool) -> Callable[[], Any]:
    if alone:
        return jitpkg.compile(run.optimizer.step, backend="eager")
    function = jitpkg.compile(lambda optimizer: optimizer.step(), backend="eager")
    return lambda: function(run.optimizer)


@pytest.mark.parametrize("alone", [False, True], ids=["in a function", "alone"])
@pytest.mark.parametrize("case", EVERY, ids=named)
def test_steps(case: tuple[str, Options], alone: bool) -> None:
    """The second step finds state, and the second learning rate varies from there on."""
    eagerly = made(*case)
    train(eagerly, eagerly.optimizer.step)
    compiled = made(*case)
    train(compiled, compiled_step(compiled, alone=alone))
    same(compiled, eagerly)
    assert not compiled.broke
    assert max(compiled.graphs) == 1
    # RAdam goes another way from its sixth step on.
    assert sum(compiled.graphs[3:]) <= (case[0] == "RAdam")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ["SGD", "Adam", "NAdam"])
def test_other_classes_of_numbers(name: str, dtype: torch.dtype) -> None:
    eagerly = made(name, {}, dtype)
    train(eagerly, eagerly.optimizer.step, 5)
    compiled = made(name, {}, dtype)
    train(compiled, compiled_step(compiled, alone=False), 5)
    same(compiled, eagerly)
    assert not compiled.broke


@pytest.mark.parametrize(
    ("name", "options"),
    [("LBFGS", {}), ("Adafactor", {}), ("Adafactor", {"foreach": True})],
    ids=lambda case: str(case),
)
def test_those_that_ask_for_data_are_called_for_real(name: str, options: Options) -> None:
    def run(compile_: Callable[[Any], Any]) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1, **options)
        x = torch.randn(5, 4)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        step = compile_(lambda: optimizer.step(closure))
        losses = [step().detach().clone() for _ in range(3)]
        return [*losses, *(p.detach() for p in model.parameters())]

    heard: list[events.Event] = []
    eagerly = run(lambda f: f)
    with events.STREAM.listening(heard.append):
        compiled = run(lambda f: jitpkg.compile(f, backend="eager"))
    assert all(map(torch.equal, eagerly, compiled))
    (broke,) = {e.graph_break.detail for e in heard if isinstance(e, events.Broke)}
    assert broke.endswith(f"{name}.step")


# What changes between the steps


def _half(optimizer: Optimizer) -> None:
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def _more(optimizer: Optimizer) -> None:
    torch.manual_seed(1)
    weight = nn.Parameter(torch.randn(2))
    weight.grad = torch.ones(2)
    optimizer.add_param_group({"params": [weight], "lr": 0.5})


def _freeze(optimizer: Optimizer) -> None:
    optimizer.param_groups[0]["params"][0].grad = None


def _betas(optimizer: Optimizer) -> None:
    optimizer.param_groups[0]["betas"] = (0.8, 0.99)


def _counters(optimizer: Optimizer) -> None:
    for state in optimizer.state.values():
        state["step"] = torch.tensor(1000.0)


def _double_counters(optimizer: Optimizer) -> None:
    for state in optimizer.state.values():
        state["step"] = state["step"].double()


def _one_counter(optimizer: Optimizer) -> None:
    """For all: after each update it is one more for the next."""
    shared = torch.tensor(3.0)
    for state in optimizer.state.values():
        state["step"] = shared


def _views_of_one(optimizer: Optimizer) -> None:
    """What is counted for one is seen by another."""
    numbers = torch.full((2,), 3.0)
    for k, state in enumerate(optimizer.state.values()):
        state["step"] = numbers[k % 2]


def _rate_as_tensor(optimizer: Optimizer) -> None:
    optimizer.param_groups[0]["lr"] = torch.tensor(0.25)


def _forget(optimizer: Optimizer) -> None:
    optimizer.state.clear()


CHANGES = [
    *(_half, _more, _freeze, _betas, _counters, _double_counters, _one_counter, _views_of_one),
    *(_rate_as_tensor, _forget),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("options", [{}, {"foreach": True}], ids=str)
def test_changes_between_steps(change: Callable[[Optimizer], None], options: Options) -> None:
    if options and change is _rate_as_tensor:
        pytest.skip("eager code refuses it")

    def run(step_of: Callable[[Run], Callable[[], Any]]) -> Run:
        run = made("Adam", options)
        step = step_of(run)
        for k in range(8):
            give_gradients(run.parameters, k)
            if k == 4:
                change(run.optimizer)
            step()
        return run

    same(run(lambda run: compiled_step(run, alone=False)), run(lambda run: run.optimizer.step))


def test_an_entry_is_for_other_models_too() -> None:
    """State is found by the paths to the parameters."""
    function = jitpkg.compile(lambda optimizer: optimizer.step(), backend="eager")
    graphs = []
    for _ in range(3):
        run = made("Adam", {})
        train(run, lambda run=run: function(run.optimizer), 3, gamma=1.0)
        graphs.append(sum(run.graphs))
    assert graphs == [2, 0, 0]


def test_hooks_of_steps() -> None:
    def run(compile_: Callable[[Any], Any]) -> list[Any]:
        seen: list[Any] = []
        of = made("SGD", {"momentum": 0.5})
        of.optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", args)))
        of.optimizer.register_step_post_hook(
            lambda o, args, kwargs: seen.append(("after", len(o.state)))
        )
        train(of, compile_(lambda: of.optimizer.step()), 3)
        return [
            [what if what == "after" else (what, len(rest)) for what, rest in seen],
            *of.parameters,
        ]

    eagerly, *theirs = run(lambda f: f)
    seen, *mine = run(lambda f: jitpkg.compile(f, backend="eager"))
    assert seen == eagerly
    assert all(map(torch.equal, mine, theirs))


def test_a_closure() -> None:
    def run(compile_: Callable[[Any], Any]) -> list[Tensor]:
        torch.manual_seed(0)
        weight = nn.Parameter(torch.randn(3))
        optimizer = SGD([weight], lr=0.1)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = weight.square().sum()
            loss.backward()
            return loss

        step = compile_(lambda: optimizer.step(closure))
        return [*(step().detach().clone() for _ in range(3)), weight.detach()]

    assert all(
        map(torch.equal, run(lambda f: f), run(lambda f: jitpkg.compile(f, backend="eager")))
    )


BESIDE_DYNAMO = """
import torch, jitpkg
from jitpkg import events
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
from tests.optimizers import made, train
CASES = [("SGD", {"momentum": 0.9}), ("AdamW", {"foreach": True}), ("Adam", {"fused": True})]
for name, options in CASES:
    run, eagerly = made(name, options), made(name, options)
    def step(optimizer):
        optimizer.step()
        optimizer.zero_grad()
    def again(run, function):
        def call():
            function(run.optimizer)
        return call
    train(run, again(run, jitpkg.compile(step, backend="eager")), 4)
    train(eagerly, again(eagerly, step), 4)
    assert not run.broke, run.broke
    assert all(map(torch.equal, run.parameters, eagerly.parameters))
    assert [a for a, _, _ in run.state()] == [a for a, _, _ in eagerly.state()]
"""


def test_where_torch_compile_has_been_used() -> None:
    """It hides some methods of optimizers from itself."""
    done = subprocess.run(
        [sys.executable, "-c", BESIDE_DYNAMO], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_what_an_optimizer_refuses() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    optimizer = Adam([weight], capturable=True)
    step = jitpkg.compile(lambda: optimizer.step(), backend="eager")
    with pytest.raises(AssertionError, match="capturable"):
        step()
    sparse = nn.Embedding(4, 2, sparse=True)
    sparse(torch.tensor([1])).sum().backward()
    optimizer = Adam(sparse.parameters())
    with pytest.raises(RuntimeError, match="sparse"):
        step()


def test_grad_mode_stays_as_it_was() -> None:
    run = made("SGD", {})
    give_gradients(run.parameters, 0)

    def program(x: Tensor) -> tuple[bool, Tensor]:
        run.optimizer.step()
        return torch.is_grad_enabled(), x * run.parameters[0].sum()

    step = jitpkg.compile(program, backend="eager")
    with torch.no_grad():
        assert not step(torch.ones(1))[0]
    enabled, result = step(torch.ones(1))
    assert enabled and result.requires_grad


def test_a_differentiable_step() -> None:
    def program(weight: Tensor, gradient: Tensor) -> Tensor:
        moved = weight.clone()
        moved.grad = gradient
        optimizer = SGD([moved], lr=0.1, differentiable=True)
        optimizer.step()
        return moved

    Comparison().assert_same(
        program, torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    )


def test_clipping_and_a_step_are_one_graph() -> None:
    def run(compile_: Callable[[Any], Any]) -> tuple[list[Tensor], list[events.Event]]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = AdamW(model.parameters(), lr=0.01)

        def update() -> Tensor:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            return norm

        step = compile_(update)
        norms: list[Tensor] = []
        heard: list[events.Event] = []
        with events.STREAM.listening(heard.append):
            for _ in range(4):
                model(torch.randn(5, 4)).square().mean().backward()
                norms.append(step())
                optimizer.zero_grad()
        return [*norms, *(p.detach() for p in model.parameters())], heard

    eagerly, _ = run(lambda f: f)
    compiled, heard = run(lambda f: jitpkg.compile(f, backend="eager"))
    assert all(map(torch.equal, eagerly, compiled))
    assert not [e for e in heard if isinstance(e, events.Broke)]
    assert sum(isinstance(e, events.GraphCompiled) for e in heard) == 2


def test_a_whole_step_breaks_where_it_goes_backward_only() -> None:
    def run(compile_: Callable[[Any], Any]) -> tuple[list[Tensor], list[events.Event]]:
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        optimizer = Adam(model.parameters(), lr=0.01)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        train_ = compile_(step)
        heard: list[events.Event] = []
        with events.STREAM.listening(heard.append), warnings.catch_warnings():
            warnings.simplefilter("error", jitpkg.errors.JitpkgWarning)
            losses = [train_(torch.randn(5, 4)).detach() for _ in range(5)]
        return [*losses, *(p.detach() for p in model.parameters())], heard

    eagerly, _ = run(lambda f: f)
    compiled, _ = run(lambda f: jitpkg.compile(f, backend="eager"))
    assert all(map(torch.equal, eagerly, compiled))
