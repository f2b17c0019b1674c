"""The table of operations: a handler reads as its stack effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from jitpkg.code.dialect import Op
from jitpkg.tracer.frames import Finished, Frame
from jitpkg.tracer.vm import VM

Handler = Callable[[VM, Frame, Op], Finished | None]


class OpTable:
    """Handlers by operation name, filled by decorators while its module is loaded."""

    def __init__(self) -> None:
        self.rows: dict[str, Handler] = {}

    def op(self, *names: str) -> Callable[[Handler], Handler]:
        """Register the handler of these operations."""

        def register(handler: Handler) -> Handler:
            for name in names:
                if name in self.rows:
                    raise ValueError(f"two handlers of {name}")
                self.rows[name] = handler
            return handler

        return register


def merged(*tables: OpTable) -> Mapping[str, Handler]:
    """One table of several; an operation may be in one of them only."""
    rows: dict[str, Handler] = {}
    for table in tables:
        if twice := rows.keys() & table.rows.keys():
            raise ValueError(f"two handlers of {sorted(twice)}")
        rows.update(table.rows)
    return MappingProxyType(rows)
