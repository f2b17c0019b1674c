"""Counts what a process compiles, whatever program it runs, and writes it down at exit.

Python imports this at its start where the folder is on `PYTHONPATH`. The counts go to a file for
each process in the folder `OBSERVED_IN`.
"""

import atexit
import collections
import json
import os
import time
from pathlib import Path

from jitpkg import events


class Counts:
    """What was compiled so far, by function."""

    def __init__(self) -> None:
        self.entries: collections.Counter[str] = collections.Counter()
        self.breaks: collections.Counter[str] = collections.Counter()
        self.storms: list[str] = []
        self.failures: list[str] = []
        self.seconds = 0.0
        self.process = os.getpid()

    def note(self, event: events.Event) -> None:
        match event:
            case events.Traced(seconds=seconds) | events.GraphCompiled(seconds=seconds):
                self.seconds += seconds
            case events.EntryAdded(function=function, seconds=seconds):
                self.entries[function] += 1
                self.seconds += seconds
            case events.Broke(function=function, graph_break=found):
                self.breaks[f"{found.reason.code} in {function}"] += 1
            case events.LimitReached(function=function, reasons=reasons):
                self.storms.append(f"{function}: {'; '.join(reasons)}")
            case events.FellBack(function=function, error=error):
                self.failures.append(f"{function}: {error!r}")

    def write(self, folder: Path) -> None:
        """At the end of a process, and not of one that it has forked."""
        if os.getpid() != self.process:
            return
        found = {name: value for name, value in vars(self).items() if name != "process"}
        file = folder / f"{self.process}-{time.monotonic_ns()}.json"
        file.write_text(json.dumps(found), encoding="utf-8")


if "OBSERVED_IN" in os.environ:
    counts = Counts()
    events.STREAM.add(counts.note)
    atexit.register(counts.write, Path(os.environ["OBSERVED_IN"]))
