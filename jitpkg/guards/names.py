"""What the text of a test may ask of the function that it is written into."""

from __future__ import annotations

from typing import Protocol

from jitpkg.guards.sources import Source


class Names(Protocol):
    """What generated text calls things."""

    def of(self, source: Source) -> str:
        """The expression or variable that holds what `source` leads to."""

    def hold(self, obj: object, hint: str) -> str:
        """The name of an object that the generated function holds."""
