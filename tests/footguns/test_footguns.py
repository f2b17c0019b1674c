"""Every case, compiled both ways, once as it is and once broken before every instruction."""

import functools

import pytest

import jitpkg
from tests.footguns.catalogue import CASES, Implementation, eager_values, evaluate

WAYS_IN = ("jit", "compile")

pytestmark = pytest.mark.timeout(60)


def implementation(way_in: str) -> Implementation:
    return Implementation(getattr(jitpkg, way_in), jitpkg.graph_break, jitpkg.reset)


@pytest.mark.parametrize("case", CASES)
def test_eager_value_is_as_written_down(case: str) -> None:
    assert evaluate(case) == eager_values()[case]


@pytest.mark.parametrize("way_in", WAYS_IN)
@pytest.mark.parametrize("case", CASES)
def test_compiled_is_as_eager(case: str, way_in: str) -> None:
    eager = evaluate(case)
    assert evaluate(case, implementation(way_in)) == eager


@pytest.mark.parametrize("case", CASES)
def test_of_sizes_that_vary_is_as_eager(case: str) -> None:
    eager = evaluate(case)
    varying = functools.partial(jitpkg.jit, dynamic=True)
    assert evaluate(case, Implementation(varying, jitpkg.graph_break, jitpkg.reset)) == eager


@pytest.mark.parametrize("way_in", WAYS_IN)
@pytest.mark.parametrize("case", CASES)
def test_broken_anywhere_is_as_eager(case: str, way_in: str) -> None:
    eager = evaluate(case)
    with jitpkg.config.patch(disturb="break"):
        assert evaluate(case, implementation(way_in)) == eager


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("case", CASES)
def test_with_kernels_is_as_eager(case: str, dynamic: bool | None) -> None:
    eager = evaluate(case)
    jit = functools.partial(jitpkg.jit, backend="jitpkg", dynamic=dynamic)
    with_kernels = Implementation(jit, jitpkg.graph_break, jitpkg.reset)
    assert evaluate(case, with_kernels) == eager


def test_each_written_value_has_its_case() -> None:
    assert list(eager_values()) == list(CASES)
