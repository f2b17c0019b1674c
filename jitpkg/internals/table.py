"""All rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    profiles,
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
    profiles,
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
    """The rows that a module defines, by themselves, as tuples or by names."""
    for value in vars(module).values():
        match value:
            case Mapping():
                every = tuple(value.values())
            case tuple():
                every = value
            case _:
                every = (value,)
        yield from (each for each in every if isinstance(each, Row))


ROWS: tuple[Row[Any], ...] = tuple(
    dict.fromkeys(row for module in _MODULES for row in rows_of(module))
)
"""Every private name that jitpkg uses, by topic."""
