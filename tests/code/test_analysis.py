"""What the analysis says holds at every instruction that really runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import pytest

from jitpkg.code.analysis import Analysis, analyse, is_function, slot_names
from jitpkg.code.effects import BOUND, UNBOUND_SLOT
from jitpkg.code.versions import NULL_BELOW_CALLABLE
from tests.regions import walk
from tests.rewriter.programs import PROGRAMS
from tests.rewriter.support import outcome


class Watcher:
    """A trace function that compares each frame of some code with its analysis."""

    def __init__(self, code: CodeType) -> None:
        self.analyses = {c: analyse(c) for c in walk(code) if is_function(c)}
        self.seen: set[tuple[CodeType, int]] = set()
        self.wrong: list[tuple[str, int, str, str]] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        analysis = self.analyses.get(frame.f_code)
        if analysis is None:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.compare(frame, analysis)
        return self

    def compare(self, frame: FrameType, analysis: Analysis) -> None:
        i = analysis.decoded.index_at(frame.f_lasti)
        self.seen.add((analysis.code, i))
        names = slot_names(analysis.code)
        held = frame.f_locals
        for name, kind in zip(names, analysis.slots(i), strict=True):
            if kind == BOUND and name not in held and not name.startswith("."):
                self.wrong.append((analysis.code.co_qualname, i, name, "is not bound"))
            if kind == UNBOUND_SLOT and name in held and names.count(name) == 1:
                self.wrong.append((analysis.code.co_qualname, i, name, "is bound"))


@pytest.mark.parametrize(
    ("program", "arguments"), PROGRAMS, ids=lambda v: getattr(v, "__name__", repr(v))
)
def test_what_is_bound(program: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    watcher = Watcher(program.__code__)
    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks whether any frame wants them
    sys.settrace(watcher)
    try:
        outcome(program, arguments)
    finally:
        sys.settrace(before)
    assert watcher.wrong == []
    assert watcher.seen


def stack_before(function: Callable[..., Any], opname: str) -> str:
    """The stack before the only instruction of a name."""
    analysis = analyse(function.__code__)
    (i,) = [i for i, ins in enumerate(analysis.instructions) if ins.opname == opname]
    return analysis.stack(i)


def slot_before(function: Callable[..., Any], opname: str, name: str) -> str:
    analysis = analyse(function.__code__)
    (i,) = [i for i, ins in enumerate(analysis.instructions) if ins.opname == opname]
    return analysis.slots(i)[slot_names(analysis.code).index(name)]


def global_call(a: Any) -> Any:
    print(a)
    return [a]


def method_call(a: Any) -> Any:
    return (a.method({a}),)


def test_what_a_call_finds() -> None:
    """NULL or self lies below the callable, or above it from 3.13 on."""
    assert stack_before(global_call, "CALL") == ("Nvv" if NULL_BELOW_CALLABLE else "vNv")
    assert stack_before(method_call, "BUILD_SET")[:2] == ("Mv" if NULL_BELOW_CALLABLE else "vM")


def maybe(a: Any) -> Any:
    if a:
        b = 1
    return -b


def deleted(a: Any) -> Any:
    b = a
    del b
    return -a


def handled(a: Any) -> Any:
    try:
        b = a()
    except ValueError:
        return ~a
    return -b


def test_what_is_unbound() -> None:
    assert slot_before(maybe, "UNARY_NEGATIVE", "b") == "B"  # behind the load, which checks
    assert slot_before(deleted, "UNARY_NEGATIVE", "b") == "U"
    assert slot_before(handled, "UNARY_NEGATIVE", "b") == "B"
    assert slot_before(handled, "UNARY_INVERT", "b") == "U"


def captured(a: Any) -> Any:
    def inner() -> Any:
        return a, captured

    return -inner


def test_what_is_a_cell() -> None:
    assert slot_before(captured, "UNARY_NEGATIVE", "a") == "C"
    assert slot_before(captured, "UNARY_NEGATIVE", "inner") == "B"


def in_handlers(a: Any) -> Any:
    try:
        a()
    except ValueError:
        return ~a
    with a:
        return -a


def test_what_handlers_have_on_the_stack() -> None:
    assert stack_before(in_handlers, "UNARY_INVERT") == "pv"  # what was handled before, and a
    assert stack_before(in_handlers, "UNARY_NEGATIVE") == "vv"  # __exit__, and a
    assert stack_before(in_handlers, "WITH_EXCEPT_START") == "vLpv"
