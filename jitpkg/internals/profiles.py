"""Torch's profilers: whether one runs, and ranges in what it records."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from jitpkg.internals.row import Row, Variables

_UNNAMED = "profiles do not name graphs and kernels"

RUNS = "_is_profiler_enabled"
"""The variable of a module that says whether a profiler runs."""

VARIABLES = Variables(
    f"torch.autograd.profiler.{RUNS}",
    use="seeing whether a profiler runs, at each call of a graph",
    lost=_UNNAMED,
)
RANGE = Row[Callable[[str], AbstractContextManager[Any]]](
    "torch._C._profiler._RecordFunctionFast",
    use="naming graphs and kernels in a profile",
    lost=_UNNAMED,
)


def runs() -> bool:
    """Whether a profiler runs, in any thread."""
    variables = VARIABLES.found()
    return variables is not None and RANGE.found() is not None and bool(variables[RUNS])
