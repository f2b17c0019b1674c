"""Every program, compiled in every way, does what it does eagerly."""

import dis
import functools
import random

import pytest

import jitpkg
from jitpkg.comparison.facts import Fact
from tests.portions import portion
from tests.programs.running import Heard, all_programs, difference, run

PROGRAMS = all_programs()

SAMPLED = 3
"""At so many points a break is forced in programs that do not ask for each."""

MOST_POINTS = 500

pytestmark = pytest.mark.timeout(240)


@functools.cache
def eager(program: str) -> list[list[Fact]]:
    return run(program, lambda target: target)


def check(program: str, compiled: list[list[Fact]], how: str) -> None:
    wrong = difference(eager(program), compiled, PROGRAMS[program].ignore)
    assert not wrong, f"{program}, {how}:\n{wrong}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_jitted_is_as_eager_in_as_many_graphs_as_expected(program: str) -> None:
    heard = Heard()
    check(program, run(program, jitpkg.jit, heard), "jitted")
    expected = PROGRAMS[program]
    if expected.graphs is not None:
        breaks = heard.breaks()
        assert (heard.graphs, len(breaks)) == (expected.graphs, expected.breaks), breaks


@pytest.mark.parametrize("program", PROGRAMS)
def test_compiled_is_as_eager(program: str) -> None:
    check(program, run(program, jitpkg.compile), "compiled")


VERIFIED = [
    *list(PROGRAMS)[::6],
    *("c_calls:function_attributes", "f_objects:slots"),
    *("l_modules:lazy_module", "l_modules:weight_norm"),
]
"""Some of all, and those in which there is something that is hard to copy."""


@pytest.mark.parametrize("program", sorted(set(VERIFIED)))
def test_verified_is_as_eager(program: str) -> None:
    with jitpkg.config.patch(verify_correctness=True):
        check(program, run(program, jitpkg.compile), "verified")


@pytest.mark.parametrize("program", PROGRAMS)
def test_of_sizes_that_vary_is_as_eager(program: str) -> None:
    varying = functools.partial(jitpkg.jit, dynamic=True)
    check(program, run(program, varying), "with sizes that vary")


@pytest.mark.parametrize("program", PROGRAMS)
def test_broken_anywhere_is_as_eager(program: str) -> None:
    with jitpkg.config.patch(disturb="break"):
        check(program, run(program, jitpkg.jit), "broken anywhere")


def broken_before(program: str, k: int) -> int:
    """Check the program with a break at the k-th point of each trace; how many came of it."""
    heard = Heard()
    with jitpkg.config.patch(disturb=f"break:{k}"):
        check(program, run(program, jitpkg.jit, heard), f"broken before point {k}")
    return heard.forced


@pytest.mark.parametrize("program", [n for n, p in PROGRAMS.items() if p.every_break])
def test_broken_before_each_point_is_as_eager(program: str) -> None:
    for k in portion(range(MOST_POINTS), 3, program):
        if not broken_before(program, k):
            return
    pytest.fail(f"{program} has more than {MOST_POINTS} points")


@pytest.mark.parametrize("program", [n for n, p in PROGRAMS.items() if not p.every_break])
def test_broken_before_some_points_is_as_eager(program: str) -> None:
    target = PROGRAMS[program].target
    code = getattr(target, "__code__", None) or type(target).forward.__code__
    points = sum(1 for _ in dis.get_instructions(code))
    for k in random.Random(program).sample(range(points), min(SAMPLED, points)):
        broken_before(program, k)
