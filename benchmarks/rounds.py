"""Contestants that take turns, round by round, so that what slows the machine slows all of them."""

from __future__ import annotations

import argparse
import gc
import math
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import jitpkg

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]

EAGER, THEIRS, OURS = "eager", "torch.compile", "jitpkg"


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the benchmarks of compiled code have in common."""
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and fewer programs")
    parser.add_argument("--backend", default="jitpkg", help="of jitpkg (default: %(default)s)")
    parser.add_argument(
        "--no-compile", action="store_true", help="leave torch.compile out, which compiles slowly"
    )
    parser.add_argument("--only", nargs="+", default=[], help="titles that hold one of these")


def compilers(arguments: argparse.Namespace) -> dict[str, Compile]:
    """The contestants, by name, in the order of their turns."""
    theirs: dict[str, Compile] = {} if arguments.no_compile else {THEIRS: torch.compile}
    ours: Compile = partial(jitpkg.compile, backend=arguments.backend)
    return {EAGER: eager} | theirs | {OURS: ours}


def chosen(title: str, only: Sequence[str]) -> bool:
    return not only or any(each.lower() in title.lower() for each in only)


def platform_line(backend: str, threads: str = ", one thread;") -> str:
    return (
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}"
        f"{threads} jitpkg's backend: {backend}"
    )


@dataclass(frozen=True)
class Estimate:
    """A median, and an interval that holds the true one in 19 cases of 20."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


def estimate(samples: Iterable[float]) -> Estimate:
    """The interval lies between two order statistics: nothing is assumed of the distribution."""
    ordered = sorted(samples)
    count = len(ordered)
    tail, cut = 0.0, 0
    while (tail := tail + math.comb(count, cut) / 2**count) <= 0.025:
        cut += 1
    low = max(cut - 1, 0)
    return Estimate(statistics.median(ordered), ordered[low], ordered[count - 1 - low])


@dataclass(frozen=True)
class Timing:
    """Seconds per call, by contestant and round."""

    rounds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    def speed(self, of: str, over: str) -> Estimate:
        """How many times as fast; of two times in one round each."""
        return estimate(b / a for a, b in zip(self.rounds[of], self.rounds[over], strict=True))

    def speed_over_best(self, of: str, over: Iterable[str]) -> Estimate:
        """How many times as fast as the fastest of some, round by round."""
        best = map(min, zip(*(self.rounds[name] for name in over), strict=True))
        return estimate(b / a for a, b in zip(self.rounds[of], best, strict=True))


def seconds_per_call(call: Callable[[], Any], repeat: int) -> float:
    """Of this thread: while another program has the core the clock stands. Results are dropped."""
    began = time.thread_time()
    for _ in range(repeat):
        call()
    return (time.thread_time() - began) / repeat


def seconds_of_wall(call: Callable[[], Any], repeat: int) -> float:
    """By the clock on the wall: where other threads, or a device, do a part of it."""
    began = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - began) / repeat


Clock = Callable[[Callable[[], Any], int], float]
"""Seconds per call, of so many."""


def clock_of(threads: int) -> Clock:
    """The clock for what so many threads do."""
    return seconds_per_call if threads == 1 else seconds_of_wall


def turn(call: Callable[[], Any], repeat: int, clock: Clock = seconds_per_call) -> float:
    """Seconds per call, after one that is not counted, for the others have filled the cache."""
    call()
    return clock(call, repeat)


def interleaved(
    contestants: Mapping[str, Callable[[], Any]],
    rounds: int,
    seconds_per_round: float,
    most_seconds: float = 60.0,
    clock: Clock = seconds_per_call,
) -> Timing:
    """Let each be called in turn.

    Args:
        rounds: how many, if they fit.
        seconds_per_round: how long each is called in a round, at least, if it is quick.
        most_seconds: where calls are slow there are fewer rounds than asked for, but three.
    """
    for call in contestants.values():
        call()
    once = {name: clock(call, 1) for name, call in contestants.items()}
    repeat = {name: max(1, round(seconds_per_round / max(t, 1e-7))) for name, t in once.items()}
    whole = sum((repeat[name] + 1) * seconds for name, seconds in once.items())
    times: dict[str, list[float]] = {name: [] for name in contestants}
    gc.collect()
    gc.disable()
    for _ in range(min(rounds, max(3, int(most_seconds / whole)))):
        for name, call in contestants.items():
            times[name].append(turn(call, repeat[name], clock))
    gc.enable()
    return Timing(times)


def geomean(values: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logs)) if logs else math.nan
