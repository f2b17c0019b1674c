"""A frame is left at each point, one after the other, and goes on in a resume function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jitpkg.code.analysis import is_generator
from jitpkg.rewriter.points import Points
from tests.regions import Leaving, Walking
from tests.rewriter.programs import PROGRAMS, looks_at_frames
from tests.rewriter.support import functions_in, leaving_at, outcome

CALLS: dict[Callable[..., Any], list[tuple[Any, ...]]] = {}
for _program, _arguments in PROGRAMS:
    CALLS.setdefault(_program, []).append(_arguments)

FRAMES = (looks_at_frames,)
"""Programs that hold a frame, which is not the one that a resume function goes on in."""


@pytest.mark.parametrize("kind", [Leaving, Walking])
@pytest.mark.parametrize(
    "program", [p for p in CALLS if p not in FRAMES], ids=lambda program: program.__name__
)
def test_each_point(program: Callable[..., Any], kind: type[Leaving | Walking]) -> None:
    wanted = [outcome(program, arguments) for arguments in CALLS[program]]
    left = 0
    for code in functions_in(program.__code__):
        if is_generator(code):
            continue
        for h in Points.of(code).hookable():
            rewritten, region = leaving_at(program, code, h, kind)
            for arguments, plain in zip(CALLS[program], wanted, strict=True):
                assert outcome(rewritten, arguments) == plain, (code.co_qualname, h)
            left += region.left
    assert left
