"""The stub that the import hook puts at the start of functions, in code that nobody analyses."""

import inspect
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jitpkg.code.analysis import is_function
from jitpkg.code.verify import verify, verify_like
from jitpkg.rewriter.points import Points
from jitpkg.rewriter.stub import place_of, stubbed
from tests.regions import walk
from tests.rewriter import programs

FILES = """
argparse.py ast.py asyncio/tasks.py asyncio/streams.py contextlib.py dataclasses.py enum.py
functools.py inspect.py typing.py unittest/mock.py
""".split()


class Behind:
    """What is behind the door: gives an answer, and keeps what it was asked."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    def run(self, *arguments: Any) -> Any:
        self.asked.append(arguments)
        return self.answer(*arguments) if callable(self.answer) else self.answer


def with_stub(function: Any, behind: Any) -> Any:
    code = function.__code__
    place = place_of(code)
    assert place is not None
    made = stubbed(code, place, lambda: behind)
    assert made is not None
    found = types.FunctionType(
        made, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    found.__kwdefaults__ = function.__kwdefaults__
    return found


def check(code: types.CodeType) -> bool:
    """Whether the code can have a stub; if so, it is a right one, and all else is as it was."""
    place = place_of(code)
    made = None if place is None else stubbed(code, place, lambda: None)
    if made is None:
        return False
    points, emitted = Points.of(code), verify(made)
    start, more = points.start + 1, len(emitted.instructions) - len(points.instructions)
    verify_like(
        emitted, points.analysis, {i: i + more for i in range(start, len(points.instructions))}
    )
    positions = [ins.position for ins in emitted.instructions]
    before = [ins.position for ins in points.instructions]
    assert positions[:start] + positions[start + more :] == before
    assert {position[0] for position in positions[start : start + more]} == {before[start][0]}
    assert place.cells == points.cells_at(start)
    assert place.free == points.free
    assert place.is_target or place.locals == points.locals_at(start)
    return True


def test_stubs_of_the_standard_library_are_right() -> None:
    sources = [Path(sysconfig.get_path("stdlib"), file).read_text("utf-8") for file in FILES]
    modules = [compile(source, "library", "exec") for source in sources]
    codes = [code for module in modules for code in walk(module) if is_function(code)]
    assert sum(map(check, codes)) > 0.95 * len(codes) > 500


def test_stubs_of_the_rewriters_programs_are_right() -> None:
    sources = map(inspect.getsource, programs.MODULES)
    whole = [compile(source, "programs", "exec") for source in sources]
    codes = [code for module in whole for code in walk(module) if is_function(code)]
    assert sum(map(check, codes)) > 0.9 * len(codes)


def three(a: Any, b: Any = 2, *rest: Any, key: Any = 4, **others: Any) -> Any:
    c = [a, b, rest, key, others]
    return lambda: (c, a)


def test_a_stub_hands_over_locals_cells_and_globals() -> None:
    behind = Behind()
    assert with_stub(three, behind)(1, 5, 6, x=7)()[0] == [1, 5, (6,), 4, {"x": 7}]
    ((b, key, rest, others, a, c, namespace),) = behind.asked
    assert (b, key, rest, others, a.cell_contents) == (5, 4, (6,), {"x": 7}, 1)
    assert c.cell_contents == [1, 5, (6,), 4, {"x": 7}]
    assert namespace is globals()


def test_a_stub_hands_over_free_variables() -> None:
    behind = Behind()
    inner = three(1, 5)
    assert with_stub(inner, behind)() == inner()
    ((a, c, _),) = behind.asked
    assert (a.cell_contents, c.cell_contents[0]) == (1, 1)


def test_without_anybody_behind_the_door_the_code_runs() -> None:
    assert with_stub(three, None)(1)()[1] == 1


def test_a_stub_returns_what_it_is_given() -> None:
    assert with_stub(three, Behind((True, "result")))(1) == "result"


def generator(a: Any) -> Any:
    yield a
    return a + 1


def test_a_stub_in_a_generator() -> None:
    behind = Behind()
    assert list(with_stub(generator, behind)(1)) == [1]
    assert behind.asked == [(1, globals())]
    ended = with_stub(generator, Behind((True, "result")))(1)
    with pytest.raises(StopIteration) as info:
        next(ended)
    assert info.value.value == "result"


async def coroutine(a: Any) -> Any:
    return a


def test_a_stub_in_a_coroutine() -> None:
    with pytest.raises(StopIteration) as info:
        with_stub(coroutine, Behind())(3).send(None)
    assert info.value.value == 3


class Thing:
    """Can be referred to weakly."""


def taken(a: Any, b: Any) -> Any:
    return (lambda: a), b


def leaving(function: Callable[..., Any]) -> Any:
    """An answer that goes on in `function`, with the slots of `taken`: its cell, then b."""
    return lambda b, a, namespace: (False, ("values", b, a, function))


def test_a_stub_leaves_for_another_function() -> None:
    def instead(a: types.CellType, b: Any, values: Any) -> Any:
        return a.cell_contents, b, values

    assert with_stub(taken, Behind(leaving(instead)))(1, 2) == (1, 2, "values")


def test_what_is_left_holds_no_object() -> None:
    def instead(a: Any, b: Any, values: Any) -> Any:
        gone = weakref.ref(b), weakref.ref(a.cell_contents)
        del a, b
        return [ref() for ref in gone]

    def run() -> Any:
        return function(Thing(), Thing())

    behind = Behind(leaving(instead))
    function = with_stub(taken, behind)
    behind.asked = type("Forgetful", (), {"append": lambda self, what: None})()
    assert run() == [None, None]


def test_what_is_left_shows_no_frame_of_its_own_in_a_traceback() -> None:
    def instead(a: Any, b: Any, values: Any) -> Any:
        raise KeyError(a.cell_contents)

    function = with_stub(taken, Behind(leaving(instead)))
    with pytest.raises(KeyError) as info:
        function(1, 2)
    assert [entry.name for entry in info.traceback][1:] == ["instead"]


def test_line_events_are_the_same() -> None:
    def lines(function: Any) -> list[tuple[str, int]]:
        found = []

        def watch(frame: types.FrameType, event: str, argument: Any) -> Any:
            if frame.f_code.co_filename == __file__ and frame.f_code.co_name == "three":
                found.append((event, frame.f_lineno))
            return watch

        before = sys.gettrace()
        sys.settrace(watch)
        try:
            function(1, 2)
        finally:
            sys.settrace(before)
        return found

    assert lines(with_stub(three, None)) == lines(three)


def many() -> Any:
    """A function with more locals and constants than one byte can count."""
    names = [f"v{k}" for k in range(300)]
    body = "".join(f"    x{k} = {k + 1000}.5\n" for k in range(300))
    namespace: dict[str, Any] = {}
    exec(f"def many({', '.join(names)}):\n{body}    return v0, v299, x299\n", namespace)
    return namespace["many"]


def test_a_stub_with_long_arguments() -> None:
    function, behind = many(), Behind()
    check(function.__code__)
    assert with_stub(function, behind)(*range(300)) == (0, 299, 1299.5)
    assert behind.asked[0][:300] == tuple(range(300))
    left = Behind(lambda *a: (False, ("values", *reversed([*a[:300], *range(300)]), lambda *s: s)))
    assert with_stub(function, left)(*range(300))[-1] == "values"
