"""A graph that fails at run time.

If nothing that anyone can see has happened before the op that failed, the original code runs and
raises the exception itself. Otherwise the exception goes on as if raised at the op's own line; the
tracer has seen to it that no effect and no handler of the program comes into question then.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from torch import fx

from jitpkg.errors import Location
from jitpkg.tracer import state
from jitpkg.tracer.trace import Trace
from jitpkg.tracer.vm import Failure


class Failures:
    """Decides what happens when a graph raises."""

    def __init__(self, trace: Trace, module: fx.GraphModule, compiled: Callable[..., Any]) -> None:
        ops = [node for node in module.graph.nodes if node.op.startswith("call")]
        self._ops = tuple((node.name, trace.failures.get(node.name)) for node in ops)
        self._restore = state.snapshot()
        self._codes = {type(module).forward.__code__, getattr(compiled, "__code__", None)}

    def decide(self, error: BaseException) -> bool:
        """True to run the original code; otherwise raises `error` as the program would."""
        failure = self._failure(error)
        self._restore()
        restart = self._may_always_restart if failure is None else failure.may_restart
        if restart and isinstance(error, Exception):
            return True
        if failure is None or failure.where.where is None:
            raise error
        raise_at(error, failure.where.where)

    @property
    def _may_always_restart(self) -> bool:
        return all(failure is None or failure.may_restart for _, failure in self._ops)

    def _failure(self, error: BaseException) -> Failure | None:
        """What is known of the op that failed: the first that has not been computed."""
        frame = self._frame(error)
        if frame is None:
            return None
        computed: dict[str, Any] = frame.f_locals
        return next((f for name, f in self._ops if name not in computed), None)

    def _frame(self, error: BaseException) -> FrameType | None:
        traceback = error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code in self._codes:
                return traceback.tb_frame
            traceback = traceback.tb_next
        return None


def raise_at(error: BaseException, where: Location) -> NoReturn:
    """Raise `error` from a frame that shows a place in the user's source."""
    error.__traceback__ = None
    line = max(1, where.line or 1)
    code = compile("\n" * (line - 1) + "raise error", where.file, "exec")
    exec(code.replace(co_name=where.function, co_qualname=where.function), {"error": error})
    raise error
