"""Inference mode that is entered, or left, inside a compiled function."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import jitpkg
from jitpkg.facts import thread_state
from jitpkg.testing import Comparison, call
from jitpkg.testing.programs.modes import HOW_COMPUTED
from tests.tracer.nests import Drawn, nest

Program = Callable[..., Any]

WAYS: dict[str, dict[str, Any]] = {
    "eager": {},
    "jitpkg": {"backend": "jitpkg", "ignore": HOW_COMPUTED, "relative": 1e-5},
    "aot_eager": {"backend": "aot_eager", "ignore": HOW_COMPUTED, "relative": 1e-5},
    "custom": {"backend": lambda gm, inputs: gm.forward},
    "breaks": {"settings": {"disturb": "break"}},
    "dynamic": {"dynamic": True},
}

NET = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4, 2))
NORM = nn.BatchNorm1d(3)
WEIGHT = torch.linspace(-1, 1, 9).reshape(3, 3).requires_grad_()


@torch.inference_mode()
def decorated(x: Any) -> Any:
    return NET(x).softmax(-1)


@torch.inference_mode
def decorated_without_call(x: Any) -> Any:
    return NET(x) * 2


@torch.inference_mode(False)
def decorated_off(x: Any) -> Any:
    return (x @ WEIGHT).sum(), torch.is_inference_mode_enabled()


def block(x: Any) -> Any:
    with torch.inference_mode():
        y = NET(x)
    return y.argmax(-1)


def nothing_inside(x: Any) -> Any:
    with torch.inference_mode():
        pass
    return x @ WEIGHT


def what_is_made(x: Any) -> Any:
    with torch.inference_mode():
        y = x * 2
        view = x[0]
    return y.is_inference(), view.is_inference(), y + 1, view


def asked(x: Any) -> Any:
    before = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    with torch.inference_mode():
        inside = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        y = x + 1
    return before, inside, torch.is_inference_mode_enabled(), torch.is_grad_enabled(), y


def before_and_after(x: Any) -> Any:
    y = x @ WEIGHT
    with torch.inference_mode():
        best = y.argmax(-1)
    return y.sum(), functional.one_hot(best, 3).sum(0)


def trained_beside(x: Any) -> Any:
    with torch.inference_mode():
        scale = (x * x).sum()
    return (x @ WEIGHT).sum() * scale.clone().item()


def off_inside(x: Any) -> Any:
    with torch.inference_mode():
        y = x * 2
        with torch.inference_mode(False):
            z = x * 3
            inside = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        w = x * 4
    return y.is_inference(), z.is_inference(), w.is_inference(), inside, z, w


def grad_mode_inside(x: Any) -> Any:
    with torch.inference_mode():
        with torch.no_grad():
            y = x * 2
        with torch.enable_grad():
            z = x @ WEIGHT
        asked = torch.is_grad_enabled()
    return y, z, z.requires_grad, asked


def no_grad_around(x: Any) -> Any:
    with torch.no_grad():
        with torch.inference_mode():
            y = x @ WEIGHT
        z = x @ WEIGHT
        return y, z, torch.is_grad_enabled()


def in_a_loop(x: Any) -> Any:
    total = x.sum(0)
    for row in x:
        with torch.inference_mode():
            total = total + row
    return total


def returned_from_inside(x: Any) -> Any:
    with torch.inference_mode():
        if x.shape[0] > 1:
            return x + 1
    return x


def raised_inside(x: Any) -> Any:
    try:
        with torch.inference_mode():
            y = x * 2
            raise KeyError("inside")
    except KeyError:
        return y, torch.is_inference_mode_enabled(), torch.is_grad_enabled()


def raised_out(x: Any) -> Any:
    with torch.inference_mode():
        x * 2
        raise KeyError("inside")


def an_op_fails(x: Any) -> Any:
    with torch.inference_mode():
        return x[torch.arange(9)] + 1


def an_op_fails_and_is_caught(x: Any) -> Any:
    try:
        with torch.inference_mode():
            y = x[x.long().abs() + 7]
    except IndexError:
        return x + 1, torch.is_inference_mode_enabled()
    return y


def printed_inside(x: Any) -> Any:
    with torch.inference_mode():
        y = x * 2
        print("inside")
        z = y + 1
        inside = torch.is_inference_mode_enabled()
    return z.is_inference(), inside, torch.is_inference_mode_enabled(), z


def printed_off_inside(x: Any) -> Any:
    with torch.inference_mode():
        with torch.inference_mode(False):
            print("inside")
            y = x * 2
        z = x * 3
    return y.is_inference(), z.is_inference(), torch.is_inference_mode_enabled()


def decided_inside(x: Any) -> Any:
    with torch.inference_mode():
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1


def numbers_inside(x: Any) -> Any:
    with torch.inference_mode():
        loss = (x * x).mean()
        return {"loss": loss.item(), "all": x.sum(0).tolist()}


def a_number_that_goes_on(x: Any) -> Any:
    with torch.inference_mode():
        scale = x.abs().max().item()
    return x * scale


def writes_inside(x: Any) -> Any:
    with torch.inference_mode():
        x.mul_(2)
        x[0] = 7
        return x + 1


def writes_to_what_was_made(x: Any) -> Any:
    y = x * 2
    with torch.inference_mode():
        y.add_(1)
    return y


def writes_outside(x: Any) -> Any:
    with torch.inference_mode():
        y = x * 2
    y.add_(1)
    return y


def saved_for_backward(x: Any) -> Any:
    with torch.inference_mode():
        y = x * 2
    return (y @ WEIGHT).sum()


def statistics(x: Any) -> Any:
    with torch.inference_mode():
        return NORM(x)


def random_numbers(x: Any) -> Any:
    with torch.inference_mode():
        y = functional.dropout(x, 0.5) + torch.rand(3)
    return y, torch.rand(2)


def under_autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        return x @ WEIGHT


def autocast_inside(x: Any) -> Any:
    with torch.inference_mode():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ WEIGHT
        z = x @ WEIGHT
    return y, z


def by_hand(x: Any) -> Any:
    mode = torch.inference_mode()
    mode.__enter__()
    y = x * 2
    mode.__exit__(None, None, None)
    return y, torch.is_inference_mode_enabled()


def a_chosen_mode(x: Any) -> Any:
    made = []
    for mode in (True, False):
        with torch.inference_mode(mode):
            made.append((x @ WEIGHT).requires_grad)
    return made


def generated(x: Any) -> Any:
    def rows() -> Iterator[Any]:
        with torch.inference_mode():
            for row in x:
                yield row * 2

    return [row + 1 for row in rows()]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = NET
        self.seen = 0

    def forward(self, x: Any) -> Any:
        return self.net(x)

    @torch.inference_mode()
    def predict(self, x: Any) -> Any:
        self.seen += 1
        return self(x).argmax(-1)


MODEL = Model()


def of_a_model(x: Any) -> Any:
    return MODEL.predict(x)


ONE_GRAPH: dict[str, Program] = {
    program.__name__: program
    for program in (
        *(decorated, decorated_without_call, decorated_off, block, nothing_inside, what_is_made),
        *(asked, before_and_after, off_inside, grad_mode_inside, no_grad_around, in_a_loop),
        *(returned_from_inside, raised_inside, numbers_inside, a_number_that_goes_on),
        *(writes_inside, statistics, random_numbers, under_autocast, autocast_inside),
        *(by_hand, a_chosen_mode, of_a_model, trained_beside),
    )
}
OTHERS: dict[str, Program] = {
    program.__name__: program
    for program in (
        *(raised_out, an_op_fails, an_op_fails_and_is_caught, printed_inside, printed_off_inside),
        *(decided_inside, writes_to_what_was_made, writes_outside, saved_for_backward, generated),
    )
}
PROGRAMS = ONE_GRAPH | OTHERS


def given() -> Any:
    return torch.linspace(-1, 2, 6).reshape(2, 3)


@pytest.fixture(autouse=True)
def _left() -> Iterator[None]:
    """Nothing stays entered."""
    yield
    assert not thread_state.contexts().inference
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager_code(name: str, way: str) -> None:
    Comparison(**WAYS[way]).assert_same(PROGRAMS[name], given())


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("around", ["inference mode", "no grad", "inference mode off"])
def test_within(around: str, name: str, way: str) -> None:
    """A mode is on where the compiled function is called."""
    program = PROGRAMS[name]

    def called(x: Any) -> Any:
        return contexts[around](compiled)(x)

    contexts: dict[str, Any] = {
        "inference mode": torch.inference_mode(),
        "no grad": torch.no_grad(),
        "inference mode off": torch.inference_mode(False),
    }
    compiled = program
    expected = _outcome(called)
    compiled = jitpkg.compile(program, backend=way)
    for _ in range(2):
        assert _shown(_outcome(called)) == _shown(expected)


def _shown(outcome: Any) -> str:
    """Without the names of gradients' functions."""
    return re.sub("grad_fn=<[A-Za-z0-9]*>", "grad_fn", str(outcome))


def _outcome(function: Program) -> Any:
    torch.manual_seed(0)
    NORM.reset_running_stats()
    MODEL.seen = 0
    try:
        return function(given())
    except (RuntimeError, KeyError, IndexError) as error:
        return type(error)


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name: str, way: str) -> None:
    program = ONE_GRAPH[name]
    explained = jitpkg.explain(program, backend=way)(given())
    assert explained.graph_break_count == 0
    assert explained.graph_count <= 1
    if name not in LEFT:
        assert not explained.declined


LEFT = ("a_number_that_goes_on", "trained_beside", "under_autocast")
"""What has no kernels: a number of one part is used in another, or a part is under autocast."""


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_that_vary(name: str, way: str) -> None:
    calls = [call(torch.linspace(-1, 2, 3 * n).reshape(n, 3)) for n in (2, 3, 4, 5)]
    Comparison(**WAYS[way]).assert_same_calls(PROGRAMS[name], *calls)


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_inputs_of_other_kinds(name: str, way: str) -> None:
    """Leaves, tensors with a history, tensors of inference mode, one after the other."""
    with torch.inference_mode():
        made_there = given()
    leaf = given().requires_grad_()
    kinds = [given(), leaf, leaf * 1, made_there]
    Comparison(**WAYS[way]).assert_same_calls(PROGRAMS[name], *map(call, kinds))


def test_kernels_are_made() -> None:
    def program(x: Any) -> Any:
        with torch.inference_mode():
            return (x.sin() + 1).cos() * x

    explained = jitpkg.explain(program, backend="jitpkg")(given())
    assert len(explained.kernels) == 1


def test_a_gradient_is_computed_beside() -> None:
    @jitpkg.jit(backend="jitpkg")
    def step(x: Any) -> Any:
        loss = (x @ WEIGHT).square().sum()
        with torch.inference_mode():
            accuracy = (x > 0).float().mean()
        return loss, accuracy

    loss, accuracy = step(given())
    loss.backward()
    expected = torch.autograd.grad((given() @ WEIGHT).square().sum(), WEIGHT)[0]
    assert WEIGHT.grad is not None
    torch.testing.assert_close(WEIGHT.grad, expected)
    assert accuracy.is_inference()
    WEIGHT.grad = None


# Random nests

_OPS = ("x * 2", "x @ W", "y.detach() + x", "x[:1]")


_STATEMENTS: dict[str, Drawn] = {
    "op": lambda draw: f"y = {draw.choice(_OPS)}",
    "asked": lambda draw: "seen.append((y.is_inference(), y.requires_grad, modes()))",
    "break": lambda draw: "print(len(seen))",
}
_CONTEXTS: dict[str, Drawn] = {
    "mode": lambda draw: f"torch.inference_mode({draw.random() < 0.7})",
    "grad": lambda draw: f"torch.set_grad_enabled({draw.random() < 0.5})",
    "raise": lambda draw: f"torch.inference_mode({draw.random() < 0.5})",
}
_KINDS = ("op", "op", "asked", "mode", "mode", "grad", "break", "raise")


@pytest.mark.parametrize("seed", range(60))
def test_random_nests(seed: int) -> None:
    draw = random.Random(seed)
    lines = ["def program(x):", "    y, seen = x, []"]
    nested = nest(draw, 3, _KINDS, _STATEMENTS, _CONTEXTS, "modes()")
    lines += [f"    {line}" for line in nested]
    lines.append("    seen.append(modes())")
    lines.append("    return y, seen")
    source = "\n".join(lines)
    namespace: dict[str, Any] = {
        "torch": torch,
        "W": WEIGHT,
        "modes": lambda: (torch.is_inference_mode_enabled(), torch.is_grad_enabled()),
    }
    exec(compile(source, f"<nest {seed}>", "exec"), namespace)
    way = draw.choice(["eager", "jitpkg", "breaks", "custom"])
    x = given()
    with suppress(RuntimeError):
        namespace["program"](x)
    Comparison(**WAYS[way]).assert_same(namespace["program"], x)
