"""What all functions that are compiled in one way share: the backend, options, and twins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import CellType, CodeType
from typing import Any, Protocol

from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.rewriter.ledger import Ledger
from jitpkg.rewriter.points import Points

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]
"""Compiles a graph for example inputs into a callable that takes such inputs."""


class Middle(Protocol):
    """Where functions of one code object go on after a break inside of them."""

    points: Points

    @property
    def has_graph(self) -> bool:
        """Whether any of them has a graph of its own."""
        ...

    def hook(self, points: Sequence[int]) -> None:
        """Go on compiled from these points."""
        ...

    def continuation(
        self,
        p: int,
        globals_: dict[str, object],
        free: tuple[CellType, ...],
        own: tuple[CellType, ...],
        state: tuple[Any, ...],
    ) -> Callable[..., Any]:
        """A function that goes on at `p`, once, whatever it is called with.

        Args:
            free: the closure's cells.
            own: the function's own cells.
            state: the locals that nothing stores to, and the tuple that an exit to `p` restores.
        """
        ...


def _no_middle(code: CodeType, name: str) -> Middle:
    raise LookupError(name)


@dataclass(frozen=True, eq=False, slots=True)
class Compiler:
    """How to compile: the same for a function and whatever is reached through its breaks."""

    backend: Backend
    fullgraph: bool = False
    dynamic: bool | None = None
    twin: Callable[[Any], Any] = field(default=lambda function: function)
    """Gives a compiled twin of a callable that is called next."""
    middle: Callable[[CodeType, str], Middle] = field(default=_no_middle)
    """Gives what a function can be entered through in its middle, by its code and name."""
    quiet: bool = False
    """Nobody has asked for these functions to be compiled: a limit is no matter for a warning."""
    asked: bool = True
    """A program has asked for this function, and for none of the same name before: each of its
    regions is compiled once, whatever functions owe."""
    name: str | None = None
    """What reports call the function that was asked for."""
    recompile_limit: int | None = None
    """How many entries a region may have, where it is not as the setting says."""
    varying: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    """Dims of arguments, by name, of which the size varies from the first call on; None for a
    number."""
    ledger: Ledger | None = None
    """What all functions owe; None where a function is compiled whatever it gains."""
    reset: Callable[[], None] = field(default=lambda: None)
    """Forgets all twins."""
    reached: Callable[[], Sequence[Any]] = field(default=tuple)
    """Gives the dispatchers of all functions that were reached through breaks."""
