"""Generated Python source, where tracebacks and debuggers find it."""

from __future__ import annotations

import linecache
import weakref
from types import FunctionType


def file_name(name: str) -> str:
    """The file that a generated function is compiled as: no other living one has it."""
    file, k = f"<jitpkg {name}>", 1
    while file in linecache.cache:
        k += 1
        file = f"<jitpkg {name} ({k})>"
    return file


def keep(function: FunctionType, source: str) -> None:
    """Show `source` as the text of a function's file for as long as the function lives."""
    file = function.__code__.co_filename
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    weakref.finalize(function, linecache.cache.pop, file, None).atexit = False
