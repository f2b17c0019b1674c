"""What the programs are made with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def with_arguments(*calls: tuple[Any, ...]) -> Callable[[Any], Any]:
    def add(program: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.extend((program, arguments) for arguments in calls)
        return program

    return add


class Context:
    def __init__(self, log: list[Any], suppress: bool = False) -> None:
        self.log, self.suppress = log, suppress

    def __enter__(self) -> Context:
        self.log.append("in")
        return self

    def __exit__(self, kind: Any, value: Any, tb: Any) -> bool:
        self.log.append(("out", kind and kind.__name__, str(sys.exc_info()[1])))
        return self.suppress
