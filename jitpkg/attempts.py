"""Compiled code that fails where the same ops, one by one, do not: that is said, and ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitpkg import config, events
from jitpkg.errors import BackendError
from jitpkg.messages import warn

MOST = 3
"""So many failures, and compiled code is not tried again: it may lack memory for a while."""


class Attempts:
    """How often the compiled code of one graph has failed.

    Args:
        graph: its name.
    """

    def __init__(self, graph: str) -> None:
        self._graph = graph
        self._failed = 0
        self.given_up = False
        """Whether it is not to be tried again."""

    def note(self, why: str) -> None:
        """Note a failure for a reason: ops one by one have given a result instead.

        Raises:
            BackendError: failures are to be raised.
        """
        self._failed += 1
        self.given_up = self._failed >= MOST
        events.STREAM.emit(events.GraphFailed(self._graph, why, self.given_up))
        said = f"the compiled code of {self._graph} failed when it ran ({why})"
        if config.current().raises:
            raise BackendError(said)
        if self._failed == 1:
            warn(
                f"The ops of a graph run one by one, because {said}. After {MOST} failures it is"
                " not tried again. Please report it to the authors of the backend."
            )


class OpByOp:
    """Runs a graph's original ops, because its compiled code has failed: one of them may be to
    blame, and raises again, with all that comes before it done.

    Args:
        graph: its name.
        original: the ops' function.
    """

    def __init__(self, graph: str, original: Callable[..., Any]) -> None:
        self.original = original
        self.attempts = Attempts(graph)

    def run(self, why: str, *inputs: Any) -> Any:
        results = self.original(*inputs)
        self.attempts.note(why)
        return results


def words(error: Exception) -> str:
    """What an exception says."""
    return f"{type(error).__name__}: {error}"
