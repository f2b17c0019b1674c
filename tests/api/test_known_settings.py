"""Settings that people know from torch.compile: they keep their names and meanings."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import config, errors
from jitpkg.errors import IncorrectResult

X = torch.tensor([1.0, 2.0, 4.0])
SEEN: list[int] = []


def fails(graph: Any, examples: Any) -> Any:
    raise KeyError("in the backend")


# suppress_errors, verbose


def test_errors_are_suppressed_unless_asked_for() -> None:
    with config.patch(strict=False):
        with pytest.warns(errors.JitpkgWarning, match="in the backend"):
            assert torch.equal(jitpkg.jit(lambda x: x + 1, backend=fails)(X), X + 1)
        with config.patch(suppress_errors=False):
            f = jitpkg.jit(lambda x: x + 1, backend=fails)
            for _ in range(2):
                with pytest.raises(errors.BackendError, match="in the backend"):
                    f(X)


@pytest.mark.parametrize("verbose", [False, True])
def test_a_verbose_warning_shows_the_traceback(verbose: bool) -> None:
    with (
        config.patch(strict=False, verbose=verbose),
        pytest.warns(errors.JitpkgWarning, match="in the backend") as warned,
    ):
        jitpkg.jit(lambda x: x + 1, backend=fails)(X)
    text = str(warned[0].message)
    assert ("Traceback (most recent call last)" in text) is verbose
    assert ('raise KeyError("in the backend")' in text) is verbose


# replay_side_effects


def test_side_effects_need_not_be_replayed() -> None:
    def f(x: torch.Tensor, log: list[int]) -> torch.Tensor:
        log.append(1)
        SEEN.append(2)
        return x * 2

    log: list[int] = []
    with config.patch(replay_side_effects=False):
        compiled = jitpkg.compile(f, fullgraph=True)
        assert torch.equal(compiled(X, log), X * 2)
        assert (log, SEEN) == ([], [])
    assert torch.equal(jitpkg.compile(f)(X, log), X * 2)
    assert (log, SEEN) == ([1], [2])
    SEEN.clear()


# verify_correctness


@pytest.fixture
def verified() -> Any:
    with config.patch(verify_correctness=True):
        yield


def off_by(amount: float) -> Callable[..., Any]:
    def backend(graph: Any, examples: Any) -> Any:
        return lambda *inputs: tuple(result + amount for result in graph(*inputs))

    return backend


def with_state() -> tuple[Callable[..., Any], list[int]]:
    count, kept = 0, [0]

    def f(x: torch.Tensor, log: list[Any], scale: float = 2, *args: int, **names: int) -> Any:
        nonlocal count
        count += 1
        kept.append(count)
        log.append(len(log))
        x.mul_(scale)
        SEEN.append(len(args))
        return x + torch.rand(3), count, names, random.random

    return f, kept


def test_verified_code_does_what_it_does_otherwise(verified: None) -> None:
    outcomes = []
    for compiled in (lambda f: f, jitpkg.jit, jitpkg.compile):
        f, kept = with_state()
        f = compiled(f)
        torch.manual_seed(3)
        x, log = X.clone(), []
        results = [f(x, log), f(x, log, 3, 4, 5, a=1), f(x, log)]
        outcomes.append(str((x, log, kept, results, list(SEEN), torch.rand(1))))
        SEEN.clear()
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_a_wrong_backend_is_found(verified: None) -> None:
    f = jitpkg.compile(lambda x: x * 2, backend=off_by(1))
    with pytest.raises(IncorrectResult) as caught:
        f(X)
    said = str(caught.value)
    assert said.startswith("The graph ")
    assert "result[0], values: 3 of 3 elements differ, most at [0]: 2 eagerly, 3 compiled" in said


def test_rounding_is_not_wrong(verified: None) -> None:
    f = jitpkg.compile(lambda x: x * 2, backend=off_by(1e-7))
    assert torch.allclose(f(X), X * 2)


def test_a_wrong_graph_behind_a_break_is_found(verified: None) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        print(end="")
        return y + 1

    found: list[Any] = []

    def backend(graph: Any, examples: Any) -> Any:
        found.append(graph)
        return graph if len(found) == 1 else off_by(1)(graph, examples)

    with pytest.raises(IncorrectResult, match="f#1"):
        jitpkg.jit(f, backend=backend)(X)


def test_a_wrong_effect_is_found(verified: None) -> None:
    """With this setting a compiled call forgets what it changed: the entry is wrong."""

    def f(x: torch.Tensor, log: list[int]) -> torch.Tensor:
        log.append(1)
        return x * 2

    compiled = jitpkg.compile(f)
    with config.patch(replay_side_effects=False), pytest.raises(IncorrectResult) as caught:
        compiled(X, [])
    assert "The entry " in str(caught.value)
    assert "argument log, length: 1 eagerly, 0 compiled" in str(caught.value)
    log: list[int] = []
    assert torch.equal(compiled(X, log), X * 2)  # what was wrong is gone
    assert log == [1]


def test_exceptions_are_as_otherwise(verified: None) -> None:
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (x + 1)[i]

    for compiled in (jitpkg.jit(lambda x, i: f(x, i)), jitpkg.compile(f)):
        with pytest.raises(IndexError):
            compiled(X, torch.tensor([9]))
        assert torch.equal(compiled(X, torch.tensor([1])), X[1:2] + 1)


def test_a_model_is_trained_as_otherwise(verified: None) -> None:
    states = []
    for compiled in (lambda m: m, jitpkg.compile):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)
        )
        run = compiled(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            run(torch.randn(5, 3)).sum().backward()
            optimizer.step()
        states.append(str(model.state_dict()))
    assert states[0] == states[1]


def test_what_cannot_be_copied_is_not_verified(verified: None) -> None:
    def f(x: torch.Tensor, numbers: Any) -> torch.Tensor:
        return x * next(numbers)

    assert torch.equal(jitpkg.compile(f)(X, (n for n in (3, 4))), X * 3)


# All of them


def test_they_are_few() -> None:
    assert len(config.Options.__slots__) < 20


def test_each_is_accepted() -> None:
    known = "recompile_limit verbose verify_correctness replay_side_effects suppress_errors"
    for name in known.split():
        assert hasattr(config, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.from_environment({f"JITPKG_{name.upper()}": "1" for name in known.split()})
