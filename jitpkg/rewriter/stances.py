"""What a call does that would have to be compiled: see `config.STANCES`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from jitpkg.config import Options
from jitpkg.errors import GraphBreak, SizeSpecialized
from jitpkg.facts.thread_state import function_modes, leave_modes
from jitpkg.guards.explain import FirstFailure
from jitpkg.interrupts import from_outside, uninterrupted
from jitpkg.rewriter.compiler import Compiler
from jitpkg.rewriter.produce import look
from jitpkg.rewriter.region import Region
from jitpkg.rewriter.telling import compiling_forbidden


def may_compile(
    name: str,
    region: Region,
    arguments: tuple[object, ...],
    compiler: Compiler,
    options: Options,
    failures: Callable[[], Sequence[FirstFailure]],
) -> bool:
    """Whether a call that fits no entry is to be compiled.

    Args:
        name: of the function.
        failures: why each entry does not fit.

    Raises:
        RecompileForbidden: the stance says so.
    """
    match options.stance:
        case "eager_on_recompile":
            return False
        case "fail_on_recompile":
            compiling_forbidden(name, failures())
        case "eager_then_compile" if region.history.is_new:
            uninterrupted(
                lambda: _look(name, region, arguments, compiler, options),
                partial(leave_modes, function_modes()),
            )
            region.history.is_new = False
            return False
        case _:
            return True


def _look(
    name: str,
    region: Region,
    arguments: tuple[object, ...],
    compiler: Compiler,
    options: Options,
) -> None:
    try:
        look(f"{name}#0", region.handover, arguments, compiler, options, region.history)
    except (GraphBreak, SizeSpecialized):
        raise
    except Exception as error:
        if from_outside(error):
            raise
        # the next call compiles, and tells
