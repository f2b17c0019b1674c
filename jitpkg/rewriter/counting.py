"""How often entries run: what their code has for that."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import field
from itertools import repeat
from types import CodeType, FunctionType

from jitpkg import config, events, listing
from jitpkg.dataclass import dataclass
from jitpkg.guards.text import Text
from jitpkg.rewriter.gains import Meter

MOST = sys.maxsize
"""Calls that are counted."""


def counted_calls() -> Iterator[None] | None:
    """What an entry takes one of at each call; None where nobody wants to know of calls."""
    is_asked = events.STREAM.counts or config.current().count_calls
    return repeat(None, MOST) if is_asked else None


@dataclass(eq=False, slots=True)
class Counting:
    """The lines of an entry that count calls: they are there until it has paid back."""

    meter: Meter
    lines: tuple[str, ...] = ()
    source: str = ""
    """Of the entry without them."""
    runs: list[FunctionType] = field(default_factory=list)

    def write(self, text: Text) -> None:
        """Add the lines."""
        unpaid, paid = text.hold(self.meter.uncounted, "unpaid"), text.hold(self.end, "paid")
        self.lines = f"for _ in {unpaid}: break", f"else: {paid}()"
        for line in self.lines:
            text.line(line)

    def end(self) -> None:
        """Called by the entry when it has taken the last of `Meter.unpaid`."""
        self.meter.settle()
        source, self.source = self.source, ""
        if not source:
            return
        code = self.runs[0].__code__
        listing.show(code.co_filename, source)
        module = compile(source, code.co_filename, "exec")
        (plain,) = (const for const in module.co_consts if isinstance(const, CodeType))
        plain = plain.replace(co_name=code.co_name, co_qualname=code.co_qualname)
        for run in self.runs:
            run.__code__ = plain
