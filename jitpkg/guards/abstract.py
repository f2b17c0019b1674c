"""The guard on what abstract classes say of other classes."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable

from jitpkg.dataclass import dataclass
from jitpkg.guards.names import Names
from jitpkg.guards.sources import Held, Source
from jitpkg.interrupts import from_outside

Answer = tuple[type, type, bool]
"""A class, an abstract class, and whether that one takes it for a subclass."""


@dataclass(frozen=True, slots=True)
class SubclassesAre:
    """What abstract classes answer.

    They may change their minds when a class is registered with any of them, which changes a token
    of the process: then they are asked again, and nothing is traced again where they have not.
    """

    token: object
    """The one under which they have answered so."""
    found: tuple[Answer, ...]

    @property
    def at(self) -> Source:
        return Held(self.found[0][1])

    def test(self, names: Names) -> str:
        token = names.hold(abc.get_cache_token, "cache_token")
        check = names.hold(_check(self.token, self.found), "same_subclasses")
        return f"{token}() == {self.token} or {check}()"

    def why(self, now: object) -> str:
        for cls, of, answer in self.found:
            if not _answers(cls, of, answer):
                no = "no " if answer else "a "
                return f"{cls.__qualname__} is {no}subclass of {of.__qualname__} now"
        return "what is registered with abstract classes has changed"


def merged(guards: Iterable[SubclassesAre]) -> list[SubclassesAre]:
    """One guard in place of several."""
    found: dict[object, dict[Answer, None]] = {}
    for guard in guards:
        found.setdefault(guard.token, {}).update(dict.fromkeys(guard.found))
    return [SubclassesAre(token, tuple(answers)) for token, answers in found.items()]


def _check(token: object, found: tuple[Answer, ...]) -> Callable[[], bool]:
    known = token

    def same() -> bool:
        nonlocal known
        now = abc.get_cache_token()
        if now == known:
            return True
        if not all(_answers(*each) for each in found):
            return False
        known = now
        return True

    return same


def _answers(cls: type, of: type, answer: bool) -> bool:
    try:
        return issubclass(cls, of) is answer
    except Exception as error:  # the program's own, which will be raised where it asks
        if from_outside(error):
            raise
        return False
