"""Programs, as users write them, print the same when they are compiled; and compiling is bounded.

By the backend `eager` the same means every character; kernels may round differently. With kernels,
programs run as users run them: what gains nothing is given back.
"""

import importlib.util

import pytest

from tests.example_programs import support
from tests.example_programs.programs import PROGRAMS
from tests.example_programs.support import Program, Way, difference, eagerly, notes

ALL = [(program, way) for program in PROGRAMS for way in program.ways]
NAMES = [f"{program.name}-{way.name}" for program, way in ALL]


def check(program: Program, way: Way, backend: str) -> None:
    for module in program.needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module}")
    eager = eagerly(program)
    weighs = "1" if backend == "jitpkg" else "0"
    ended = support.run(program, way, JITPKG_BACKEND=backend, JITPKG_NEVER_WORSE=weighs)
    assert ended.status == 0, ended.err
    tolerance = 0.0 if backend == "eager" else program.tolerance
    assert difference(eager.out, ended.out, tolerance) is None
    assert set(notes(ended.err)) <= set(notes(eager.err))
    assert not ended.failures
    storms = {storm.partition(": ")[0] for storm in ended.storms}
    assert storms <= set(way.storms), ended.storms
    unasked = backend == "jitpkg" and way.name in ("run", "auto")  # there the clock decides
    least = 0 if unasked else min(way.entries, 1)
    assert least <= ended.entries.total() <= way.entries, ended.entries
    assert len(ended.breaks) <= way.breaks, ended.breaks
    assert ended.cpu - eager.cpu <= way.seconds, ended.summary()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("program", "way"),
    [
        pytest.param(*each, id=name, marks=[pytest.mark.slow] if each[1].slow else [])
        for each, name in zip(ALL, NAMES, strict=True)
    ],
)
def test_compiled_without_kernels(program: Program, way: Way) -> None:
    check(program, way, "eager")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("program", "way"), ALL, ids=NAMES)
def test_compiled_to_kernels(program: Program, way: Way) -> None:
    check(program, way, "jitpkg")


def test_each_program_has_a_test() -> None:
    """Files without a command line of their own are modules of those that have one."""
    files = {
        file.relative_to(support.PROGRAMS).as_posix(): file.read_text("utf-8")
        for file in support.PROGRAMS.rglob("*.py")
    }
    scripts = {name for name, text in files.items() if "sys.stderr" in text and "step " in text}
    assert scripts == {program.script for program in PROGRAMS}
