"""Where a tensor is that a call makes for which a device is named, in any way to name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.facts.answers import Facts
from jitpkg.facts.tensor import TensorFacts, facts_of

FACTS = Facts()
X = torch.ones(2, 3)

DEVICES = (
    "cpu",
    "cpu:0",
    "meta",
    torch.device("cpu"),
    torch.device("cpu", 0),
    torch.device("meta"),
)

MADE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "arange": (torch.arange, (3,)),
    "as_tensor": (torch.as_tensor, ([1.5],)),
    "empty": (torch.empty, (2,)),
    "empty_like": (torch.empty_like, (X,)),
    "empty_strided": (torch.empty_strided, ((2, 3), (3, 1))),
    "eye": (torch.eye, (2,)),
    "full": (torch.full, ((2,), 1.5)),
    "full_like": (torch.full_like, (X, 1.5)),
    "hann_window": (torch.hann_window, (3,)),
    "linspace": (torch.linspace, (0, 1, 3)),
    "logspace": (torch.logspace, (0, 1, 3)),
    "new_empty": (torch.Tensor.new_empty, (X, 2)),
    "new_full": (torch.Tensor.new_full, (X, (2,), 1.5)),
    "new_ones": (torch.Tensor.new_ones, (X, 2)),
    "new_tensor": (torch.Tensor.new_tensor, (X, [1.5])),
    "new_zeros": (torch.Tensor.new_zeros, (X, 2)),
    "ones": (torch.ones, (2,)),
    "ones_like": (torch.ones_like, (X,)),
    "rand": (torch.rand, (2,)),
    "rand_like": (torch.rand_like, (X,)),
    "randint": (torch.randint, (0, 9, (2,))),
    "randint_like": (torch.randint_like, (X, 9)),
    "randn": (torch.randn, (2,)),
    "randn_like": (torch.randn_like, (X,)),
    "randperm": (torch.randperm, (3,)),
    "scalar_tensor": (torch.scalar_tensor, (2.5,)),
    "tensor": (torch.tensor, ([1, 2],)),
    "to": (torch.Tensor.to, (X,)),
    "tril_indices": (torch.tril_indices, (2, 2)),
    "zeros": (torch.zeros, (2,)),
    "zeros_like": (torch.zeros_like, (X,)),
}


def _given(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(facts_of(arg) if isinstance(arg, torch.Tensor) else arg for arg in args)


@pytest.mark.parametrize("device", DEVICES, ids=repr)
@pytest.mark.parametrize("name", MADE)
def test_by_keyword(name: str, device: Any) -> None:
    call, args = MADE[name]
    made = FACTS.of_call(name, call, _given(args), {"device": device}).result
    if isinstance(made, TensorFacts):  # else it is the argument, which is there already
        assert made == facts_of(call(*args, device=device))
    else:
        assert call(*args, device=device) is args[0]


@pytest.mark.parametrize("device", DEVICES, ids=repr)
def test_moved(device: Any) -> None:
    made = FACTS.of_call("to", torch.Tensor.to, (facts_of(X), device, torch.float64), {}).result
    assert made == facts_of(X.to(device, torch.float64))
