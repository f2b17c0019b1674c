"""A line on the terminal while a graph takes long to compile."""

from __future__ import annotations

import sys
import time
from types import TracebackType

PATIENCE = 1.0
"""Seconds without a line."""


class Progress:
    """Shows how far a graph is, on the standard error stream if that is a terminal.

    Args:
        total: how many steps there are.
    """

    def __init__(self, graph: str, total: int) -> None:
        self._graph = graph
        self._total = total
        self._done = 0
        self._began = time.perf_counter()
        self._shown = False

    def step(self) -> None:
        """One more step is done."""
        self._done += 1
        seconds = time.perf_counter() - self._began
        if seconds < PATIENCE or not _is_terminal():
            return
        self._shown = True
        line = f"jitpkg: compiling {self._graph}: {self._done} of {self._total}, {seconds:.0f} s"
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
