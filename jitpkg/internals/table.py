"""All rows."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from jitpkg.internals import (
    aot,
    build,
    c_guards,
    decompositions,
    devices,
    dispatch,
    fake_tensors,
    library,
    modes,
    modules,
    ops,
    settings,
    tensors,
    transforms,
    trees,
)
from jitpkg.internals.row import Row

_MODULES: tuple[ModuleType, ...] = (
    modes,
    tensors,
    trees,
    ops,
    modules,
    dispatch,
    fake_tensors,
    decompositions,
    c_guards,
    aot,
    devices,
    build,
    settings,
    transforms,
    library,
)


def rows_of(module: ModuleType) -> Iterator[Row[Any]]:
    """The rows that a module defines, by themselves or as tuples."""
    for value in vars(module).values():
        every = value if isinstance(value, tuple) else (value,)
        yield from (each for each in every if isinstance(each, Row))


ROWS: tuple[Row[Any], ...] = tuple(
    dict.fromkeys(row for module in _MODULES for row in rows_of(module))
)
"""Every private name that jitpkg uses, by topic."""
