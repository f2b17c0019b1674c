"""Graph breaks in words: what, where, why, what to do."""

from __future__ import annotations

import linecache

from jitpkg.errors import Break, Location


def break_message(graph_break: Break) -> str:
    """The four beats of a break, with the user's line and a caret."""
    reason = graph_break.reason
    lines = [f"{reason.code}: {graph_break.detail or reason.title}"]
    lines.extend(f"  {location}" for location in graph_break.stack)
    if graph_break.where is not None:
        lines.extend(quoted(graph_break.where))
    lines.append(f"Why: {reason.why}")
    lines.append(f"What to do: {reason.fix}")
    return "\n".join(lines)


def quoted(location: Location) -> list[str]:
    """The source line of a place, and a caret under the part that is meant."""
    if location.line is None:
        return []
    source = linecache.getline(location.file, location.line)
    if not source.strip():
        return []
    text = source.rstrip("\n")
    indent = len(text) - len(text.lstrip())
    lines = [f"    {text.strip()}"]
    if location.column is not None and location.last_column is not None:
        start = len(text.encode()[: location.column].decode(errors="replace")) - indent
        one_line = location.last_line == location.line
        stop = len(text.encode()[: location.last_column].decode(errors="replace")) - indent
        width = max(1, stop - start if one_line else len(text.strip()) - start)
        lines.append("    " + " " * max(0, start) + "^" * width)
    return lines
