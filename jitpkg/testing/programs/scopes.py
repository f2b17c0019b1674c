"""Which variables are there while a program is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """A name, or a path such as `self.items`, and the kind of its value."""

    text: str
    kind: str
    is_fixed: bool = False
    """Whether no statement may assign it: it counts the turns of a loop, say."""

    @property
    def is_name(self) -> bool:
        return self.text.isidentifier()


@dataclass(eq=False, slots=True)
class Scope:
    """The variables of a function that is being written."""

    outer: Scope | None = None
    variables: list[Variable] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)
    """Names of outer scopes that it may assign."""
    is_generator: bool = False
    loops: int = 0

    def visible(self) -> Iterator[Variable]:
        """The newest first; those of outer functions unless an inner one has the name."""
        own = {v.text.partition(".")[0] for v in self.variables}
        yield from reversed(self.variables)
        if self.outer is not None:
            yield from (v for v in self.outer.visible() if v.text.partition(".")[0] not in own)

    def of(self, kinds: frozenset[str]) -> list[Variable]:
        """Variables that can be read."""
        return [v for v in self.visible() if v.kind in kinds]

    def assignable(self, kinds: frozenset[str] | None) -> list[Variable]:
        """Those that a statement can assign; of all kinds, if `kinds` is None."""
        own = {v.text for v in self.variables} | self.declared
        return [
            v
            for v in self.visible()
            if (kinds is None or v.kind in kinds)
            and not v.is_fixed
            and (not v.is_name or v.text in own)
        ]
