"""Numbers that a dtype cannot hold, or an op does not take: as in eager code."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.internals.ops import OpOverload, schema
from jitpkg.testing import Comparison, call
from tests.codegen.test_refused_dtypes import differing, given, overloads
from tests.native.support import needs_llvm

FILLING: dict[str, Callable[[Tensor, float], Any]] = {
    "fill_": lambda x, n: x.fill_(n),
    "setitem": lambda x, n: x.__setitem__(slice(None), n),
    "mask": lambda x, n: x.__setitem__(x > 0, n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([0]), n),
    "scatter": lambda x, n: x.scatter(0, torch.tensor([0]), n),
    "full_like": lambda x, n: torch.full_like(x, n),
    "new_full": lambda x, n: x.new_full((2,), n),
    "full": lambda x, n: torch.full((2,), n, dtype=x.dtype),
    "pad": lambda x, n: torch.nn.functional.pad(x, (1, 1), value=n),
}


@needs_llvm
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64])
@pytest.mark.parametrize("name", FILLING)
def test_as_eager(name: str, dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    numbers = [-0.5, info.min - 0.5, info.max + 0.5, info.max + 1.0, 2.0**64, -1, -300, 300, -1.9]
    comparison = Comparison(
        backend="jitpkg", ignore=("grad_fn", "version", "view", "traceback"), backward=False
    )
    for number in [*numbers, float("nan"), float("inf"), 0.5]:

        def program(x: Tensor, number: float = number) -> Any:
            return FILLING[name](x, number)

        comparison.assert_same_calls(program, call(torch.ones(2, dtype=dtype)))


ODD: dict[str, tuple[Any, ...]] = {
    "number": (0.0, -1.0, True, 2j),
    "float": (0.0, -1.0, True),
    "Optional[float]": (0.0, -1.0),
    "Optional[number]": (0.0, -1.0, True),
    "str": ("odd",),
    "Optional[str]": ("odd",),
}
"""Values of arguments, by their types."""


def with_odd_numbers() -> Iterator[tuple[OpOverload, list[Any], dict[str, Any]]]:
    """Calls of ops with one such argument each."""
    for op in overloads():
        arguments = schema(op).arguments
        kinds = {a.name: str(a.type) for a in arguments if not a.has_default_value()}
        tensors = (torch.float32, torch.int64, torch.bool)
        for dtype, argument in itertools.product(tensors, arguments):
            values = {
                name: given(kind, dtype if "Tensor" in kind else None)
                for name, kind in kinds.items()
            }
            values |= {name: 0.5 for name, kind in kinds.items() if kind == "number"}
            for odd in ODD.get(str(argument.type), ()):
                named = values | {argument.name: odd}
                if all(named[name] is not None for name in kinds):
                    places = [a.name for a in arguments if a.name in kinds and not a.kwarg_only]
                    yield op, [named.pop(name) for name in places], named


@needs_llvm
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(2))
def test_arguments_that_no_op_takes(part: int) -> None:
    found = [
        differing(partial(op, **named), values, name=f"{op}, {named}")
        for op, values, named in itertools.islice(with_odd_numbers(), part, None, 2)
    ]
    assert len(found) > 100
    assert not [each for each in found if each]
