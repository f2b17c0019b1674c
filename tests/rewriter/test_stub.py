"""The stub is as short as it can be: what runs on a hit, instruction by instruction."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import pytest

from jitpkg.code.instructions import decode
from jitpkg.code.versions import HAS_PRECALL, JUMPS_ON_BOOLS, NULL_BELOW_CALLABLE
from jitpkg.rewriter.door import RETURN, Door
from jitpkg.rewriter.emission import Emission
from jitpkg.rewriter.emitter import Emitter, Hook
from jitpkg.rewriter.points import Points
from tests.regions import Outcome


class Returning:
    """A region that returns what it is asked with."""

    def run(self, *values: Any) -> Outcome:
        return RETURN, None, values


class Fixed:
    """A region that returns what it was made with."""

    def __init__(self, value: int) -> None:
        self.value = value

    def run(self, *_: Any) -> Outcome:
        return RETURN, None, self.value


def product(a: Any, b: Any) -> Any:
    return a * b


def with_everything(a: Any, *rest: Any, b: Any = 1, **others: Any) -> Any:
    return len(rest) + len(others) + a + b


def stub(function: FunctionType, region: Returning | Fixed) -> FunctionType:
    points = Points.of(function.__code__)
    first = points.first
    assert first is not None
    code = Emitter(points, {first: Hook(Door(region), (first,))}).hooked()
    return FunctionType(code, function.__globals__, argdefs=function.__defaults__)


def on_a_hit(code: CodeType) -> Iterator[str]:
    """The opcodes that run when the region is there and returns."""
    instructions = decode(code).instructions
    i = 0
    while True:
        ins = instructions[i]
        yield ins.opname
        if ins.opname == "RETURN_VALUE":
            return
        returns = ins.opname.endswith("IF_TRUE")  # the first comparison asks for RETURN
        i = ins.target if ins.target and (returns or ins.opname.startswith("JUMP")) else i + 1


def test_what_runs_on_a_hit() -> None:
    region = Returning()
    ran = list(on_a_hit(stub(product, region).__code__))
    precall = ["PRECALL"] * HAS_PRECALL
    door = ["LOAD_CONST", *precall, "CALL"]
    door.insert(0 if NULL_BELOW_CALLABLE else 1, "PUSH_NULL")
    assert [name.replace("FORWARD_", "") for name in ran] == [
        *("RESUME", "JUMP_FORWARD", "LOAD_CONST", *(["TO_BOOL"] * JUMPS_ON_BOOLS)),
        *("POP_JUMP_IF_FALSE", *door),
        *("COPY", "POP_JUMP_IF_NONE", "LOAD_ATTR", "PUSH_NULL"),
        *(["SWAP"] * NULL_BELOW_CALLABLE),
        *("LOAD_FAST", "LOAD_FAST", *precall, "CALL"),
        *("UNPACK_SEQUENCE", "COPY", "LOAD_CONST", "COMPARE_OP", "POP_JUMP_IF_TRUE"),
        *("POP_TOP", "POP_TOP", "RETURN_VALUE"),
    ]


@pytest.mark.parametrize(
    ("function", "call", "wanted"),
    [
        (product, lambda f: f(2, b=3), (2, 3)),
        (
            with_everything,
            lambda f: f(1, 2, 3, b=4, c=5)[:4],
            (1, 4, (2, 3), {"c": 5}),
        ),
    ],
)
def test_what_a_region_is_handed(
    function: FunctionType, call: Callable[[FunctionType], Any], wanted: tuple[Any, ...]
) -> None:
    """The arguments as CPython has bound them, in the order of their slots."""
    region = Returning()
    assert call(stub(function, region)) == wanted


def test_a_function_without_hooks_has_no_temporaries() -> None:
    code = Emitter(Points.of(product.__code__), {}).hooked()
    assert code.co_varnames == product.__code__.co_varnames
    assert code.co_code == product.__code__.co_code


def test_the_same_code_is_emitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the modules that one function of torch calls; each has its own region."""
    code = product.__code__
    first = code.replace(co_consts=(*code.co_consts, 0.25), co_stacksize=code.co_stacksize + 7)
    Points.of(first)
    function = FunctionType(first.replace(), globals())  # equal code, as of a cell that runs again
    emitted: list[Emission] = []
    real = Emission.code
    monkeypatch.setattr(Emission, "code", lambda self: emitted.append(self) or real(self))
    regions = [Returning(), Fixed(1), Fixed(2)]
    stubs = [stub(function, region) for region in regions]
    assert len(emitted) == 1
    assert [f(3, 4) for f in stubs] == [(3, 4), 1, 2]
    assert len({id(f.__code__) for f in stubs}) == 3
    del regions[1]
    assert [f(3, 4) for f in stubs] == [(3, 4), 12, 2]
    original = weakref.ref(function.__code__)
    emitted.clear()
    del function, stubs
    gc.collect()
    assert original() is None
