"""jitpkg: a just-in-time compiler for PyTorch in pure Python.

What is large is loaded when it is first used: `import jitpkg` loads neither torch nor the compiler.
"""

import importlib
from typing import Any

import jitpkg.forks  # noqa: F401  (first: from here on a fork waits while this is imported)
from jitpkg.marks import (
    allow_in_graph,
    assume_constant_result,
    disable,
    disallow_in_graph,
    graph_break,
    is_compiling,
    mark_dynamic,
    mark_static,
    mark_unbacked,
    maybe_mark_dynamic,
)

__version__ = "0.1.0.dev0"

_HOMES = {
    "jit": "jitpkg.api",
    "compile": "jitpkg.api",
    "reset": "jitpkg.api",
    "release_memory": "jitpkg.api",
    "list_backends": "jitpkg.api",
    "register_backend": "jitpkg.api",
    "list_mode_options": "jitpkg.codegen.options",
    "list_options": "jitpkg.codegen.options",
    "explain": "jitpkg.explanation",
    "Explanation": "jitpkg.explanation",
    "stats": "jitpkg.statistics",
    "Statistics": "jitpkg.statistics",
    "set_logs": "jitpkg.logs",
    "on_compile_start": "jitpkg.logs",
    "on_compile_end": "jitpkg.logs",
    "set_stance": "jitpkg.config",
}
_MODULES = ("cache", "config", "errors", "events")

__all__ = [  # noqa: PLE0604
    "allow_in_graph",
    "assume_constant_result",
    "disable",
    "disallow_in_graph",
    "graph_break",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    *_HOMES,
    *_MODULES,
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _module(f"jitpkg.{name}")
    if name in _HOMES:
        value = getattr(_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'jitpkg' has no attribute {name!r}")


def _module(name: str) -> Any:
    """Load a module while the garbage collector rests: it would walk all of torch, in 0.1 s.

    An exception of a signal handler would leave half of torch loaded, and a child half locked.
    """
    from jitpkg import collector, interrupts

    def loaded() -> Any:
        with collector.resting():
            return importlib.import_module(name)

    return interrupts.uninterrupted(loaded)


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
