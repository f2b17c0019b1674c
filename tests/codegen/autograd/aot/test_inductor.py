"""The backend `inductor`: torch's compiler of graphs, with `mode=` and `options=`."""

import functools
import shutil
from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg import errors
from jitpkg.internals import aot

X = torch.linspace(-1, 1, 6).reshape(2, 3)


@functools.cache
def why_not() -> str:
    """Why Inductor cannot make code for the CPU here; nothing where it can."""
    if not any(map(shutil.which, ("g++", "clang++", "c++"))):
        return "there is no C++ compiler"
    try:
        torch.compile(lambda x: x.sin() + 1)(torch.ones(3))
    except Exception as error:
        return f"Inductor itself does not work here: {type(error).__name__}"
    return ""


@pytest.fixture
def works() -> None:
    if why_not():
        pytest.skip(why_not())


def inductor(f: Any, **settings: Any) -> Any:
    return jitpkg.jit(f, backend="inductor", **settings)


def test_training(works: None) -> None:
    def losses(compile_: Any) -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Dropout(0.2), nn.Linear(4, 2))
        compiled = compile_(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        found = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = compiled(X).square().sum()
            loss.backward()
            optimizer.step()
            found.append(loss.detach())
        return [*found, *net.parameters(), torch.rand(2)]

    with jitpkg.config.patch(strict=True):
        found = losses(inductor)
    for a, b in zip(losses(lambda net: net), found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)


def test_inputs_that_are_written_to(works: None) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + y

    compiled = inductor(f)
    x = torch.ones(3)
    assert compiled(x, torch.ones(3)).tolist() == [3, 3, 3]
    assert x.tolist() == [2, 2, 2]
    both = torch.ones(3)
    assert (
        compiled(both[:2], both[1:]).tolist() == f(torch.ones(2), torch.tensor([2.0, 1.0])).tolist()
    )


def test_a_mode_and_options_reach_inductor(works: None) -> None:
    for settings in (
        {"mode": "max-autotune-no-cudagraphs"},
        {"options": {"epilogue_fusion": True}},
    ):
        f = inductor(lambda x: x.sin() + 1, **settings)
        torch.testing.assert_close(f(X), X.sin() + 1)


def test_modes_are_inductor_s_own() -> None:
    plain = jitpkg.codegen.backends.REGISTRY.find("inductor")
    assert plain.configured("max-autotune-no-cudagraphs", None).options["max_autotune"] is True
    assert plain.configured("default", None).options == plain.options
    assert plain.configured(None, {"max-autotune": True}).options["max_autotune"] is True


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_autotun": True}, "has no option 'max_autotun'. Do you mean 'max_autotune'"),
        ({"max_autotune": 3}, "'max_autotune' takes bool, not 3"),
    ],
)
def test_bad_options_are_refused_at_once(options: dict[str, Any], text: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=text):
        inductor(lambda x: x, options=options)


def test_a_failing_compiler_leaves_the_program_running(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no C++ compiler here")

    jitpkg.codegen.backends.REGISTRY.find("inductor")
    monkeypatch.setattr(aot.COMPILE_HALF, "get", lambda: broken)
    f = inductor(lambda x: x.cos() * 3)
    with jitpkg.config.patch(strict=False), pytest.warns(UserWarning, match=r"no C\+\+ compiler"):
        torch.testing.assert_close(f(X), X.cos() * 3)


def test_sizes_that_vary_are_one_compilation(works: None) -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> Any:
        return (x @ w).relu() * x.shape[0], x.sqrt()

    compiled, graphs = inductor(f), []
    with jitpkg.events.STREAM.listening(graphs.append):
        for n in (4, 5, 8, 3, 9):
            x = torch.rand(n, 3, requires_grad=True)
            w = torch.rand(3, 2, requires_grad=True)
            expected, found = f(x, w), compiled(x, w)
            torch.testing.assert_close(found, expected)
            both = [torch.autograd.grad(a.sum() + b.sum(), [x, w]) for a, b in (expected, found)]
            torch.testing.assert_close(both[1], both[0])
    assert sum(isinstance(event, jitpkg.events.GraphCompiled) for event in graphs) == 2


def test_only_what_was_used_has_gradients(works: None) -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> Any:
        return (x @ w).relu(), x.sqrt()

    compiled = inductor(f)
    for n in (4, 5, 6):
        for used in (1, 0):
            found = []
            x, w = torch.rand(n, 3, requires_grad=True), torch.rand(3, 2, requires_grad=True)
            for function in (f, compiled):
                x.grad = w.grad = None
                function(x, w)[used].sum().backward()
                found.append([x.grad, w.grad])
            torch.testing.assert_close(found[1], found[0])


def test_a_graph_that_was_compiled_before(works: None) -> None:
    """AOTAutograd's cache says nothing of what it has kept, without which nothing is safe."""
    declined: list[str] = []

    def listen(event: jitpkg.events.Event) -> None:
        if isinstance(event, jitpkg.events.Declined):
            declined.append(event.why)

    for _ in range(2):
        with torch.no_grad(), jitpkg.events.STREAM.listening(listen):
            assert torch.equal(jitpkg.compile(lambda x: x + 1, backend="inductor")(X), X + 1)
    assert declined == []
