"""Questions about the PyTorch that is installed, which a small trial answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps

from jitpkg.internals.usual import usual_state


def asked_once(question: Callable[[], bool]) -> Callable[[], bool]:
    """The answer to a question, found when it is first needed, in whatever state that is.

    The trial sees the usual state. The answer is kept.
    """

    @cache
    @wraps(question)
    def answer() -> bool:
        with usual_state():
            return question()

    return answer
