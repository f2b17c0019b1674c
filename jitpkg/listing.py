"""Generated Python source, where tracebacks and debuggers find it."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch import fx

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
    weakref.finalize(function, linecache.cache.pop, file, None).atexit = False


def show(file: str, source: str) -> None:
    """Show `source` as the text of a file until somebody drops it."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)


def drop_with(owner: fx.GraphModule | Callable[..., Any], file: str) -> None:
    """Forget the text that FX keeps for a module, which it does for ever, when the owner dies."""
    weakref.finalize(owner, _drop, file, _kept()).atexit = False


def texts_of_fx() -> set[str]:
    """The files of all modules that FX keeps the text of."""
    return set(_kept() or ())


def _kept() -> dict[str, str] | None:
    return library.TEXTS.found()


def _drop(file: str, texts: dict[str, str] | None) -> None:
    """Runs at any moment, in the midst of an import, too: imports nothing."""
    linecache.cache.pop(file, None)
    if texts is not None:
        texts.pop(file, None)
