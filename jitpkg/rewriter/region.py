"""What stands behind a hook: entries that are tried in turn, then a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from types import CellType, CodeType, FunctionType
from typing import Any, Protocol

from jitpkg import config
from jitpkg.guards.kinds import Guard
from jitpkg.rewriter.door import goes_on_at, leaving
from jitpkg.rewriter.entry import Entry, Run
from jitpkg.rewriter.gains import FOLLOWING, Meter, Timing
from jitpkg.rewriter.handover import Handover
from jitpkg.rewriter.ledger import Clock
from jitpkg.rewriter.points import Points
from jitpkg.tracer.history import History
from jitpkg.tracer.vm import Branch

Result = tuple[int, Callable[..., Callable[..., Any]] | None, Any]

_IDLE_ENTRIES = 3
"""So many traces without a graph, and none with one: the region gives nothing."""

_RESTS = 16
"""So many calls without a graph: the region gives nothing."""

LOOK_AGAIN = 256
"""So many calls that fit no entry of a region that is full: it is asked whether it is of use."""

LOOK = 16
"""As many, of one that is not compiled for now."""

_FEW = 4
"""It is, where at least one call in so many fits an entry."""


@lru_cache(maxsize=1024)
def _taking(positions: tuple[int, ...]) -> Callable[[tuple[object, ...]], tuple[object, ...]]:
    """What takes the values at these positions: in C, for most calls of hooks do no more."""
    first, count = min(positions, default=0), len(positions)
    if positions == tuple(range(first, first + count)):
        return itemgetter(slice(first, first + count))
    return itemgetter(*positions)


class Followed(Protocol):
    """Keeps a function in step with the one that it was made from."""

    original: FunctionType

    def guards(self) -> Sequence[Guard]:
        """What an entry tests so that it is never older than the original."""
        ...

    def stale(self, code: CodeType) -> Callable[..., Callable[..., Any]] | None:
        """None while `code` is the original's; else the `leave` of a call that starts again."""
        ...


class Behind(Protocol):
    """What a region asks of the dispatcher that it belongs to."""

    points: Points
    keeps_frame: bool

    def miss(self, region: Region, arguments: tuple[object, ...]) -> Result:
        """Trace, and run what comes of it."""
        ...

    def followed_at(self, region: Region) -> Followed | None:
        """What the code is kept in step with, if that is looked at here."""
        ...

    def outdated(self, region: Region) -> Result | None:
        """How a call goes on that finds the code changed of what the function follows."""
        ...

    def drop(self, region: Region) -> None:
        """Take out a hook that gives nothing."""
        ...

    def refresh(self) -> None:
        """Emit the version without the hooks that were dropped."""
        ...

    def weigh(self, region: Region) -> None:
        """Take note of what was measured."""
        ...

    def traced(self) -> None:
        """See `Door`."""
        ...

    def missed(self, region: Region, entry: str, branch: Branch) -> None:
        """Make no guess at a branch any more."""
        ...

    def settled(self, region: Region, entry: str, branch: Branch, way: bool) -> None:
        """Guess the way at a branch from now on."""
        ...

    def resume_function(
        self,
        p: int,
        base: int,
        globals_: dict[str, object],
        cells: tuple[CellType, ...],
    ) -> Callable[..., Any]:
        """The newest version, entered at point `p`."""
        ...


class Region:
    """What stands behind one hook: entries that are tried in turn, then a trace."""

    __slots__ = (
        "__weakref__",
        "_history",
        "dispatcher",
        "entries",
        "exits",
        "full",
        "h",
        "handover",
        "hits",
        "is_closed",
        "kept",
        "misses",
        "rests",
        "run",
        "unchanged",
        "until",
    )

    def __init__(self, dispatcher: Behind, h: int) -> None:
        self.dispatcher = dispatcher
        self.h = h
        self.handover = Handover(dispatcher.points, h)
        self.unchanged = dispatcher.points.unchanged(h)
        self.kept = _taking(self.unchanged)
        self.entries: tuple[Entry, ...] = ()
        self.exits: tuple[int, ...] = (h,)
        self.run: Run = self.miss
        self.full = self.is_closed = False
        self.rests = 0
        self._history: History | None = None
        self.until = 0.0
        """The time before which the region is not compiled for other values."""
        self.misses = self.hits = 0
        """Calls that fit no entry, and are not traced, since this was looked at last; calls of
        entries until then."""

    @property
    def history(self) -> History:
        """Made by the first trace: of what is defined again and again, much is never traced."""
        if self._history is None:
            self._history = History()
        return self._history

    @history.setter
    def history(self, history: History) -> None:
        self._history = history

    def native(self, arguments: tuple[object, ...]) -> Result:
        """Go on with the original code."""
        return self.h, None, self.kept(arguments)

    def rest(self, *arguments: object) -> Result:
        """Nothing is to be gained for these arguments; if that stays so, the hook goes."""
        self.rests += 1
        if self.rests == _RESTS and all(entry.graph is None for entry in self.entries):
            self.dispatcher.drop(self)
        return self.native(arguments)

    def probe(self) -> None:
        """An entry without a graph has run; if none is found behind it either, the hook goes."""
        self.rests += 1
        if self.rests == _RESTS and not self.has_graph:
            self.dispatcher.drop(self)

    def wait_until(self, when: float, clock: Clock) -> None:
        """Compile for no other values before a time of the clock; nor try the entries, where there
        are none, or nearly all calls pass them by."""
        self.until = when
        if self.entries and not self.is_passed():
            return

        outdated, h, kept = self.dispatcher.outdated, self.h, self.kept

        def waiting(*arguments: object) -> Result:
            if clock() < when:
                return outdated(self) or (h, None, kept(arguments))
            if self.run is waiting:
                self.heed(config.current())
            return self.run(*arguments)

        self.run = waiting

    def gone(self, *arguments: object) -> Result:
        """This hook was dropped: the next version, which has it no more, is due now."""
        self.dispatcher.refresh()
        return self.native(arguments)

    def traced(self) -> None:
        """See `Door`."""
        self.dispatcher.traced()

    def close(self) -> None:
        """From now on the original code runs here, without a change to what has the hook."""
        self.entries, self.full, self.is_closed = (), True, True
        self.run = self._passed()

    def _passed(self) -> Run:
        """The hook stays, and does no more than to see whether the code is still the newest."""
        h, kept, outdated = self.h, self.kept, self.dispatcher.outdated
        code, followed = self.dispatcher.points.code, self.dispatcher.followed_at(self)
        original = followed.original if followed else None

        def passed(*arguments: object) -> Result:
            if original is None or original.__code__ is code:
                return h, None, kept(arguments)
            return outdated(self) or (h, None, kept(arguments))

        return passed

    def leave_here(self, arguments: tuple[object, ...]) -> Result:
        """Go on with the original code, in a frame that has the newest hooks."""
        if self.dispatcher.keeps_frame:
            return self.native(arguments)
        return leaving(self.h), self.leave, self.kept(arguments)

    def miss(self, *arguments: object) -> Result:
        """No entry fits: trace, and run what comes of it."""
        return self.dispatcher.miss(self, arguments)

    def leave(
        self, exit_: int, globals_: dict[str, object], cells: tuple[CellType, ...]
    ) -> Callable[..., Any]:
        """A function that goes on at an exit that the running code does not know."""
        p = goes_on_at(exit_)
        return self.dispatcher.resume_function(p, self.handover.base, globals_, cells)

    def add(self, entry: Entry) -> None:
        """Try this entry after all others."""
        entry.set_otherwise(self.miss)
        if self.entries:
            self.entries[-1].set_otherwise(entry.run)
        self.entries = (*self.entries, entry)
        self.heed(config.current())

    def remove(self, name: str) -> None:
        """Try the entry of this name no more."""
        kept = tuple(entry for entry in self.entries if entry.name != name)
        for entry, following in pairwise(kept):
            entry.set_otherwise(following.run)
        if kept:
            kept[-1].set_otherwise(self.miss)
        self.entries = kept
        self.heed(config.current())

    def missed(self, entry: str, branch: Branch) -> None:
        """See `Interface.missed`."""
        self.dispatcher.missed(self, entry, branch)

    def settled(self, entry: str, branch: Branch, way: bool) -> None:
        """See `Interface.settled`."""
        self.dispatcher.settled(self, entry, branch, way)

    def heed(self, options: config.Options) -> None:
        """Try the entries, unless all code is to run as it was written."""
        if self.is_closed:
            return
        meters = self.meters
        if options.runs_originals or not self.entries:
            self.run = self.miss
        elif meters:
            self.run = Timing(self, meters[0].clock).run
        else:
            self.run = self.entries[0].run

    # What is measured: see `Measured`

    @property
    def first(self) -> Run:
        return self.entries[0].run if self.entries else self.miss

    @property
    def meters(self) -> tuple[Meter, ...]:
        found = (entry.meter for entry in self.entries)
        return tuple(meter for meter in found if meter is not None and not meter.is_over)

    def weigh(self) -> None:
        self.dispatcher.weigh(self)

    def weighed(self, name: str) -> str | None:
        """Take note of what was measured; why the region is given back, if every entry loses.

        Args:
            name: of the function.
        """
        for entry in self.entries:
            if entry.meter is not None and entry.meter.is_measured:
                entry.stop_measuring(name)
        if isinstance(getattr(self.run, "__self__", None), Timing) and not self.meters:
            self.heed(config.current())
        meters = [entry.meter for entry in self.entries if entry.graph is not None]
        gains = [meter.gain for meter in meters if meter is not None and meter.gain is not None]
        left = 0.0 if self.dispatcher.followed_at(self) is None else FOLLOWING
        if len(gains) < len(meters) or not all(gain.loses_beside(left) for gain in gains):
            return None
        return f"it gains nothing: {gains[-1]}" if gains else None

    def is_passed(self) -> bool:
        """Whether nearly all calls fit no entry, of those since this was asked last."""
        misses, self.misses = self.misses, 0
        calls = [entry.meter.calls for entry in self.entries if entry.meter is not None]
        known = [number for number in calls if number is not None]
        if len(known) < len(calls):  # others have paid back
            return False
        before, self.hits = self.hits, sum(known)
        return (self.hits - before) * _FEW < misses

    @property
    def cost(self) -> float:
        """Seconds that its most expensive entry has taken, where that was measured."""
        meters = (entry.meter for entry in self.entries)
        return max((meter.loan.seconds for meter in meters if meter is not None), default=0.0)

    @property
    def has_graph(self) -> bool:
        return any(entry.gains for entry in self.entries)

    @property
    def idle(self) -> bool:
        """Whether traces have shown that there is nothing to gain here."""
        if any(entry.exit is not None for entry in self.entries):
            return False
        return len(self.entries) >= _IDLE_ENTRIES or any(e.is_unconditional for e in self.entries)
