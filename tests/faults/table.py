"""What was tried, how often, and what was found."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Row:
    """One kind of fault."""

    what: str
    tried: int = 0
    wrong: list[str] = field(default_factory=list)
    """What was not as it should be, in words."""
    notes: dict[str, int] = field(default_factory=dict)
    """What happened, and how often."""
    began: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0

    def note(self, what: str, count: int = 1) -> None:
        self.notes[what] = self.notes.get(what, 0) + count

    def expect(self, what: str, holds: object) -> None:
        if not holds:
            self.wrong.append(what)

    def ended(self) -> Row:
        self.seconds = time.perf_counter() - self.began
        return self


def shown(rows: list[Row]) -> str:
    """The rows as a table."""
    lines = [f"{'fault':44} {'tried':>6} {'wrong':>6} {'s':>6}  what happened"]
    for row in rows:
        said = ", ".join(f"{count} {what}" for what, count in sorted(row.notes.items()))
        lines.append(
            f"{row.what:44} {row.tried:6} {len(row.wrong):6} {row.seconds:6.0f}  {said}".rstrip()
        )
        lines += [f"    {what}" for what in list(dict.fromkeys(row.wrong))[:5]]
    return "\n".join(lines)
