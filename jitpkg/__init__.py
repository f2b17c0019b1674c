"""jitpkg: a just-in-time compiler for PyTorch in pure Python.

Everything is loaded when it is first used: `import jitpkg` loads neither torch nor the compiler.
"""

import gc
import importlib
import sys
from typing import Any

_HOMES = {
    "jit": "jitpkg.api",
    "compile": "jitpkg.api",
    "reset": "jitpkg.api",
    "list_backends": "jitpkg.api",
    "register_backend": "jitpkg.api",
    "explain": "jitpkg.explanation",
    "Explanation": "jitpkg.explanation",
    "set_logs": "jitpkg.logs",
    "disable": "jitpkg.marks",
    "graph_break": "jitpkg.marks",
    "is_compiling": "jitpkg.marks",
}
_MODULES = ("config", "errors", "events")

__all__ = [*_HOMES, *_MODULES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _module(f"jitpkg.{name}")
    if name in _HOMES:
        value = getattr(_module(_HOMES[name]), name)
        _take_over()
        return value
    raise AttributeError(f"module 'jitpkg' has no attribute {name!r}")


def _module(name: str) -> Any:
    """Load a module while the garbage collector rests: it would walk all of torch, in 0.1 s."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        if collects:
            gc.enable()


def _take_over() -> None:
    """Keep what has been loaded along: a program that is traced finds plain names."""
    for name, home in _HOMES.items():
        loaded = sys.modules.get(home)
        if hasattr(loaded, name):
            globals()[name] = getattr(loaded, name)


def __dir__() -> list[str]:
    return sorted(__all__)
