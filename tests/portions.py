"""Portions of tests that go through many cases for each of many parameters."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

WHOLE = bool(int(os.environ.get("JITPKG_TEST_WHOLE", "0")))
"""Whether every case is to run."""


def runs(one_in: int, *of: object) -> bool:
    """Whether a test with these parameters is among the one in so many that run."""
    return WHOLE or _number(of) % one_in == 0


def portion(cases: Iterable[T], one_in: int, *of: object) -> list[T]:
    """One in so many cases, others for other parameters, so that each runs with some of them.

    All of them by `make test WHOLE=1`.
    """
    every = list(cases)
    return every if WHOLE else every[_number(of) % one_in :: one_in]


def share(count: int, one_in: int) -> int:
    """One in so many of random examples; all of them by `make test WHOLE=1`."""
    return count if WHOLE else count // one_in


def _number(of: tuple[object, ...]) -> int:
    return zlib.crc32(repr(of).encode())
