"""`assert_same` on what is hard to copy, and what it leaves as it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import jitpkg
from jitpkg.errors import InvalidArgument, JitpkgError
from jitpkg.testing import Comparison, NotTheSame, assert_same

COUNT = 0
KEPT: list[int] = []


class Counter:
    made = 0

    def __init__(self) -> None:
        self.n = 0


def ones(*shape: int, **settings: Any) -> torch.Tensor:
    return torch.ones(shape, **settings)


def test_arguments_alias_in_the_copy_as_in_the_original() -> None:
    x = torch.arange(12.0).view(3, 4)
    weight = torch.nn.Parameter(ones(3))
    leaf = ones(3, requires_grad=True)

    def function(*tensors: torch.Tensor) -> Any:
        return [
            (a._base is b, a is b, a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())
            for a in tensors
            for b in tensors
        ]

    arguments = (x, x[1], x.T, x.detach(), weight, weight.data, leaf, leaf[1:], leaf * 2, x, x[::2])
    layouts = [(t.shape, t.stride(), t.storage_offset(), t.requires_grad) for t in arguments]

    def with_layouts(*tensors: torch.Tensor) -> Any:
        return [(t.shape, t.stride(), t.storage_offset(), t.requires_grad) for t in tensors]

    expected = function(*arguments), layouts
    found: list[Any] = []
    same = Comparison(
        compile=lambda f: lambda *a: found.append((function(*a), with_layouts(*a))) or f(*a)
    )
    same.assert_same(lambda *tensors: None, *arguments)
    assert found == [expected, expected]


def test_a_function_that_was_given_shares_its_cells() -> None:
    def function(x: torch.Tensor, add: Callable[[int], None], log: list[int]) -> int:
        add(3)
        return log[-1]

    log: list[int] = []
    assert_same(function, ones(1), log.append, log)
    assert_same(function, ones(1), lambda n: log.append(n), log)
    assert log == []


def test_the_surroundings_are_as_before() -> None:
    def function(x: torch.Tensor) -> float:
        global COUNT
        COUNT += 1
        KEPT.append(3)
        Counter.made += 1
        torch.set_default_dtype(torch.float64)
        np.random.rand()
        return random.random() + float(torch.rand(1))

    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    assert_same(function, ones(1))
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    assert torch.equal(states[0], after[0])
    assert states[1:] == after[1:]
    assert (COUNT, KEPT, Counter.made, torch.get_default_dtype()) == (0, [], 0, torch.float32)


def test_what_cannot_be_copied_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"generator.* cannot be copied"):
        assert_same(lambda x: list(x), (n for n in range(3)))


def test_what_is_compiled_already_is_refused() -> None:
    model = torch.nn.Linear(2, 2)
    for compiled in (
        jitpkg.jit(lambda x: x + 1),
        jitpkg.compile(lambda x, n=1: x + n),
        jitpkg.compile(model),
        jitpkg.jit(model),
    ):
        with pytest.raises(InvalidArgument, match="is compiled already"):
            assert_same(compiled, ones(2))


def test_defaults_and_attributes_of_functions_are_copied_and_compared() -> None:
    def function(x: torch.Tensor, log: list[int] = []) -> torch.Tensor:  # noqa: B006
        log.append(1)
        helper.calls += 1
        return x + len(log) + helper(x)

    assert_same(function, ones(1))
    assert function.__defaults__ == ([],)
    assert helper.calls == 0
    for said, wrong in (
        ("default log, length: 1 eagerly, 2 compiled", lambda f: lambda x: (f(x), f(x))[0]),
        ("function helper.calls, value: 1 eagerly, 2 compiled", lambda f: lambda x: _again(f(x))),
    ):
        with pytest.raises(NotTheSame) as caught:
            Comparison(compile=wrong).assert_same(function, ones(1))
        assert said in str(caught.value)
    assert helper.calls == 0


def helper(x: torch.Tensor) -> torch.Tensor:
    return x * 2


helper.calls = 0  # type: ignore[attr-defined]


def _again(result: torch.Tensor) -> torch.Tensor:
    helper.calls += 1  # type: ignore[attr-defined]
    return result


def test_errors_of_jitpkg_go_through() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        print("hi")
        return x + 1

    with pytest.raises(jitpkg.errors.GraphBreak):
        Comparison(fullgraph=True).assert_same(function, ones(1))

    def backend(graph: Any, examples: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(JitpkgError, match="mine"):
        Comparison(backend=backend).assert_same(function, ones(1))


def test_a_wrong_backend_is_found() -> None:
    def wrong(graph: Any, examples: Any) -> Any:
        return lambda *inputs: tuple(result * 1.5 for result in graph(*inputs))

    with pytest.raises(NotTheSame, match=r"1 eagerly, 1\.5 compiled"):
        Comparison(backend=wrong).assert_same(lambda x: x * x, ones(1))
