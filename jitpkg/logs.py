"""What is compiled, as log records and calls: listeners of the event stream, of which one writes to
`logging`.

`JITPKG_LOGS=graphs,breaks` switches topics on for a process, `set_logs` does in code. Records go to
the loggers `jitpkg.<topic>` and carry the event as `record.event`.
"""

from __future__ import annotations

import dis
import io
import logging
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Self, TypeVar

from jitpkg import config, events
from jitpkg.errors import InvalidArgument
from jitpkg.interrupts import from_outside
from jitpkg.messages import (
    break_message,
    counted,
    duration,
    guess_message,
    place,
    size,
    warn,
)

Formatter = Callable[[events.Event], str | None]


def _graphs(event: events.Event) -> str | None:
    if isinstance(event, events.Declined):
        return f"{event.graph}: {event.backend} leaves the graph as it is, because of {event.why}"
    if not isinstance(event, events.GraphCompiled):
        return None
    code = getattr(event.graph, "code", "").strip()
    ops = counted(event.op_count, "op")
    return f"{event.entry}: graph of {ops}; backend {_ms(event.seconds)}\n{code}"


def _kernels(event: events.Event) -> str | None:
    if isinstance(event, events.KernelCompiled):
        takes = f"; {event.resources}" if event.resources else ""
        done = f"printed and compiled in {_ms(event.seconds)}"
        return f"{event.name}: kernel; {done}{takes}\n{event.text}"
    if isinstance(event, events.KernelFailed):
        return f"{event.name}: kernel that cannot be used, because of {event.why}\n{event.text}"
    if isinstance(event, events.Fused):
        lines = [f"{k.name}: {', '.join(k.ops)}; moves {size(k.bytes)}" for k in event.kernels]
        if event.calls:
            lines.append(f"calls of ATen: {', '.join(event.calls)}")
        count = counted(len(event.kernels), "kernel")
        return "\n  ".join([f"{event.graph}: {count}", *lines])
    return None


def _schedules(event: events.Event) -> str | None:
    if not isinstance(event, events.Scheduled):
        return None
    return f"{event.kernel}: loops after the pass {event.stage}\n{event.write()}"


def _guards(event: events.Event) -> str | None:
    if not isinstance(event, events.EntryAdded):
        return None
    return "\n  ".join([f"{event.entry}: {counted(len(event.guards), 'guard')}", *event.guards])


def _entries(event: events.Event) -> str | None:
    if not isinstance(event, events.EntryAdded):
        return None
    return f"{event.entry}: generated code\n{event.source}"


def _breaks(event: events.Event) -> str | None:
    if isinstance(event, events.NameMissing):
        return f"{event.name} {event.why}; it is for {event.use}: {event.lost}"
    if isinstance(event, events.Guessed):
        return f"{event.entry}: {guess_message(event.way, event.stack)}"
    if not isinstance(event, events.Broke):
        return None
    return f"{event.function}: graph break\n{break_message(event.graph_break)}"


def _recompiles(event: events.Event) -> str | None:
    if isinstance(event, events.Recompiled):
        return "\n  ".join([f"{event.function}: compiled again, because", *event.reasons])
    if isinstance(event, events.Missed):
        after = ", and the branch is a graph break from now on" if event.given_up else ""
        where = place(event.stack[-1]) if event.stack else "a branch"
        return f"{event.entry}: a guess was wrong at {where}; the original code runs{after}"
    if isinstance(event, events.LimitReached):
        return f"{event.function}: the limit of {event.limit} entries is reached"
    if isinstance(event, events.FellBack):
        return f"{event.function}: the original code runs, because of {event.error!r}"
    if isinstance(event, events.GraphFailed):
        after = "from now on" if event.given_up else "this time"
        return f"{event.graph}: failed when it ran ({event.why}); ops run one by one {after}"
    return None


def _gains(event: events.Event) -> str | None:
    if isinstance(event, events.Measured):
        compiled, original = duration(event.compiled), duration(event.original)
        spent = duration(event.spent)
        return f"{event.entry}: {compiled} compiled, {original} as it is; {spent} to compile"
    if isinstance(event, events.Postponed):
        return f"{event.function}: not compiled for now: {event.why}"
    if isinstance(event, events.GivenBack):
        since = "" if event.line is None else f" from line {event.line} on"
        return f"{event.function}: runs as it was written{since}: {event.why}"
    return None


def _auto(event: events.Event) -> str | None:
    if isinstance(event, events.ModuleSeen):
        if event.why is not None:
            return f"module {event.module}: left alone: {event.why}"
        return f"module {event.module}: {counted(event.functions, 'function')} may be compiled"
    if isinstance(event, events.Begun):
        return f"{event.function}: compiled from its call {event.calls} on that sees a tensor"
    if isinstance(event, events.Waits):
        return f"{event.function}: not compiled: {event.why}"
    if isinstance(event, events.Suggested):
        return event.text
    if isinstance(event, events.Postponed | events.GivenBack):
        return _gains(event)
    return None


def _bytecode(event: events.Event) -> str | None:
    if not isinstance(event, events.CodeEmitted):
        return None
    text = io.StringIO()
    dis.dis(event.emitted, file=text, depth=0)
    return f"{event.function}: emitted code\n{text.getvalue()}"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


TOPICS: Mapping[str, Formatter] = MappingProxyType(
    {
        "graphs": _graphs,
        "guards": _guards,
        "kernels": _kernels,
        "schedules": _schedules,
        "entries": _entries,
        "breaks": _breaks,
        "recompiles": _recompiles,
        "gains": _gains,
        "auto": _auto,
        "bytecode": _bytecode,
    }
)
"""What can be logged."""


class _Log:
    """The topics that are on, and the listener that serves them."""

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        self.chosen = False
        """Whether the program has said what to log."""

    def set(self, topics: Iterable[str]) -> None:
        before, self.topics = self.topics, frozenset(topics)
        if self.topics and not before:
            events.STREAM.add(self)
        elif before and not self.topics:
            events.STREAM.remove(self)

    def __call__(self, event: events.Event) -> None:
        for topic in self.topics:
            text = TOPICS[topic](event)
            if text is not None:
                logging.getLogger(f"jitpkg.{topic}").info(text, extra={"event": event})


_LOG = _Log()


def set_logs(topics: str | Iterable[str] = "") -> None:
    """Log these topics and no others: names, or one string with commas; `all` stands for all.

    A handler that writes to the standard error stream is attached to the logger `jitpkg` if it has
    none; its level becomes INFO.

    Raises:
        InvalidArgument: there is no such topic.
    """
    names = topics.split(",") if isinstance(topics, str) else list(topics)
    chosen = {name.strip() for name in names if name.strip()}
    if "all" in chosen:
        chosen = set(TOPICS)
    if unknown := chosen - set(TOPICS):
        raise InvalidArgument(
            f"There is nothing to log under {', '.join(sorted(unknown))}."
            f" The topics are: {', '.join(TOPICS)}, all."
        )
    _LOG.set(chosen)
    _LOG.chosen = True
    logger = logging.getLogger("jitpkg")
    if chosen:
        logger.setLevel(logging.INFO)
        if not logger.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
            logger.addHandler(handler)
            logger.propagate = False


def follow_settings() -> None:
    """Log what the setting `logs` says, unless the program has said otherwise already."""
    if not _LOG.chosen:
        set_logs(config.current().logs)


class Handle:
    """What ends calls of a callback: `remove()`, or the end of a `with` block."""

    def __init__(self, listener: events.Listener) -> None:
        self._listener = listener
        events.STREAM.add(listener)

    def remove(self) -> None:
        """Call it no more; once more changes nothing."""
        events.STREAM.remove(self._listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def on_compile_start(callback: Callable[[events.CompileStarted], object]) -> Handle:
    """Call `callback` whenever something is about to be compiled, in the thread that compiles.

    The event has the `function`, and the `entry` that is to come of it, as in `model.forward#0`.
    What the callback raises is a warning, and nothing else is changed by it.
    """
    return _calling("on_compile_start", events.CompileStarted, callback)


def on_compile_end(callback: Callable[[events.CompileEnded], object]) -> Handle:
    """Call `callback` when that is over; the event has the `seconds` that it took, too."""
    return _calling("on_compile_end", events.CompileEnded, callback)


E = TypeVar("E", bound=events.Event)


def _calling(name: str, kind: type[E], callback: Callable[[E], object]) -> Handle:
    if not callable(callback):
        raise InvalidArgument(
            f"{name} takes a function of one event, not {callback!r} ({type(callback).__name__})."
        )

    def heard(event: events.Event) -> None:
        if not isinstance(event, kind):
            return
        try:
            callback(event)
        except Exception as error:
            if from_outside(error):
                raise
            warn(f"The callback of {name} failed ({type(error).__name__}: {error}).")

    return Handle(heard)
