"""What random programs have found, one test each."""

import functools
from typing import Any

import torch

from jitpkg.testing import Comparison, assert_same


def test_a_wrapper_of_a_method_in_c() -> None:
    """A method of a class in C has no `__module__`, which functools.wraps asks for."""

    def wrapped(x: torch.Tensor) -> Any:
        @functools.wraps(torch.Tensor.abs)
        def wrapper(y: torch.Tensor) -> Any:
            return torch.Tensor.abs(y)

        return wrapper(x), wrapper.__name__, getattr(torch.Tensor.abs, "__module__", "none")

    assert_same(wrapped, torch.tensor([-1.0]))


def test_the_largest_of_nothing_behind_a_write() -> None:
    def largest(x: torch.Tensor, name: str) -> Any:
        x += 0
        return getattr(x.sort().values, name)()

    for name in ("max", "min", "argmax", "argmin", "aminmax", "amax", "median"):
        Comparison().assert_same(largest, torch.arange(0), name)
