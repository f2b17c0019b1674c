"""Random argument structures through thirty functions: compiled equals eager.

    JITPKG_TEST_EXAMPLES=200 python -m pytest tests/testing/test_fuzz.py      (make fuzz)

runs so many examples for each function, others each time. Without it there are a few, always the
same ones.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jitpkg
from jitpkg.testing import Comparison, call
from jitpkg.testing.strategies import aliasing_tensors, shared_structures, structures
from tests.testing.functions import FUNCTIONS, Tensors

MANY = int(os.environ.get("JITPKG_TEST_EXAMPLES", "0"))

pytestmark = pytest.mark.timeout(120 + 30 * MANY)

EXAMPLES = settings(
    max_examples=MANY or 6,
    derandomize=not MANY,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

SAME = Comparison()
BROKEN = Comparison(settings={"break_anywhere": True})


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    jitpkg.reset()


def arguments(function: Callable[..., Any]) -> st.SearchStrategy[Any]:
    takes_tensors = function.__annotations__.get("xs") == "Tensors"
    return aliasing_tensors() if takes_tensors else shared_structures() | structures()


def test_there_are_thirty() -> None:
    assert Tensors is not None
    assert len(FUNCTIONS) >= 30


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_compiled_equals_eager(function: Callable[..., Any]) -> None:
    @EXAMPLES
    @given(arguments(function), arguments(function))
    def equal(first: Any, second: Any) -> None:
        SAME.assert_same_calls(function, call(first), call(second), call(first))

    equal()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_with_breaks_everywhere(function: Callable[..., Any]) -> None:
    @settings(EXAMPLES, max_examples=max(2, MANY // 4))
    @given(arguments(function))
    def equal(first: Any) -> None:
        BROKEN.assert_same(function, first)

    equal()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_number_that_cannot_be_written_raises_as_eagerly(backend: str) -> None:
    """FakeTensor lets it pass, and a functional graph does not write in place: found by fuzzing."""

    def doubled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x.mul_(2)
        return x + y

    same = Comparison(backend=backend, ignore=["grad_fn", "version", "view"])
    for x in (torch.tensor(True), torch.tensor([1])):
        same.assert_same(doubled, x, torch.ones(1))
    same.assert_same(lambda x: x.add_(0.5), torch.tensor([1, 2]))
