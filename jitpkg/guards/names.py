"""What the text of a test may ask of the function that it is written into."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from jitpkg.guards.sources import Source, described, object_name


class Computed(Hashable, Protocol):
    """What is computed by an expression."""

    def text(self, names: Names) -> str:
        """The expression."""


class Names(Protocol):
    """What generated text calls things."""

    def of(self, source: Source) -> str:
        """The expression or variable that holds what `source` leads to."""

    def hold(self, obj: object, hint: str) -> str:
        """The name of an object that the generated function holds."""

    def computed(self, number: Computed) -> str:
        """The expression or variable of what is computed."""


class InWords:
    """Names as a person would write them."""

    def of(self, source: Source) -> str:
        return described(source)

    def hold(self, obj: object, hint: str) -> str:
        return hint or object_name(obj)

    def computed(self, number: Computed) -> str:
        return number.text(self)
