"""How results lie in memory, by rows or by FakeTensor put right, against the real ops: in all dims,
those of one element included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from jitpkg.facts.answers import Facts
from jitpkg.facts.outcome import NoFacts
from jitpkg.facts.tensor import facts_of
from jitpkg.testing.strategies import shapes, tensors

SHAPES = shapes(max_dims=5, max_size=3)

UNARY: dict[str, Callable[[torch.Tensor], Any]] = {
    **{
        name: getattr(torch, name)
        for name in """
            abs neg exp sin sigmoid round isnan isinf isposinf isneginf isfinite signbit logit
            nan_to_num square clone zeros_like empty_like ones_like relu sgn i0 erfinv
            logical_not
        """.split()
    },
    **{name: getattr(F, name) for name in "relu6 hardtanh gelu elu softsign logsigmoid".split()},
    "double": torch.Tensor.double,
    "flip": lambda x: x.flip(list(range(x.dim()))),
    "sort": lambda x: x.sort(),
    "add number": lambda x: x + 1,
    "number less": lambda x: 2 - x,
    "clamp": lambda x: x.clamp(0, 1),
    "full_like": lambda x: torch.full_like(x, 2),
}

BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    name: getattr(torch, name)
    for name in """
        add sub rsub mul div maximum fmax heaviside hypot copysign nextafter xlogy logaddexp atan2
        fmod remainder lt eq isclose logical_xor
    """.split()
}


def agrees(name: str, call: Callable[..., Any], *given: torch.Tensor) -> None:
    try:
        real = call(*given)
    except (RuntimeError, IndexError):
        return
    try:
        made = Facts().of_call(name, call, tuple(map(facts_of, given)), {}).result
    except NoFacts:
        return
    every = [real] if isinstance(real, torch.Tensor) else list(real)
    known = [made] if isinstance(real, torch.Tensor) else list(made)
    for one, other in zip(known, every, strict=True):
        assert (one.dtype, one.size) == (other.dtype, other.shape)
        assert not other.numel() or one.stride == other.stride()


def any_tensor(shape: st.SearchStrategy[tuple[int, ...]]) -> st.SearchStrategy[torch.Tensor]:
    return tensors(dtype=torch.float32, shape=shape, requires_grad=False)


@pytest.mark.parametrize("name", UNARY)
@settings(deadline=None)
@given(any_tensor(SHAPES))
def test_of_one_tensor(name: str, x: torch.Tensor) -> None:
    agrees(name, UNARY[name], x)


@pytest.mark.parametrize("name", BINARY)
@settings(deadline=None)
@given(st.data())
def test_of_two_tensors(name: str, data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    smaller = tuple(data.draw(st.sampled_from([n, 1])) for n in shape)
    missing = data.draw(st.integers(0, len(shape)))
    x = data.draw(any_tensor(st.just(shape)))
    y = data.draw(any_tensor(st.just(smaller[missing:])))
    agrees(name, BINARY[name], *data.draw(st.permutations([x, y])))
