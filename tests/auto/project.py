"""Modules in a folder that are imported with the hook, and what can be seen of their functions."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jitpkg import events
from jitpkg.rewriter.hooked import Stub
from jitpkg.rewriter.originals import ORIGINALS


class Project:
    """A folder of modules, which are imported with the hook."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: set[str] = set()
        self.compiled: list[str] = []

    def write(self, name: str, source: str) -> Path:
        file = self.folder / f"{name.replace('.', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, encoding="utf-8")
        importlib.invalidate_caches()
        return file

    def load(self, name: str, source: str) -> Any:
        self.write(name, source)
        self.names.add(name)
        return importlib.import_module(name)

    def heard(self, event: events.Event) -> None:
        if isinstance(event, events.GraphCompiled):
            self.compiled.append(event.function)


def has_stub(function: Any) -> bool:
    code = function.__code__
    return ORIGINALS.of(code) is not code


def stubs_of(function: Any) -> list[Stub]:
    doors = [const for const in function.__code__.co_consts if isinstance(const, weakref.ref)]
    return [door() for door in doors if isinstance(door(), Stub)]


def called(function: Callable[..., Any], *arguments: Any, times: int = 4) -> list[Any]:
    return [function(*arguments) for _ in range(times)]
