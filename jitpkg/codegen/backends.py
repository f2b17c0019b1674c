"""The registry of backends, and the backend that runs a graph as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from torch import fx

from jitpkg import collector, forks, native
from jitpkg.codegen.graph.grad_modes import has_backward
from jitpkg.codegen.graph.python import straight_line
from jitpkg.codegen.parts.in_parts import in_parts
from jitpkg.codegen.parts.stages import around_backward
from jitpkg.errors import InvalidArgument
from jitpkg.messages import near

Backend = Callable[..., Callable[..., Any]]
"""`backend(gm, example_inputs) -> callable`: compiles a graph; see `torch.compile`."""

B = TypeVar("B", bound=Backend)

GROUP = "jitpkg.backends"
"""The entry-point group in which packages offer backends."""


def eager(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Run the graph as it is, op by op."""
    return straight_line(type(gm).__name__, gm.graph)


def _object_code(text: str) -> bytes:
    from jitpkg.codegen.cache.objects import object_code  # where nothing is compiled, no cache

    return object_code(text)


native.compile_by(_object_code)


class Registry:
    """Backends by name."""

    def __init__(self, builtin: Mapping[str, Backend], on_demand: Mapping[str, str]) -> None:
        """Make one with the package's own backends.

        Args:
            on_demand: where those are, as "module:name", that are imported when they are asked for.
        """
        self._lock = forks.lock()
        self._backends = dict(builtin)
        self._on_demand = tuple(EntryPoint(name, place, GROUP) for name, place in on_demand.items())

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
            own = any(entry.name == name for entry in self._on_demand)
            if own or self._backends.get(name, backend) is not backend:
                raise InvalidArgument(f"There is a backend {name!r} already; choose another name.")
            self._backends[name] = backend
        return backend

    def names(self) -> list[str]:
        """All names, those of installed packages included."""
        return sorted({*self._backends, *(entry.name for entry in self._offered())})

    def _offered(self) -> Iterator[EntryPoint]:
        """What can be imported: the package's own first, which no other can replace."""
        yield from self._on_demand
        yield from entry_points(group=GROUP)

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
        for entry in self._offered():
            if entry.name == backend:
                return self._loaded(entry)
        raise InvalidArgument(
            f"There is no backend {backend!r}.{near(backend, self.names())}"
            f" The backends are: {', '.join(self.names())}."
        )

    def _loaded(self, entry: EntryPoint) -> Backend:
        try:
            with collector.resting():
                offered: Backend = entry.load()
        except Exception as error:
            raise InvalidArgument(
                f"The backend {entry.name!r} cannot be imported from {entry.value}:"
                f" {type(error).__name__}: {error}"
            ) from error
        if not callable(offered):
            raise InvalidArgument(
                f"The backend {entry.name!r} is no function: {entry.value} is {offered!r}."
            )
        with self._lock:
            return self._backends.setdefault(entry.name, offered)


def configured(
    name: str, backend: Backend, mode: str | None, options: Mapping[str, Any] | None
) -> Backend:
    """A backend as it is with these settings; a function is given `options=` with each graph.

    Raises:
        InvalidArgument: it takes no such settings.
    """
    own = getattr(backend, "configured", None)
    if own is not None:
        configured_backend: Backend = own(mode, options)
        return configured_backend
    if not options:
        return backend if name in WITHOUT_OPTIONS else _of_whole_graphs(name, backend)
    if name in WITHOUT_OPTIONS:
        raise InvalidArgument(f"The backend {name!r} takes no options; {', '.join(options)} given.")
    with_options = lambda gm, inputs: backend(gm, inputs, options=dict(options))  # noqa: E731
    return _of_whole_graphs(name, with_options)


def _of_whole_graphs(name: str, backend: Backend) -> Backend:
    """A backend that somebody has written, for graphs with a backward pass inside, or with numbers
    that are made of tensors, too."""

    def compile_(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        cut = in_parts(name, gm, inputs, compile_, takes_floats=False)
        if cut is not None:
            return cut
        if has_backward(gm.graph):
            return around_backward(gm, inputs, backend)
        return backend(gm, inputs)

    return compile_


WITHOUT_OPTIONS = ("eager", "aot_eager")

REGISTRY = Registry(
    {"eager": eager},
    {
        "aot_eager": "jitpkg.codegen.autograd.aot.aot_eager:aot_eager",
        "inductor": "jitpkg.codegen.autograd.aot.inductor:inductor",
        "jitpkg": "jitpkg.codegen.backend:own",
    },
)
"""The process's backends."""
