"""Random argument structures through sixty functions: compiled equals eager.

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
from jitpkg.testing import Comparison, assert_same, call
from jitpkg.testing.strategies import aliasing_tensors, shared_structures, structures
from tests.testing import hard_functions
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
BROKEN = Comparison(settings={"disturb": "break"})
VARYING = Comparison(dynamic=True)
HOW_COMPUTED = ["grad_fn", "version", "view", "warnings", "idle strides"]
THROUGH_AOT = Comparison(backend="aot_eager", ignore=HOW_COMPUTED, relative=1e-3, absolute=1e-3)


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    jitpkg.reset()


def arguments(function: Callable[..., Any]) -> st.SearchStrategy[Any]:
    takes_tensors = function.__annotations__.get("xs") == "Tensors"
    return aliasing_tensors() if takes_tensors else shared_structures() | structures()


def test_there_are_sixty() -> None:
    assert Tensors is hard_functions.Tensors
    assert len(FUNCTIONS) >= 60


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


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("same", [VARYING, THROUGH_AOT], ids=["varying", "aot"])
def test_compiled_in_another_way(same: Comparison, function: Callable[..., Any]) -> None:
    @settings(EXAMPLES, max_examples=max(2, MANY // 4))
    @given(arguments(function), arguments(function))
    def equal(first: Any, second: Any) -> None:
        same.assert_same_calls(function, call(first), call(second), call(first))

    equal()


# What was found


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_write_to_an_expanded_tensor_raises_at_its_own_line(dynamic: bool | None) -> None:
    def written(x: torch.Tensor) -> Any:
        y = x[:1]
        y.add_(1)
        x.mul_(2)
        return x, y

    Comparison(dynamic=dynamic).assert_same(written, torch.zeros(1).expand(3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("write", ["add_", "mul_", "addcmul_", "copy_", "pow_"])
def test_complex_numbers_written_to_others(write: str, backend: str) -> None:
    """FakeTensor lets it pass, and functional graphs would discard the imaginary parts."""

    def written(x: torch.Tensor, y: torch.Tensor) -> Any:
        return getattr(x, write)(y, y) if write == "addcmul_" else getattr(x, write)(y)

    same = Comparison(backend=backend, ignore=HOW_COMPUTED)
    for x in (torch.tensor([2]), torch.tensor([0.5])):
        same.assert_same(written, x, torch.tensor([1 + 1j]))
        same.assert_same(written, x, torch.tensor([0.5]))


def test_integers_that_require_grad() -> None:
    """They do once floats that do were written to a part of them."""

    def written(x: torch.Tensor, y: torch.Tensor) -> Any:
        x = x.clone()
        x[0] = y.sum()
        return x * 2, x.requires_grad

    assert_same(written, torch.ones(2, 3, dtype=torch.long), torch.ones(2, requires_grad=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_number_that_cannot_be_written_raises_as_eagerly(backend: str) -> None:
    """FakeTensor lets it pass, and a functional graph does not write in place: found by fuzzing."""

    def doubled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x.mul_(2)
        return x + y

    same = Comparison(backend=backend, ignore=HOW_COMPUTED)
    for x in (torch.tensor(True), torch.tensor([1])):
        same.assert_same(doubled, x, torch.ones(1))
    same.assert_same(lambda x: x.add_(0.5), torch.tensor([1, 2]))
