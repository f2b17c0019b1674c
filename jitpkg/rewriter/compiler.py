"""What all functions that are compiled in one way share: the backend, options, and twins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import fx

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]
"""Compiles a graph for example inputs into a callable that takes such inputs."""


@dataclass(frozen=True, eq=False, slots=True)
class Compiler:
    """How to compile: the same for a function and whatever is reached through its breaks."""

    backend: Backend
    fullgraph: bool = False
    dynamic: bool | None = None
    twin: Callable[[Any], Any] = field(default=lambda function: function)
    """Gives a compiled twin of a callable that is called next."""
    reset: Callable[[], None] = field(default=lambda: None)
    """Forgets all twins."""
