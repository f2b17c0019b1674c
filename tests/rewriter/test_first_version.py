"""Code with a hook at its beginning: it is emitted once for all code objects of one shape."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

import pytest

import jitpkg
from jitpkg.code.analysis import analyse
from jitpkg.rewriter import emission
from jitpkg.rewriter.door import Door
from jitpkg.rewriter.emitter import Emitter, Hook
from jitpkg.rewriter.points import Points
from tests.regions import Identity
from tests.rewriter.programs import PROGRAMS
from tests.rewriter.support import functions_in

CELL = """
{before}
def f(x):
    def inner(y):
        return y + {k}
    return inner(x) * {text!r}.count("a")
"""


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[CodeType]:
    """What has been emitted anew."""
    found: list[CodeType] = []
    code = emission.Emission.code

    def noted(self: emission.Emission) -> CodeType:
        found.append(code(self))
        return found[-1]

    monkeypatch.setattr(emission.Emission, "code", noted)
    return found


def defined(file: str, **values: Any) -> FunctionType:
    cells: dict[str, Any] = {}
    exec(compile(CELL.format(**values), file, "exec"), cells)
    function: FunctionType = cells["f"]
    return function


def test_a_cell_that_is_run_again_is_not_emitted_again(emitted: list[CodeType]) -> None:
    first = defined("<cell 1>", before="", k=2.5, text="banana")
    jitpkg.jit(first)
    assert len(emitted) == 1
    again = defined("<cell 2>", before="\n\n", k=3.5, text="zzzzza")
    original = again.__code__
    jitpkg.jit(again)
    assert len(emitted) == 1
    assert (first(1), again(1)) == (10.5, 4.5)
    code = again.__code__
    assert code is not original
    assert (code.co_filename, code.co_firstlineno) == ("<cell 2>", 5)
    assert {line for *_, line in code.co_lines()} == {line for *_, line in original.co_lines()}
    assert code.co_consts[: len(original.co_consts)] == original.co_consts
    assert all(nested.co_filename == "<cell 2>" for nested in functions_in(code))


def test_other_code_is_emitted_for_itself(emitted: list[CodeType]) -> None:
    def f(x: int, y: int = 0, /, *, z: int = 1) -> int:
        return x + z

    def g(x: int, y: int = 0, *, z: int = 1) -> int:
        return x + z

    def h(x: int, y: int = 0, *, z: int = 1) -> int:
        return x - z

    def i(x: int, y: int = 0, *, w: int = 1) -> int:
        return x - w

    for k, function in enumerate((f, g, h, i)):
        jitpkg.jit(function)
        assert len(emitted) == k + 1


def test_equal_code_is_analysed_once() -> None:
    values = {"before": "", "k": 2.5, "text": "points"}
    cell, again, below = (
        defined("<cell 1>", **values).__code__,
        defined("<cell 2>", **values).__code__,
        defined("<cell 3>", **{**values, "before": "\n\n"}).__code__,
    )
    wide = cell.replace(co_linetable=b"")
    points, same, other, lines = map(Points.of, (cell, again, below, wide))
    assert same.code is same.analysis.code is again
    assert points.code is points.analysis.code is cell
    assert same.analysis.decoded is points.analysis.decoded
    for k, code in ((other, below), (lines, wide)):
        assert k.code is code
        assert k.analysis.decoded is not points.analysis.decoded
        assert k.instructions == Points(analyse(code)).instructions


def with_first_hook(code: CodeType) -> tuple[CodeType, Identity] | None:
    points = Points.of(code)
    first = points.first
    if first is None:
        return None
    region = Identity(points, first)
    return Emitter(points, {first: Hook(Door(region), (first,))}).hooked(), region


@pytest.mark.parametrize(
    "program", dict.fromkeys(p for p, _ in PROGRAMS), ids=lambda program: program.__name__
)
def test_it_is_what_would_be_emitted(program: FunctionType, emitted: list[CodeType]) -> None:
    moved = program.__code__.replace(
        co_firstlineno=program.__code__.co_firstlineno + 7,
        co_filename="elsewhere",
        co_name="renamed",
        co_qualname="all.renamed",
    )
    if with_first_hook(program.__code__) is None:
        return
    before = len(emitted)
    made = with_first_hook(moved)
    assert made is not None
    code, region = made
    assert len(emitted) == before
    (door,) = (const for const in code.co_consts if isinstance(const, Door))
    points = Points.of(moved)
    first = points.first
    assert first is not None
    whole = emission.Emission(points, {first: Hook(door, (first,))}, entry=None).code()
    assert described(code) == described(whole)
    assert region is not None


def described(code: CodeType) -> dict[str, Any]:
    return {name: getattr(code, name) for name in dir(code) if name.startswith("co_")} | {
        "co_lines": list(code.co_lines()),
        "co_positions": list(code.co_positions()),
    }
