"""Graph breaks in words: what, where, why, what to do; and warnings at the user's line."""

from __future__ import annotations

import difflib
import importlib
import linecache
import os
import sys
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import CodeType

from jitpkg.errors import Break, JitpkgWarning, Location

WIDTH = 96


def break_message(graph_break: Break) -> str:
    """The four beats of a break, with the user's line and a caret."""
    reason = graph_break.reason
    lines = [graph_break.title()]
    lines.extend(f"  {location}" for location in places(graph_break))
    if graph_break.where is not None:
        lines.extend(quoted(graph_break.where))
    lines.extend(wrapped("Why: ", reason.why))
    lines.extend(wrapped("What to do: ", reason.fix))
    return "\n".join(lines)


def guess_message(way: bool, stack: Sequence[Location]) -> str:
    """Which way of a branch on data a graph takes, with the user's line."""
    lines = [
        f"goes on as if this were {'true' if way else 'false'}, and looks when the graph has run"
    ]
    if stack:
        lines += [f"  {place(stack[-1])}", *quoted(stack[-1])]
    return "\n".join(lines)


def specialized_message(test: str, stack: Sequence[Location]) -> str:
    """What makes one number of a size that is marked as dynamic, and where."""
    lines = [f"A size is marked as dynamic, and the function works only while {test}."]
    lines.extend(f"  {location}" for location in stack if not _is_call_of_module(location))
    lines.extend(quoted(stack[-1]) if stack else ())
    why = "What is done there depends on the size itself: compiled code for others would be wrong."
    lines.extend(wrapped("Why: ", why))
    fix = (
        "Compute with the size in a way that all sizes have in common; or leave out the mark, or"
        " use maybe_mark_dynamic, and the function is compiled for each such size."
    )
    lines.extend(wrapped("What to do: ", fix))
    return "\n".join(lines)


def places(graph_break: Break) -> Sequence[Location]:
    """The stack, without the two steps that every call of a module takes in torch."""
    last = graph_break.where
    return [at for at in graph_break.stack if at is last or not _is_call_of_module(at)]


def _is_call_of_module(location: Location) -> bool:
    return location.file.endswith(_CALLS_OF_MODULES)


def wrapped(label: str, text: str) -> list[str]:
    """A labelled paragraph in lines that a terminal shows whole."""
    return textwrap.wrap(
        label + text,
        WIDTH,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(bytes_: int) -> str:
    """How much memory, with a unit."""
    if bytes_ >= 2**20:
        return f"{bytes_ / 2**20:.1f} MiB"
    return f"{bytes_ / 2**10:.0f} KiB" if bytes_ >= 2**10 else counted(bytes_, "byte")


def duration(seconds: float) -> str:
    """A time, with a unit and three digits."""
    unit = "s" if seconds >= 1 else "ms" if seconds >= 1e-3 else "us"
    return f"{seconds * {'s': 1, 'ms': 1e3, 'us': 1e6}[unit]:.3g} {unit}"


def near(name: object, names: Iterable[str]) -> str:
    """A sentence that asks for the nearest of the names that there are, where one is near."""
    close = difflib.get_close_matches(name, names, n=1) if isinstance(name, str) else []
    return f" Do you mean {close[0]!r}?" if close else ""


def place(location: Location) -> str:
    """A place in one short line: files of packages, and below the working directory, by what is
    their own of the path."""
    file = Path(location.file)
    try:
        shown = str(file.relative_to(Path.cwd()))
    except (ValueError, OSError):
        shown = location.file.rpartition(_PACKAGES)[2]
    return f"{shown}:{location.line}, in {location.function}"


def beginning(code: CodeType) -> str:
    """The file, without its folder, and the line where code begins."""
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


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


_PACKAGES = f"{os.sep}site-packages{os.sep}"
_CALLS_OF_MODULES = str(Path("torch", "nn", "modules", "module.py"))
_IMPORTS = ("<frozen importlib", str(Path(importlib.__file__).parent) + os.sep)
_OWN = (str(Path(__file__).parent) + os.sep, "<jitpkg ", *_IMPORTS)


def warn(text: str) -> None:
    """Warn at the line of the program that led here."""
    frame = sys._getframe(0)
    while frame.f_back is not None and _is_passed(frame.f_code.co_filename):
        frame = frame.f_back
    place = frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__")
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, JitpkgWarning, *place, registry)


def _is_passed(file: str) -> bool:
    return file.startswith(_OWN) or file.endswith(_CALLS_OF_MODULES)
