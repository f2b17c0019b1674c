"""`jitpkg.stats`: what is compiled now, what it is for, how it ends, and what it took."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from jitpkg import api, cache, native
from jitpkg.dataclass import dataclass
from jitpkg.errors import Break, InvalidArgument
from jitpkg.guards.explain import assumptions, shown
from jitpkg.guards.kinds import static_lookup
from jitpkg.internals import modules
from jitpkg.messages import WIDTH, beginning, counted, duration, place, size
from jitpkg.rewriter import callables
from jitpkg.rewriter.dispatch import Dispatcher
from jitpkg.rewriter.entry import Entry
from jitpkg.rewriter.originals import ORIGINALS
from jitpkg.rewriter.region import Region
from jitpkg.tracer.reasons import NO_BREAKS

_SHOWN = 12
"""So many assumptions of an entry are shown."""


@dataclass(frozen=True, slots=True)
class EntryStats:
    """What is compiled for one set of assumptions."""

    name: str
    """As in logs: `model.forward#0`."""
    op_count: int
    """Ops in its graph; 0 where it has none."""
    assumptions: tuple[str, ...]
    """What its guards say of tensors and plain values, in words."""
    guards: tuple[str, ...]
    """What each guard tests, as text."""
    calls: int | None
    """How often it has run; None where that is not counted (setting `count_calls`)."""
    seconds: Mapping[str, float]
    """What compiling it took, by phase: they add up to the whole."""
    graph_break: Break | None
    """What it ends in, where it does not end the function."""
    gain: float | None
    """Seconds that a call takes less than the original code; None where that was not measured."""
    source: str
    """The generated Python source."""

    def lines(self) -> Iterator[str]:
        """Its part of the text."""
        about = [counted(self.op_count, "op") if self.op_count else "no graph"]
        if self.calls is not None:
            about.append(f"ran {counted(self.calls, 'time')}")
        if self.gain is not None:
            faster = "gains" if self.gain >= 0 else "loses"
            about.append(f"{faster} {duration(abs(self.gain))} a call")
        about.append(f"compiled in {_times(self.seconds)}")
        yield f"#{self.name.rpartition('#')[2]}: {', '.join(about)}"
        for text in self.assumptions[:_SHOWN]:
            yield f"    {text}"
        if len(self.assumptions) > _SHOWN:
            yield f"    … and {len(self.assumptions) - _SHOWN} more of tensors and values"
        if others := len(self.guards) - len(self.assumptions):
            yield f"    and {counted(others, 'guard')} of functions, classes and global state"
        if self.graph_break is not None:
            passed = "" if self.calls is None else f", passed {counted(self.calls, 'time')}"
            where = self.graph_break.where
            at = "" if where is None else f" at {place(where)}"
            yield from textwrap.wrap(
                f"    ends in a graph break{at}: {self.graph_break.title()}{passed}",
                WIDTH - 2,
                subsequent_indent=" " * 8,
            )


@dataclass(frozen=True, slots=True)
class FunctionStats:
    """A function, and the parts of it after graph breaks."""

    name: str
    where: str
    """The file and the line of its code; nothing for what calls a module, or an object."""
    entries: tuple[EntryStats, ...]
    is_full: bool
    """Whether calls that fit no entry run as they were written, since there are too many."""

    @property
    def graph_breaks(self) -> tuple[Break, ...]:
        """Those that its entries end in."""
        return tuple(each.graph_break for each in self.entries if each.graph_break is not None)

    @property
    def title(self) -> str:
        """One line about it."""
        parts = ["1 entry" if len(self.entries) == 1 else f"{len(self.entries)} entries"]
        if breaks := len(self.graph_breaks):
            parts.append(counted(breaks, "graph break"))
        if self.is_full:
            parts.append("no more are made")
        where = f" ({self.where})" if self.where else ""
        return f"{self.name}{where}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is compiled now; print it, or take it apart."""

    functions: tuple[FunctionStats, ...]
    memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes, by what they are held for."""

    @property
    def entries(self) -> tuple[EntryStats, ...]:
        """Those of all functions."""
        return tuple(entry for each in self.functions for entry in each.entries)

    @property
    def graph_count(self) -> int:
        return sum(bool(each.op_count) for each in self.entries)

    @property
    def graph_break_count(self) -> int:
        return sum(each.graph_break is not None for each in self.entries)

    @property
    def seconds(self) -> Mapping[str, float]:
        """What compiling took, by phase."""
        found: dict[str, float] = {}
        for each in self.entries:
            for phase, took in each.seconds.items():
                found[phase] = found.get(phase, 0.0) + took
        return found

    @property
    def calls(self) -> int | None:
        """How often entries have run; None where that is not counted."""
        known = [each.calls for each in self.entries if each.calls is not None]
        return sum(known) if known else None

    def summary(self) -> str:
        """What there is, in one sentence."""
        if not self.entries:
            return "Nothing is compiled now."
        parts = [
            counted(len(self.functions), "function"),
            counted(self.graph_count, "graph"),
            counted(self.graph_break_count, "graph break"),
        ]
        text = f"{', '.join(parts)}; compiling took {_times(self.seconds)}"
        return text if self.calls is None else f"{text}; entries ran {counted(self.calls, 'time')}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def __str__(self) -> str:
        parts = [self.summary()]
        if self.memory:
            held = (f"{size(count)} of {what}" for what, count in self.memory.items())
            parts[0] += f"\nHeld: {', '.join(held)}"
        for each in self.functions:
            lines = [f"  {line}" for entry in each.entries for line in entry.lines()]
            parts.append("\n".join([each.title, *lines]))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        """In a notebook: each function unfolds."""
        parts = [f"<p>{html.escape(self.summary())}</p>"]
        for each in self.functions:
            text = "\n".join(line for entry in each.entries for line in entry.lines())
            parts.append(
                f"<details><summary><code>{html.escape(each.title)}</code></summary>"
                f"<pre>{html.escape(text)}</pre></details>"
            )
        return "\n".join(parts)


def stats(model: Any = None) -> Statistics:
    """What is compiled now, what for, how it ends, and what compiling it took.

    How often entries run is counted where the setting `count_calls` is on when they are compiled.

    Args:
        model: a function, method, class or module of which it is told, with all modules inside;
            if None, all that is compiled.

    Raises:
        InvalidArgument: it is none of these.
    """
    codes = set() if model is None else set(_codes(model))
    names = _names(model)
    functions = []
    for dispatcher in _dispatchers():
        # What calls a module, or an object, has the same code for all of them, and its name.
        is_call = _only_calls(dispatcher.points.code)
        is_meant = dispatcher.name in names if is_call else dispatcher.points.code in codes
        if model is None or is_meant:
            found = _function(dispatcher, is_call)
            if found.entries:
                functions.append(found)
    return Statistics(tuple(functions), _memory() if model is None else {})


def _dispatchers() -> Iterator[Dispatcher]:
    """All that there are, each once, those that are reached through breaks behind their own."""
    seen: set[int] = set()
    stack = list(reversed(list(api.dispatchers())))
    while stack:
        dispatcher = stack.pop()
        if id(dispatcher) in seen:
            continue
        seen.add(id(dispatcher))
        yield dispatcher
        stack.extend(dispatcher.compiler.reached())


def _function(dispatcher: Dispatcher, is_call: bool) -> FunctionStats:
    code = dispatcher.points.code
    regions = sorted(dispatcher.regions.values(), key=lambda region: region.h)
    entries = tuple(_entry(entry) for region in regions for entry in _of_use(region))
    where = "" if is_call else beginning(code)
    full = any(region.full for region in regions)
    return FunctionStats(dispatcher.name, where, entries, full)


def _of_use(region: Region) -> Iterable[Entry]:
    return (entry for entry in region.entries if entry.exit is not None)


def _entry(entry: Entry) -> EntryStats:
    count, meter, found = entry.call_count, entry.meter, entry.graph_break
    gain = None if meter is None or meter.gain is None else meter.gain.seconds
    return EntryStats(
        entry.name,
        entry.op_count,
        tuple(assumptions(entry.guards)),
        tuple(map(shown, entry.guards)),
        None if count is None else count(),
        dict(entry.seconds),
        None if found is None or found.reason in NO_BREAKS else found,
        gain,
        entry.source,
    )


def _memory() -> dict[str, int]:
    pool, kept = native.pool(), cache.info()
    held = {"memory for results": 0 if pool is None else pool.held(), "files on disk": kept.bytes}
    return {what: count for what, count in held.items() if count}


def _times(seconds: Mapping[str, float]) -> str:
    parts = ", ".join(f"{phase} {duration(took)}" for phase, took in seconds.items())
    return f"{duration(sum(seconds.values()))} ({parts})" if parts else duration(0.0)


# What a function, or a model, consists of


def _codes(model: Any) -> Iterator[CodeType]:
    """The code that the calls of something may run."""
    for each in _callables(model):
        function = ORIGINALS.callable_of(each)
        if isinstance(function, MethodType):
            function = function.__func__
        if isinstance(function, FunctionType):
            yield ORIGINALS.of(function.__code__)


def _names(model: Any) -> set[str]:
    """What modules, a class of modules, or an object are called."""
    match model:
        case torch.nn.Module():
            return {type(each).__qualname__ for each in model.modules()}
        case type():
            return {model.__qualname__}
        case FunctionType() | MethodType():
            return set()
        case _:
            return {callables.name_of(ORIGINALS.callable_of(model))}


def _only_calls(code: CodeType) -> bool:
    """Whether code calls a module, or an object, and does nothing else."""
    names = "__call__", modules.CALL_NAME
    found = (static_lookup(torch.nn.Module, name) for name in names)
    of_modules = (ORIGINALS.of(each.__code__) for each in found if isinstance(each, FunctionType))
    return callables.is_ours(code) or code in of_modules


def _callables(model: Any) -> Sequence[Callable[..., Any]]:
    match model:
        case torch.nn.Module():
            return [each.forward for each in model.modules()]
        case type():
            name = "forward" if issubclass(model, torch.nn.Module) else "__call__"
            return [getattr(model, name)]
        case FunctionType() | MethodType():
            return [model]
        case _ if callable(model):
            return [model, type(model).__call__]
    raise InvalidArgument(
        f"stats() takes a function, method, class or module, or nothing for all that is compiled,"
        f" not {model!r} ({type(model).__qualname__})."
    )
