"""Functions that hypothesis makes up, with hooks, and left at some points."""

from __future__ import annotations

import linecache
import os
import sys
from types import FunctionType
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jitpkg.code.analysis import is_generator
from jitpkg.rewriter.emitter import Emitter
from jitpkg.rewriter.points import Points
from tests.regions import Identity, Leaving, Region, Rewriter, Walking
from tests.rewriter.generated import BODY, result, source
from tests.rewriter.support import keeping

EXAMPLES = int(os.environ.get("GENERATED_EXAMPLES", "25"))

ARGUMENTS = (0, 1, 2)


def compiled(text: str) -> FunctionType | None:
    """The function; None where the text is no program."""
    namespace: dict[str, Any] = {"sys": sys}
    try:
        exec(compile(text, "<made up>", "exec"), namespace)
    except SyntaxError:
        return None
    lines = text.splitlines(keepends=True)
    linecache.cache["<made up>"] = (len(text), None, lines, "<made up>")
    function = namespace["made_up"]
    assert isinstance(function, FunctionType)
    return function


class Leaves:
    """A region at each point that leaves at some."""

    def __init__(self, every: int, first: int) -> None:
        self.every = every
        self.first = first

    def __call__(self, points: Points, h: int) -> Region | None:
        if h % self.every != self.first % self.every or is_generator(points.code):
            return None
        kind = Walking if h % 2 else Leaving
        return kind(points, h, emitter=lambda: Emitter(points, {}))


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(body=BODY, every=st.integers(2, 9), first=st.integers(0, 8))
def test_a_function_that_is_made_up(body: list[str], every: int, first: int) -> None:
    text = source(body)
    plain = compiled(text)
    if plain is None:
        return
    hooked = keeping(Rewriter(Identity), plain)
    leaving = keeping(Rewriter(Leaves(every, first)), plain)
    for a in ARGUMENTS:
        wanted = result(plain, a)
        assert result(hooked, a) == wanted, text
        assert result(leaving, a) == wanted, text
