"""What is found out about one part of an installation."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from jitpkg.dataclass import dataclass
from jitpkg.interrupts import from_outside


class State(StrEnum):
    """What it means for a program."""

    FINE = "fine"
    LESS = "less"
    """Something is slower, or missing, and what it is is said."""
    BROKEN = "broken"
    """No function is compiled."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report, and what stands below it."""

    label: str
    text: str
    state: State = State.FINE
    details: tuple[str, ...] = ()


def examined(label: str, look: Callable[[], Finding], otherwise: State = State.LESS) -> Finding:
    """What a look gives; where it raises, that is the finding."""
    try:
        return look()
    except Exception as error:
        if from_outside(error):
            raise
        return Finding(label, in_words(error), otherwise)


def in_words(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
