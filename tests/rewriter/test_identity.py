"""Hooks at every possible point: what a program does is not told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.regions import Identity, RegionAt, Rewriter, Walking
from tests.rewriter.programs import PROGRAMS, many_locals
from tests.rewriter.support import hooked_everywhere, keeping, outcome

REGIONS: dict[str, RegionAt] = {"identity": Identity, "walking": Walking}


@pytest.mark.parametrize("kind", REGIONS)
@pytest.mark.parametrize(
    ("program", "arguments"), PROGRAMS, ids=lambda v: getattr(v, "__name__", repr(v))
)
def test_every_point(program: Callable[..., Any], arguments: tuple[Any, ...], kind: str) -> None:
    rewritten = hooked_everywhere(program, REGIONS[kind])
    assert outcome(rewritten, arguments) == outcome(program, arguments)


def test_some_points_of_a_large_function() -> None:
    """Long jumps, more than 256 slots, and free variables behind the temporaries."""
    every = 60
    region_at: RegionAt = lambda points, h: None if h % every else Identity(points, h)  # noqa: E731
    rewritten = keeping(Rewriter(region_at), many_locals)
    for n in (1, 5):
        assert outcome(rewritten, (n,)) == outcome(many_locals, (n,))
