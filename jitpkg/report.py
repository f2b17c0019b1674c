"""What a program's end tells: what was compiled, what that cost and gained, what was left alone.

`python -m jitpkg run --report` prints it as tables. Needs no torch.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from types import CodeType, ModuleType
from typing import Protocol

from jitpkg import events
from jitpkg.dataclass import dataclass
from jitpkg.errors import Break
from jitpkg.messages import WIDTH, counted, duration, place
from jitpkg.rewriter.hooked import Hooks, inside
from jitpkg.tracer.reasons import NO_BREAKS

_SHOWN = 20
"""So many rows of a table are shown."""


@dataclass(eq=False, slots=True)
class Row:
    """What is known of a function, and of the parts after its graph breaks."""

    entries: dict[str, Callable[[], int]] = field(default_factory=dict)
    """How often each has run until now."""
    graphs: int = 0
    seconds: float = 0.0
    """Spent on compiling."""
    measured: dict[str, events.Measured] = field(default_factory=dict)
    """By entry."""
    breaks: dict[str, Break] = field(default_factory=dict)
    """By entry that ends in one."""

    @property
    def calls(self) -> int:
        return sum(calls() for calls in self.entries.values())

    @property
    def gain(self) -> float | None:
        """Seconds that calls took less than the original would have; None if nothing is known."""
        gains = [
            self.entries[entry]() * (found.original - found.compiled)
            for entry, found in self.measured.items()
            if entry in self.entries
        ]
        return sum(gains) if gains else None


class Tells(Protocol):
    """What tells something at a program's end."""

    def text(
        self,
        waiting: Iterable[tuple[str, str]],
        suggestion: str | None,
        is_own: Callable[[str], bool],
    ) -> str:
        """See `Report.text`."""
        ...


class Report:
    """Takes events into account, and tells of them at the end."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self._functions: dict[str, Row] = {}
        self._left: dict[str, str] = {}
        """Why functions, or calls of them, run as they were written."""
        self._packages: dict[str, str] = {}
        """Why packages are left alone."""

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.Traced(function=function, seconds=seconds):
                self._row(function).seconds += seconds
            case events.GraphCompiled(function=function, seconds=seconds):
                self._row(function).seconds += seconds
                self._row(function).graphs += 1
            case events.EntryAdded(function=function, entry=entry, calls=calls):
                self._row(function).seconds += event.seconds
                self._row(function).entries[entry] = calls or _unknown
            case events.Broke(function=function, graph_break=found, entry=entry):
                if found.reason not in NO_BREAKS:
                    self._row(function).breaks[entry] = found
            case events.Measured(function=function, entry=entry):
                self._row(function).measured[entry] = event
            case _:
                self._note_left(event)

    def _note_left(self, event: events.Event) -> None:
        match event:
            case events.GivenBack(function=function, why=why, line=line):
                self._left[function] = why if line is None else f"from line {line} on: {why}"
            case events.Postponed(function=function, why=why):
                self._left[function] = f"not compiled for some calls: {why}"
            case events.LimitReached(function=function, limit=limit):
                self._left[function] = f"calls that fit no entry: there are {limit} already"
            case events.FellBack(function=function, error=error):
                self._left[function] = f"jitpkg failed: {type(error).__name__}: {error}"
            case events.ModuleSeen(module=module, why=str(why)):
                self._packages[module] = why

    def _row(self, function: str) -> Row:
        return self._functions.setdefault(function, Row())

    def text(
        self,
        waiting: Iterable[tuple[str, str]] = (),
        suggestion: str | None = None,
        is_own: Callable[[str], bool] = lambda _: False,
    ) -> str:
        """The tables.

        Args:
            is_own: whether a file is the program's own.
            waiting: functions that may still be compiled, and why they are not.
            suggestion: what to try.
        """
        parts = [self._summary()]
        tables = self._functions_table(), self._breaks_table()
        parts.extend("\n".join(lines) for lines in tables if lines)
        left = {**dict(waiting), **self._left, **self._own_packages(is_own)}
        if left:
            lines = [f"  {name}: {why}" for name, why in left.items()]
            parts.append("\n".join(["Left alone", *_limited(lines)]))
        if suggestion is not None:
            parts.append(_wrapped(suggestion))
        return "\n\n".join(parts)

    def _summary(self) -> str:
        compiled = [row for row in self._functions.values() if row.entries]
        ran = self._clock() - self._began
        if not compiled:
            return f"jitpkg compiled nothing in the {duration(ran)} that the program ran."
        gains = [row.gain for row in compiled if row.gain is not None]
        graphs = counted(sum(row.graphs for row in compiled), "graph")
        seconds = sum(row.seconds for row in self._functions.values())
        text = (
            f"jitpkg compiled {counted(len(compiled), 'function')} into {graphs}"
            f" in {duration(seconds)} of the {duration(ran)} that the program ran."
        )
        return text if not gains else f"{text}\nMeasured gain: {_gain(sum(gains))}."

    def _own_packages(self, is_own: Callable[[str], bool]) -> dict[str, str]:
        """Those of the program; that others are left alone is no news."""
        files = {name: getattr(sys.modules.get(name), "__file__", None) for name in self._packages}
        return {
            f"module {name}": why
            for name, why in self._packages.items()
            if isinstance(file := files[name], str) and is_own(file)
        }

    def _functions_table(self) -> list[str]:
        rows = [(name, row) for name, row in self._functions.items() if row.entries]
        rows.sort(key=lambda each: -each[1].seconds)
        cells = [
            (name, row.graphs, len(row.entries), row.calls, duration(row.seconds), _gain(row.gain))
            for name, row in rows
        ]
        return _table(("Function", "Graphs", "Entries", "Calls", "Compiling", "Gain"), cells)

    def _breaks_table(self) -> list[str]:
        passed: dict[tuple[str, str], int] = {}
        for row in self._functions.values():
            for entry, found in row.breaks.items():
                if entry in row.entries:
                    where = "" if found.where is None else place(found.where)
                    key = where, found.title()
                    passed[key] = passed.get(key, 0) + row.entries[entry]()
        ordered = sorted(passed.items(), key=lambda each: -each[1])
        cells = [(where, number, title) for (where, title), number in ordered]
        return _table(("Graph break", "Passed", "Why"), cells, left=(0, 2))


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _unknown() -> int:
    return 0


def _gain(seconds: float | None) -> str:
    if seconds is None:
        return "not measured"
    return f"-{duration(-seconds)}" if seconds < 0 else duration(seconds)


def _table(
    head: Sequence[str], rows: Sequence[Sequence[object]], left: Sequence[int] = (0,)
) -> list[str]:
    """Lines with columns; those that are not at the left are at the right."""
    if not rows:
        return []
    cells = [list(map(str, row)) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        parts = [
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    first, *others = map(line, cells)
    return [first, *_limited(others)]


def _limited(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"… and {more} more"] if more > 0 else [])]


# What nobody has told of


def waiting(hooks: Iterable[Hooks]) -> list[tuple[str, str]]:
    """Functions that were called with a tensor in sight and not compiled, and why."""
    stubs = [stub for each in hooks for stub in each.stubs if stub.waits]
    stubs.sort(key=lambda stub: (-stub.calls, stub.code.co_qualname))
    return [(stub.code.co_qualname, stub.why) for stub in stubs]


def models(is_compiled: Callable[[str, str], bool]) -> list[str]:
    """Modules of other packages than torch with models that were called.

    Args:
        is_compiled: whether a module, by its name and file, is compiled.
    """
    kind = getattr(sys.modules.get("torch.nn"), "Module", None)
    if kind is None:
        return []
    found = []
    for name, module in list(sys.modules.items()):
        namespace = dict(vars(module)) if issubclass(type(module), ModuleType) else {}
        file = namespace.get("__file__")
        if name.partition(".")[0] in _OURS or not isinstance(file, str) or is_compiled(name, file):
            continue
        classes = [each for each in namespace.values() if issubclass(type(each), type)]
        own = [cls for cls in classes if kind in cls.__mro__ and cls.__module__ == name]
        forwards = [f for cls in own for f in inside(cls.__dict__.get("forward"), 4)]
        if any(f.__code__.co_filename == file and _is_warm(f.__code__) for f in forwards):
            found.append(name)
    return sorted(found)


_OURS = frozenset({"torch", "jitpkg"})


def _is_warm(code: CodeType) -> bool:
    """Whether code has run some times: the interpreter has specialised it, or counted its calls.

    Python 3.12 counts beside an instruction until it can be specialised, which it may never be.
    """
    return _as_it_runs(code) != _as_it_runs(code.replace())


def _as_it_runs(code: CodeType) -> bytes:
    found: bytes = code._co_code_adaptive  # type: ignore[attr-defined]
    return found


def suggestion(called: Sequence[str], own: Iterable[str], *, by_variable: bool) -> str | None:
    """How to compile models of installed packages, if any were called.

    Args:
        called: what `models` gives.
        own: modules of the program, which `--include` has to name, too.
        by_variable: by the environment, not by the command line.
    """
    if not called:
        return None
    patterns = ",".join(dict.fromkeys([*own, *called]))
    how = f"JITPKG_INCLUDE={patterns}" if by_variable else f"--include {patterns}"
    which = ", ".join(called[:_SHOWN])
    return f"Models of installed packages ran as they are: {which}. To compile them, too: {how}"


def nothing(waiting: Sequence[tuple[str, str]], suggestion: str | None) -> str | None:
    """What is said where nothing was compiled though there were tensors."""
    if not waiting and suggestion is None:
        return None
    text = "jitpkg compiled nothing of this program"
    if waiting:
        function, why = waiting[0]
        text = f"{text}: {function}, for one, was {why}"
    more = "" if suggestion is None else f"\n{suggestion}"
    return f"{text} (JITPKG_LOGS=auto tells more).{more}"
