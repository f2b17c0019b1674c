"""Runs the programs of `examples/programs` as a user would, eagerly and compiled, each in a process
of its own, and compares what they print."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "programs"
OBSERVER = Path(__file__).parent / "observer"

RUN = ("-m", "jitpkg", "run")
INCLUDE = ("--include", "transformers.models,transformers.generation,__main__")


@dataclass(frozen=True)
class Way:
    """How a program is compiled, and what that may take at most.

    Where nobody has asked for a function to be compiled (by `run`, by `auto`), bounds are of what
    is compiled at a second call whatever it gains: users get less. What is spawned is not compiled.
    """

    name: str
    python: tuple[str, ...] = ()
    """Before the program: options of Python, `-m jitpkg run`."""
    arguments: tuple[str, ...] = ()
    entries: int = 0
    """At most; and one at least, unless it is 0."""
    breaks: int = 0
    """Kinds of graph breaks: each place counts once, however often a program passes it."""
    seconds: float = 20.0
    """Of CPU time, over that of the eager program."""
    storms: tuple[str, ...] = ()
    """Functions of which each call is unlike all others: they reach the limit of entries."""
    slow: bool = False
    """Whether the exact comparison, too, is left to the slow tests."""


@dataclass(frozen=True)
class Program:
    """A script, small enough for a test, and the ways in which it is compiled."""

    name: str
    script: str
    ways: tuple[Way, ...]
    arguments: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    tolerance: float = 0.01
    """Of printed numbers, relative, where kernels round differently."""


@dataclass
class Ended:
    """What a program printed, and what was compiled in all of its processes."""

    status: int
    out: str
    err: str
    entries: Counter[str] = field(default_factory=Counter)
    breaks: Counter[str] = field(default_factory=Counter)
    storms: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    """Compiling, by the clock on the wall."""
    cpu: float = 0.0
    """Seconds of all processes together."""
    processes: int = 0

    def add(self, file: Path) -> None:
        found = json.loads(file.read_text("utf-8"))
        self.entries.update(found["entries"])
        self.breaks.update(found["breaks"])
        self.storms += found["storms"]
        self.failures += found["failures"]
        self.seconds += found["seconds"]
        self.processes += 1

    def summary(self) -> str:
        return (
            f"{self.entries.total()} entries, {len(self.breaks)} breaks, {self.seconds:.1f} s "
            f"compiling in {self.processes} processes; {self.cpu:.1f} s of CPU time"
        )


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(program: Program, way: Way | None, **variables: str) -> Ended:
    """Run a program in an empty folder; without a way, eagerly."""
    python, arguments = ((), ()) if way is None else (way.python, way.arguments)
    paths = [str(OBSERVER), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with tempfile.TemporaryDirectory(prefix="jitpkg-programs-") as folder:
        observed = Path(folder, "observed")
        observed.mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("JITPKG_")}
        environment = {
            **kept,
            "JITPKG_CACHE_DIR": os.environ.get("JITPKG_CACHE_DIR", "off"),
            "OBSERVED_IN": str(observed),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONWARNINGS": "ignore:Guards may run slower:RuntimeWarning",  # Dynamo, of 3.13.0
            **variables,
        }
        before = children_cpu()
        done = subprocess.run(
            [
                sys.executable,
                *python,
                str(PROGRAMS / program.script),
                *program.arguments,
                *arguments,
            ],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        ended = Ended(done.returncode, done.stdout, done.stderr, cpu=children_cpu() - before)
        for file in sorted(observed.glob("*.json")):
            ended.add(file)
    return ended


@cache
def eagerly(program: Program) -> Ended:
    ended = run(program, None)
    assert ended.status == 0, ended.err
    assert not ended.entries, ended.entries
    return ended


def notes(text: str) -> list[str]:
    """Lines of the error stream that tell of more than times, progress and compiling itself."""
    return [
        line
        for line in text.splitlines()
        if line.strip() and not re.match(r"step \d+: |jitpkg compiled nothing ", line)
        if "it/s]" not in line and not line.startswith("Models of installed packages ran")
        if "speedups for torchdynamo" not in line
    ]


NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")


def difference(expected: str, found: str, tolerance: float) -> str | None:
    """The first line that is not the same, but for numbers with a decimal point that are near."""
    for a, b in zip_longest(expected.splitlines(), found.splitlines(), fillvalue="(nothing)"):
        if a == b:
            continue
        if NUMBER.sub("#", a) != NUMBER.sub("#", b) or not all(
            abs(float(x) - float(y)) <= tolerance * max(abs(float(x)), abs(float(y)), 0.1)
            for x, y in zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
        ):
            return f"eagerly  {a}\ncompiled {b}"
    return None
