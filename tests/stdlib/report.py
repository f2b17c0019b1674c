"""The comparison of the runs, the table, and the census of points."""

from __future__ import annotations

import resource
import sys
import threading
import time
import tomllib
from collections import Counter
from dataclasses import dataclass

from tests.stdlib.census import Census, print_census
from tests.stdlib.tasks import FOLDER, MODES, Run, Task

PYTHON = "{}.{}".format(*sys.version_info[:2])


@dataclass(frozen=True, slots=True)
class Allowed:
    """A test that may end otherwise in a mode."""

    mode: str
    test: str
    why: str


def load(kind: str) -> list[Allowed]:
    """The entries of a kind for this Python, test by test and mode by mode."""
    data = tomllib.loads((FOLDER / "allowed.toml").read_text(encoding="utf-8"))
    return [
        Allowed(mode, f"test.{test}", entry["why"])
        for entry in data.get(kind, [])
        if PYTHON in entry.get("pythons", [PYTHON])
        for mode in entry.get("modes", MODES[1:])
        for test in entry["tests"]
    ]


COLUMNS = ("functions", "codes", "instructions", "hooks")


class Report:
    """Collects the runs of each task, from several threads, and says what differs."""

    def __init__(self, *, details: bool) -> None:
        self.details = details
        self.lock = threading.Lock()
        self.allowed = load("allowed")
        self.left_out = {(a.mode, a.test) for a in load("left_out")}
        self.out: set[str] = set()
        self.needed: set[Allowed] = set()
        self.asked: set[tuple[str, str]] = set()
        """(mode, test) for each test that was run."""
        self.differences: list[str] = []
        self.rows: list[tuple[Task, dict[str, Run], dict[str, list[str]]]] = []
        self.began = time.perf_counter()

    def add(self, task: Task, runs: dict[str, Run]) -> None:
        with self.lock:
            differing = {
                mode: self.compare(task, mode, runs["plain"], run)
                for mode, run in runs.items()
                if mode != "plain"
            }
            self.rows.append((task, runs, differing))
            state = "differs" if any(differing.values()) else "as the plain run"
            passed = sum(outcome == "passed" for outcome in runs["plain"].outcomes.values())
            seconds = [f"{runs[m].counts.get('processor', 0):.1f}" for m in runs]
            print(f"{task.test}: {passed} tests, {state} ({' '.join(seconds)} s)", flush=True)

    def compare(self, task: Task, mode: str, plain: Run, run: Run) -> list[str]:
        """The tests that differ though they may not."""
        if plain.crash is not None:
            self.differences.append(f"{task.test}: cannot be run plainly: {plain.crash}")
            return [task.test]
        if run.crash is not None:
            self.differences.append(f"{task.test}, {mode}: {run.crash}")
            return [task.test]
        found = []
        for test, outcome in plain.outcomes.items():
            self.asked.add((mode, test))
            now = run.outcomes.get(test, "not run")
            if (mode, test) in self.left_out:
                self.out.add(test)
                continue
            if now == outcome or outcome == "failed":
                continue
            excuse = next((a for a in self.allowed if (a.mode, a.test) == (mode, test)), None)
            if excuse is not None:
                self.needed.add(excuse)
                continue
            found.append(test)
            details = f"\n{run.details.get(test, '')}" if self.details else ""
            self.differences.append(f"{test}, {mode}: {now}, plainly {outcome}{details}")
        if unequal := run.counts.get("unequal"):
            found.append(task.test)
            self.differences.append(f"{task.test}: not equivalent without hooks: {unequal[:9]}")
        return found

    # What is printed at the end

    def finish(self) -> None:
        print()
        self.table()
        print()
        self.census()
        print()
        for allowed in sorted(self.needed, key=lambda a: (a.mode, a.test)):
            print(f"allowed: {allowed.test}, {allowed.mode}: {allowed.why}")
        idle = [a for a in self.allowed if (a.mode, a.test) in self.asked and a not in self.needed]
        if idle:
            print(f"allowed, and as the plain run with this choice of points: {len(idle)}")
        for allowed in idle if self.details else ():
            print(f"  {allowed.test}, {allowed.mode}")
        for entry in load("left_out"):
            if entry.test in self.out:
                print(f"left out: {entry.test}, {entry.mode}: {entry.why}")
        for difference in self.differences:
            print(f"DIFFERS: {difference}")
        seconds = time.perf_counter() - self.began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = used.ru_utime + used.ru_stime
        print(
            f"Python {PYTHON}: {len(self.differences)} differences;"
            f" {seconds:.0f} s, of processors {processor:.0f} s"
        )

    def table(self) -> None:
        """One row for each test module."""
        head = ("test module", "functions", "code", "points", "hooks", *SHORT.values(), "resume")
        rows = [(*head, "left", "tests", "differ", "allowed")]
        for task, runs, differing in sorted(self.rows, key=lambda row: row[0].test):
            hooks, resume = runs["hooks"].counts, runs["resume"].counts
            refused = Counter(hooks.get("refused", {}))
            tests = sum(outcome == "passed" for outcome in runs["plain"].outcomes.values())
            excused = sum(a.test in runs["plain"].outcomes for a in self.needed)
            cells = (
                *(hooks.get(column, 0) for column in COLUMNS),
                *(shortened(refused)[short] for short in SHORT.values()),
                resume.get("resume_functions", 0),
                resume.get("left", 0),
                tests,
                sum(map(len, differing.values())),
                excused,
            )
            rows.append((task.test, *map(str, cells)))
        print_aligned(rows)
        for task, _, _ in self.rows:
            if task.missing:
                print(f"{task.test}: this Python has no {', '.join(task.missing)}")

    def census(self) -> None:
        """Why points cannot be hooks, over all that was rewritten; each code object once."""
        total = Census()
        seen: set[tuple[str, ...]] = set()
        for task, runs, _ in self.rows:
            if task.modules in seen:
                continue
            seen.add(task.modules)
            counts = runs["hooks"].counts
            total.codes += counts.get("codes", 0)
            total.instructions += counts.get("instructions", 0)
            total.hooks += counts.get("hooks", 0)
            total.refused.update(counts.get("refused", {}))
        print_census(total, f"{sum(map(len, seen))} modules")


SHORT = {
    "prologue": "prologue",
    "inside KW_NAMES, PRECALL, CALL": "call",
    "no line: made by the compiler": "no line",
    "": "other",
}
"""The columns of refused points; the census has all reasons."""


def shortened(refused: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for reason, count in refused.items():
        found[SHORT.get(reason, "other")] += count
    return found


def print_aligned(rows: list[tuple[str, ...]]) -> None:
    """Print columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print(first.ljust(widths[0]), *cells, sep="  ")
