"""The registry of backends, and the backend that runs a graph as it is."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, TypeVar

from torch import fx

from jitpkg.codegen.straight_line import straight_line
from jitpkg.errors import InvalidArgument

Backend = Callable[..., Callable[..., Any]]
"""`backend(gm, example_inputs) -> callable`: compiles a graph; see `torch.compile`."""

B = TypeVar("B", bound=Backend)

GROUP = "jitpkg.backends"
"""The entry-point group in which packages offer backends."""


def eager(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Run the graph as it is, op by op."""
    return straight_line(type(gm).__name__, gm.graph)


class Registry:
    """Backends by name."""

    def __init__(self, builtin: Mapping[str, Backend]) -> None:
        self._lock = threading.Lock()
        self._backends = dict(builtin)

    def register(self, backend: B, name: str | None = None) -> B:
        """Make a backend known by name (its own by default); returns it.

        Raises:
            InvalidArgument: it is not callable, or the name is taken.
        """
        if not callable(backend):
            raise InvalidArgument(
                f"A backend is a function of a graph and inputs, not {backend!r}."
            )
        name = name or getattr(backend, "__name__", None)
        if not name:
            raise InvalidArgument(
                f"{backend!r} has no name: give one, register_backend(b, name=…)."
            )
        with self._lock:
            if self._backends.get(name, backend) is not backend:
                raise InvalidArgument(f"There is a backend {name!r} already; choose another name.")
            self._backends[name] = backend
        return backend

    def names(self) -> list[str]:
        """All names, those of installed packages included."""
        return sorted({*self._backends, *(e.name for e in entry_points(group=GROUP))})

    def find(self, backend: str | Backend) -> Backend:
        """A backend by name; a callable is its own.

        Raises:
            InvalidArgument: there is none of that name.
        """
        if callable(backend):
            return backend
        if not isinstance(backend, str):
            raise InvalidArgument(f"backend= takes a name or a function, not {backend!r}.")
        found = self._backends.get(backend)
        if found is not None:
            return found
        for entry in entry_points(group=GROUP):
            if entry.name == backend:
                offered: Backend = entry.load()
                return self.register(offered, backend)
        raise InvalidArgument(
            f"There is no backend {backend!r}.{_near(backend, self.names())}"
            f" The backends are: {', '.join(self.names())}."
        )


def _near(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f" Do you mean {close[0]!r}?" if close else ""


REGISTRY = Registry({"eager": eager})
"""The process's backends."""
