"""All rows."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from jitpkg.internals import dispatch, fake_tensors, modes
from jitpkg.internals.row import Row

_MODULES: tuple[ModuleType, ...] = (modes, dispatch, fake_tensors)

ROWS: tuple[Row[Any], ...] = tuple(
    value for module in _MODULES for value in vars(module).values() if isinstance(value, Row)
)
"""Every private name that jitpkg uses, by topic."""
