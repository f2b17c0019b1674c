"""`var`, `std` and their like: whether they warn is known before they run."""

import itertools
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.facts.answers import Facts
from jitpkg.facts.tensor import facts_of
from tests.api.support import Counts

SHAPES = ((), (1,), (2,), (3,), (2, 1), (1, 3), (2, 3), (0, 2), (2, 0), (2, 1, 2))
FUNCTIONS = (torch.var, torch.std, torch.var_mean, torch.std_mean)


def arguments(dims: int) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    by_dim: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (((), {})),
        ((True,), {}),
        ((False,), {}),
        ((), {"unbiased": False}),
        ((), {"correction": 0}),
        ((), {"correction": 2}),
        ((), {"correction": None, "dim": None}),
    ]
    for dim, keepdim in itertools.product(range(dims), (False, True)):
        by_dim += [
            ((dim,), {"keepdim": keepdim}),
            ((dim, False), {"keepdim": keepdim}),
            ((dim,), {"correction": 0.5, "keepdim": keepdim}),
            (((dim,),), {"correction": 2, "keepdim": keepdim}),
        ]
    return by_dim


def really_warns(function: Any, x: torch.Tensor, args: Any, kwargs: Mapping[str, Any]) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.set_warn_always(True)
        try:
            function(x, *args, **kwargs)
        finally:
            torch.set_warn_always(False)
    return bool(caught)


@pytest.mark.parametrize("shape", SHAPES)
def test_as_torch_does(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape)
    for function, (args, kwargs) in itertools.product(FUNCTIONS, arguments(len(shape))):
        try:
            expected = really_warns(function, x, args, kwargs)
        except (RuntimeError, IndexError, TypeError):
            continue
        outcome = Facts().of_call(function.__name__, function, (facts_of(x), *args), kwargs)
        assert outcome.warns == expected, (function.__name__, args, kwargs)


class Norm(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(1, keepdim=True)
        return centred / (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt() + x.std(0)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_sizes_that_vary(backend: str) -> None:
    backend_ = Counts() if backend == "eager" else backend
    compiled = jitpkg.compile(Norm(), backend=backend_, fullgraph=True)
    for n in (3, 4, 5, 6):
        x = torch.rand(n, 4)
        torch.testing.assert_close(compiled(x), Norm()(x))
    if isinstance(backend_, Counts):
        assert len(backend_.graphs) == 2
