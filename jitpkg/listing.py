"""Generated Python source, where tracebacks and debuggers find it."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch import fx

from jitpkg import endings
from jitpkg.internals import library


def file_name(name: str) -> str:
    """The file that a generated function is compiled as: no other living one has it."""
    file, k = f"<jitpkg {name}>", 1
    while file in linecache.cache:
        k += 1
        file = f"<jitpkg {name} ({k})>"
    return file


def is_of(file: str, name: str) -> bool:
    """Whether a file is one that `file_name` gives for a name."""
    return file == f"<jitpkg {name}>" or file.startswith(f"<jitpkg {name} (")


def keep(function: FunctionType, source: str) -> None:
    """Show `source` as the text of a function's file for as long as the function lives."""
    file = function.__code__.co_filename
    show(file, source)
    endings.drop_with(function, (linecache.cache, file))


def show(file: str, source: str) -> None:
    """Show `source` as the text of a file until somebody drops it."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)


def drop_with(owner: fx.GraphModule | Callable[..., Any], file: str) -> None:
    """Forget the text that FX keeps for a module, which it does for ever, when the owner dies."""
    texts = _kept()
    entries = [(table, file) for table in (linecache.cache, texts) if table is not None]
    endings.drop_with(owner, *entries)


def texts_of_fx() -> set[str]:
    """The files of all modules that FX keeps the text of."""
    return set(_kept() or ())


def _kept() -> dict[str, str] | None:
    return library.TEXTS.found()
