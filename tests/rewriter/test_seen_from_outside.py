"""What code with hooks looks like: to `inspect`, to tracers and profilers, to the collector."""

from __future__ import annotations

import contextlib
import gc
import inspect
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from jitpkg.code.analysis import is_generator
from jitpkg.code.versions import PYTHON
from jitpkg.rewriter.door import UNBOUND, Door, closed_door
from jitpkg.rewriter.emitter import Emitter, Hook
from jitpkg.rewriter.points import Points
from tests.collecting import what_exists_left_out
from tests.regions import Identity, Leaving, Outcome, RegionAt, Rewriter
from tests.rewriter import programs
from tests.rewriter.programs import PROGRAMS, looks_at_frames
from tests.rewriter.support import (
    functions_in,
    hooked_everywhere,
    keeping,
    leaving_at,
    outcome,
)


def made(a: int, /, b: list[int], *rest: int, c: int = 1, **others: int) -> Callable[[], int]:
    """Every kind of parameter, a cell and a free variable."""
    d = a + c

    def inner() -> int:
        return d + len(b) + len(rest) + len(others) + len(programs.PROGRAMS)

    return inner


def test_the_code_looks_like_the_original() -> None:
    hooked = keeping(Rewriter(Identity), made)
    assert inspect.signature(hooked) == inspect.signature(made)
    assert inspect.getsource(hooked) == inspect.getsource(made)
    for name in (
        *("co_name", "co_qualname", "co_filename", "co_firstlineno", "co_flags"),
        *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_freevars", "co_cellvars"),
    ):
        assert getattr(hooked.__code__, name) == getattr(made.__code__, name), name


@pytest.mark.parametrize(
    "program", dict.fromkeys(p for p, _ in PROGRAMS), ids=lambda program: program.__name__
)
def test_the_lines_are_those_of_the_original(program: FunctionType) -> None:
    """A tool that measures coverage takes them for the lines that can run."""
    hooked = hooked_everywhere(program)
    pairs = zip(functions_in(hooked.__code__), functions_in(program.__code__), strict=True)
    for new, old in pairs:
        assert lines_of(new) == lines_of(old)


def lines_of(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line is not None}


Event = tuple[str, str, int]


class Listener:
    """A trace or profile function that writes down what it is told of the programs' frames.

    Left out is how a hook looks whether a local is bound: it loads it and catches the exception.
    """

    def __init__(self, *, repeats: bool) -> None:
        self.repeats = repeats
        """Whether a line's event counts that comes again."""
        self.seen: list[Event] = []
        self.looked = False
        self.line: dict[int, int] = {}
        """The last line of each frame, by its id, so that no frame lives longer."""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in programs.FILES or event.startswith("c_"):
            return self
        if event == "exception" and argument[0] is UnboundLocalError:
            self.looked = True
            return self
        if event == "line" and not self.repeats and self.line[id(frame)] == frame.f_lineno:
            return self
        self.line[id(frame)] = frame.f_lineno
        self.seen.append((frame.f_code.co_name, event, frame.f_lineno))
        return self

    def run(
        self, switch: Callable[[Any], None], function: FunctionType, arguments: tuple[Any, ...]
    ) -> list[Event]:
        switch(self)
        try:
            outcome(function, arguments)
        finally:
            switch(None)
        return self.seen


LISTENED = [(program, arguments) for program, arguments in PROGRAMS if program != looks_at_frames]
"""A listener changes what `f_locals` gives."""


@pytest.mark.parametrize(
    ("program", "arguments"), LISTENED, ids=lambda v: getattr(v, "__name__", repr(v))
)
def test_a_tracer_is_told_the_same(program: FunctionType, arguments: tuple[Any, ...]) -> None:
    """But on Python 3.11, where a line's event comes again after each jump backwards, of which a
    hook has one; and on the others where a hook has looked whether a local is bound."""
    hooked = hooked_everywhere(program)
    listener = Listener(repeats=True)
    seen = listener.run(sys.settrace, hooked, arguments)
    if PYTHON > (3, 11) and not listener.looked:
        assert seen == Listener(repeats=True).run(sys.settrace, program, arguments)
    once = Listener(repeats=False).run(sys.settrace, hooked, arguments)
    assert once == Listener(repeats=False).run(sys.settrace, program, arguments)


@pytest.mark.parametrize(
    ("program", "arguments"), LISTENED, ids=lambda v: getattr(v, "__name__", repr(v))
)
def test_a_profiler_is_told_the_same(program: FunctionType, arguments: tuple[Any, ...]) -> None:
    hooked = hooked_everywhere(program)
    wanted = Listener(repeats=True).run(sys.setprofile, program, arguments)
    assert Listener(repeats=True).run(sys.setprofile, hooked, arguments) == wanted


# Doors and regions


def sums(n: int) -> int:
    total = 0
    for k in range(n):
        total += k
    return total


def test_code_does_not_keep_regions_alive() -> None:
    rewriter = Rewriter(Identity)
    hooked = rewriter.function(sums)
    regions = [weakref.ref(region) for region in rewriter.regions]
    assert regions
    del rewriter
    gc.collect()
    assert not any(ref() for ref in regions)
    assert hooked(5) == 10  # with no region, the original code runs


def test_a_region_may_go_while_it_is_asked() -> None:
    class Fleeting(Identity):
        def run(self, *values: Any) -> Outcome:
            kept.clear()
            return super().run(*values)

    kept: list[Any] = []
    rewriter = Rewriter(Fleeting)
    hooked = rewriter.function(sums)
    kept, rewriter.regions = rewriter.regions, []
    assert hooked(5) == 10
    assert not kept


def test_doors_close_in_a_pickle() -> None:
    region = Identity(Points.of(sums.__code__), 1)
    door = Door(region)
    assert door() is region
    assert pickle.loads(pickle.dumps(door))() is None
    assert closed_door()() is None
    assert pickle.loads(pickle.dumps(UNBOUND)) is UNBOUND


def test_threads_leave_at_the_same_point() -> None:
    region_at: RegionAt = lambda points, h: Leaving(points, h, lambda: Emitter(points, {}))  # noqa: E731
    hooked = keeping(Rewriter(region_at), sums)
    results: list[int] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        results.extend(hooked(n) for n in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(sums(n) for n in range(200) for _ in range(4))


# References


def juggles(thing: object, fail: bool) -> object:
    """Puts an object wherever one can be at a point."""
    cell = thing

    def inner(default: object = thing, *rest: object, **others: object) -> list[object]:
        nonlocal cell
        cell = [default, *rest, others]
        return [cell, thing]

    found: list[object] = []
    for k, one in enumerate([thing, (thing, thing), {"a": thing}]):
        with programs.Context(found):
            try:
                found.append((k, one, inner(thing, one, key=thing), [one for _ in (1, 2)]))
                other = thing
                del one
                if k == 1:
                    raise KeyError(thing)
            except KeyError as error:
                found.extend(error.args)
                other = error
            finally:
                found += [other, f"{thing!r}"]
        if fail and k == 2:
            raise ValueError(found, thing)
    return sum((x for x in (1, 2) if x), start=0), [thing, *found]


def references(function: Callable[[object, bool], object]) -> int:
    """How many references to an object there are when calls with it are over."""
    thing = object()
    for fail in (False, True):
        with contextlib.suppress(ValueError):
            function(thing, fail)
    gc.collect()
    return sys.getrefcount(thing)


def keeps_as_many(function: Callable[[object, bool], object], wanted: int) -> bool:
    """Whether no reference is lost or kept; other threads may look at frames, now and then."""
    return any(references(function) == wanted for _ in range(3))


@what_exists_left_out()
def test_no_reference_is_lost_or_kept() -> None:
    wanted = min(references(juggles) for _ in range(3))
    assert keeps_as_many(hooked_everywhere(juggles), wanted)
    for code in functions_in(juggles.__code__):
        if is_generator(code):
            continue
        for h in Points.of(code).hookable():
            leaving, _ = leaving_at(juggles, code, h, Leaving)
            assert keeps_as_many(leaving, wanted), (code.co_qualname, h)


# What the emitter refuses


def test_a_point_that_is_none_is_refused() -> None:
    points = Points.of(sums.__code__)
    region = Identity(points, 1)
    assert points.refusal(0) == "prologue"
    with pytest.raises(ValueError, match="a hook at 0: prologue"):
        Emitter(points, {0: Hook(Door(region), (0,))})


def in_a_handler(a: Any) -> Any:
    try:
        return -a
    except TypeError:
        return ~a


def test_an_exit_into_a_handler_is_refused() -> None:
    """Only the interpreter can make the exception that is being handled there."""
    points = Points.of(in_a_handler.__code__)
    where = {ins.opname: i for i, ins in enumerate(points.instructions)}
    h, p = where["UNARY_NEGATIVE"], where["UNARY_INVERT"]
    assert points.refusal(h) is points.refusal(p) is None
    assert points.exit_refusal(h, p) == "a saved exception would have to be made"
    with pytest.raises(ValueError, match="a saved exception would have to be made"):
        Emitter(points, {h: Hook(Door(Identity(points, h)), (h, p))})


def test_a_call_of_the_result_of_a_call_with_keywords_can_be_a_hook() -> None:
    def outer(f, g, x):
        return f(g(x, named=1))

    points = Points.of(outer.__code__)
    calls = [i for i, ins in enumerate(points.instructions) if ins.opname.startswith("CALL")]
    assert (
        points.refusal(calls[-1] - (points.instructions[calls[-1] - 1].opname == "PRECALL")) is None
    )
