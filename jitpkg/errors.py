"""The exceptions that a user can meet, and the catalogue of break reasons.

An error says what happened, where, why, and what to do.
"""

from __future__ import annotations

from dataclasses import field

from jitpkg.dataclass import dataclass


class JitpkgError(Exception):
    """Base of everything that jitpkg raises itself."""


class InvalidArgument(JitpkgError, ValueError):
    """A call of jitpkg's API was given something that it cannot take."""


class NotCompilable(JitpkgError, TypeError):
    """Something that is neither a Python function nor a module was to be compiled."""


class SizeSpecialized(JitpkgError, RuntimeError):
    """A size was marked as dynamic, and the function works for the present one only."""


class RecompileLimit(JitpkgError, RuntimeError):
    """`fullgraph=True` was asked for, and a call would need one entry more than there may be."""


class RecompileForbidden(JitpkgError, RuntimeError):
    """The stance is `fail_on_recompile`, and a call fits nothing that is compiled."""


class BackendError(JitpkgError, RuntimeError):
    """A backend failed: it could not compile a graph, or ran one halfway."""


class NativeError(BackendError):
    """Native code cannot be had: LLVM is not there, or it refused the code that it was given."""


class IncorrectResult(JitpkgError, RuntimeError):
    """`verify_correctness` is on, and compiled code does not do what the program does."""


class InternalError(JitpkgError, RuntimeError):
    """A mistake in jitpkg itself. Users see it only under `JITPKG_STRICT=1`."""


class JitpkgWarning(UserWarning):
    """jitpkg warns: a limit was reached, or the original code runs in place of the compiled."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A kind of graph break: an entry of the catalogue."""

    code: str
    title: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source, as precise as the code object knows it."""

    file: str
    function: str
    line: int | None
    last_line: int | None = None
    column: int | None = None
    last_column: int | None = None

    def __str__(self) -> str:
        return f'File "{self.file}", line {self.line}, in {self.function}'


@dataclass(frozen=True, slots=True)
class Break:
    """One graph break: why, where, and through which calls."""

    reason: Reason
    detail: str = ""
    stack: tuple[Location, ...] = field(default=())
    """Outermost call first; the last is where the break is."""

    @property
    def where(self) -> Location | None:
        return self.stack[-1] if self.stack else None

    def title(self) -> str:
        """One line: the code, the kind of break, and what it is here."""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.reason.code}: {self.reason.title}{detail}"


class GraphBreak(JitpkgError, RuntimeError):
    """`fullgraph=True` was asked for, and the function cannot be one graph.

    Attributes:
        graph_break: what broke it.
    """

    def __init__(self, message: str, graph_break: Break) -> None:
        super().__init__(message)
        self.graph_break = graph_break

    def __reduce__(self) -> tuple[type[GraphBreak], tuple[str, Break]]:
        return type(self), (self.args[0], self.graph_break)
