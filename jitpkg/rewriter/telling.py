"""What users are told where a function is not compiled: by a warning, or by an exception."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from functools import cache
from typing import NoReturn

from jitpkg import config, events
from jitpkg.errors import (
    BackendError,
    Break,
    GraphBreak,
    InternalError,
    RecompileForbidden,
    RecompileLimit,
)
from jitpkg.guards.explain import FirstFailure
from jitpkg.messages import break_message, warn
from jitpkg.rewriter.compiler import Compiler


def not_whole(name: str, graph_break: Break) -> NoReturn:
    """The function was to be one graph.

    Raises:
        GraphBreak: always.
    """
    events.STREAM.emit(events.Broke(name, graph_break))
    raise GraphBreak(break_message(graph_break), graph_break)


def limit_reached(
    name: str, limit: int, failures: Sequence[FirstFailure], compiler: Compiler
) -> None:
    """A call fits none of as many entries as there may be, for these reasons.

    Raises:
        RecompileLimit: the function was to be one graph.
    """
    reasons = tuple(failure.sentence for failure in failures)
    events.STREAM.emit(events.LimitReached(name, limit, reasons))
    told = f"{name} has been compiled {limit} times, which is the limit"
    why = (
        f"The last call did not fit because {reasons[-1]}. Make that the same from call to call,"
        " or raise the limit with recompile_limit=."
    )
    if compiler.fullgraph:
        raise RecompileLimit(f"{told}, and with fullgraph=True there is no other way. {why}")
    if not compiler.quiet:
        warn(f"{told}: calls that fit none of the entries run the original code. {why}")


def compiling_forbidden(name: str, failures: Sequence[FirstFailure]) -> NoReturn:
    """A call fits none of the entries, for these reasons, and nothing is to be compiled.

    Raises:
        RecompileForbidden: always.
    """
    why = "nothing of it is compiled yet"
    if failures:
        why = f"the call fits nothing that is compiled, because {failures[-1].sentence}"
    raise RecompileForbidden(
        f"{name} would be compiled, which the stance 'fail_on_recompile' forbids: {why}. Make all"
        " kinds of calls before the stance is set, or choose 'eager_on_recompile'."
    )


@cache
def forked() -> None:
    """Nothing is compiled in this process; told once."""
    warn(
        "This process was forked while another thread compiled: nothing more is compiled in it, and"
        " what was compiled before stays in use. Fork when no other thread calls compiled functions"
        " for the first time, or start processes by spawn."
    )


def failed(name: str, error: Exception, options: config.Options) -> None:
    """A backend failed, or jitpkg did.

    Raises:
        BackendError, InternalError: failures are to be raised.
    """
    events.STREAM.emit(events.FellBack(name, error))
    if options.raises:
        if isinstance(error, InternalError | BackendError):
            raise error
        raise InternalError(f"while compiling {name}: {error!r}") from error
    trace = "".join(["\n", *traceback.format_exception(error)]) if options.verbose else ""
    if isinstance(error, BackendError):
        warn(f"The original code of {name} runs, because {error}{trace}")
        return
    warn(
        f"jitpkg could not compile {name} and runs the original code; this is a mistake in jitpkg,"
        f" please report it ({type(error).__name__}: {error}).{trace}"
    )
