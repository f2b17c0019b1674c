"""Modules of the standard library as they are without their accelerators in C."""

from __future__ import annotations

import builtins
import importlib.util
from collections.abc import Callable
from typing import Any

_PREFIX = __name__


def functions(module: str, accelerator: str) -> dict[str, Callable[..., Any]]:
    """What a module defines where importing its accelerator fails, by name."""
    found = importlib.util.find_spec(module)
    assert found is not None and found.loader is not None
    code = found.loader.get_code(module)  # type: ignore[attr-defined]

    def import_others(name: str, *details: Any) -> Any:
        if name == accelerator:
            raise ImportError(name)
        return __import__(name, *details)

    names = {**vars(builtins), "__import__": import_others}
    namespace: dict[str, Any] = {"__builtins__": names, "__name__": f"{_PREFIX}.{module}"}
    exec(code, namespace)
    namespace["__builtins__"] = builtins
    return namespace
