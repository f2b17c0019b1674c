"""What compiling adds to a call, in microseconds, and how long the first call takes.

Eager code, jitpkg and torch.compile(backend="eager") take turns in one process, round by round, so
that whatever slows the machine slows all three. All run the same ops; what differs is the way to
them.

    python benchmarks/run.py            a minute or two
    python benchmarks/run.py --quick    fewer rounds: only to see that it works
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from programs import PROGRAMS, Calls, Program
from torch import fx

import jitpkg

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]

US, MS = 1e6, 1e3


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


class Counting:
    """A backend that runs a graph as it is, and counts the graphs that it is given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return gm.forward


COMPILERS: dict[str, Compile] = {
    "eager": eager,
    "jitpkg": partial(jitpkg.compile, backend="eager"),
    "torch.compile": partial(torch.compile, backend="eager"),
}


@dataclass(frozen=True)
class Row:
    """Of one program, by compiler."""

    title: str
    call: dict[str, float]
    """Seconds of a call."""
    added: dict[str, float]
    """Seconds of a call beyond those of the eager one."""
    first: dict[str, float]
    """Seconds for compiling and the first call."""
    graphs: dict[str, int]


def round_of(function: Callable[..., Any], calls: Calls, repeat: int) -> float:
    """Seconds per call, of this thread: while another program has the core the clock stands."""
    began = time.thread_time()
    for _ in range(repeat):
        for args in calls:
            function(*args)
    return (time.thread_time() - began) / (repeat * len(calls))


def first_call(program: Program, compile_: Compile) -> float:
    """Seconds for compiling a program anew and calling it once with each set of arguments."""
    torch.compiler.reset()
    function, calls = program.make()
    began = time.perf_counter()
    compiled = compile_(function)
    for args in calls:
        compiled(*args)
    return time.perf_counter() - began


def graph_counts(program: Program) -> dict[str, int]:
    counts = {}
    for name, compile_ in (("jitpkg", jitpkg.compile), ("torch.compile", torch.compile)):
        torch.compiler.reset()
        backend = Counting()
        function, calls = program.make()
        compiled = compile_(function, backend=backend)
        for args in calls:
            compiled(*args)
        counts[name] = backend.graphs
    return counts


def measured(program: Program, rounds: int, seconds_per_round: float) -> Row:
    firsts = {
        name: [first_call(program, compile_) for _ in range(3)]
        for name, compile_ in COMPILERS.items()
    }
    torch.compiler.reset()
    function, calls = program.make()
    compiled = {name: compile_(function) for name, compile_ in COMPILERS.items()}
    for contestant in compiled.values():
        round_of(contestant, calls, 3)
    slowest = max(round_of(contestant, calls, 3) for contestant in compiled.values())
    repeat = max(1, int(seconds_per_round / (slowest * len(calls))))
    times: dict[str, list[float]] = {name: [] for name in compiled}
    gc.disable()
    order = list(compiled.items())
    for _ in range(rounds):
        for name, contestant in order:
            times[name].append(round_of(contestant, calls, repeat))
        order.reverse()
    gc.enable()
    call = {name: statistics.median(column) for name, column in times.items()}
    added = {
        name: statistics.median(t - e for t, e in zip(column, times["eager"], strict=True))
        for name, column in times.items()
    }
    first = {name: statistics.median(column) for name, column in firsts.items()}
    return Row(program.title, call, added, first, graph_counts(program))


IN_A_NEW_PROCESS = """
import sys, time
import torch
sys.path.insert(0, {folder!r})
from programs import increment
began = time.perf_counter()
import jitpkg
compiled = {compiled}
compiled(torch.ones(4))
print(time.perf_counter() - began)
"""


def first_of_a_process(compiled: str) -> float:
    """Seconds until the first call has returned, in a process that has only imported torch."""
    program = IN_A_NEW_PROCESS.format(folder=str(Path(__file__).parent), compiled=compiled)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def ratio(ours: float, theirs: float) -> str:
    """How many times theirs; nothing where one of them is not above the noise."""
    return f"{ours / theirs:.2f}" if min(ours, theirs) > 0.1 / US else "-"


def print_calls(rows: list[Row]) -> None:
    print("\nOne call, in µs: eager, and what is added to it")
    print(
        "(behind that jitpkg / torch.compile: of what is added, of whole calls, number of graphs)\n"
    )
    print(
        f"{'':24}{'eager':>9}{'jitpkg':>11}{'torch.compile':>15}{'added':>9}{'call':>7}{'graphs':>11}"
    )
    for row in rows:
        ours, theirs = row.added["jitpkg"], row.added["torch.compile"]
        print(
            f"{row.title:24}{US * row.call['eager']:9.1f}{US * ours:+11.1f}{US * theirs:+15.1f}"
            f"{ratio(ours, theirs):>9}{ratio(row.call['jitpkg'], row.call['torch.compile']):>7}"
            f"{row.graphs['jitpkg']:7} / {row.graphs['torch.compile']}"
        )


def print_first_calls(rows: list[Row], rounds: int) -> None:
    print("\nCompiling and the first call, in ms\n")
    print(f"{'':24}{'eager':>9}{'jitpkg':>11}{'torch.compile':>15}{'':9}{'ratio':>7}")

    def line(title: str, eager: float, ours: float, theirs: float) -> None:
        print(
            f"{title:24}{MS * eager:9.1f}{MS * ours:11.1f}{MS * theirs:15.1f}"
            f"{'':9}{ratio(ours, theirs):>7}"
        )

    for row in rows:
        line(row.title, row.first["eager"], row.first["jitpkg"], row.first["torch.compile"])
    compiled = (
        "increment",
        "jitpkg.compile(increment)",
        "torch.compile(increment, backend='eager')",
    )
    samples = [[first_of_a_process(c) for c in compiled] for _ in range(rounds)]
    line("x + 1, in a new process", *map(statistics.median, zip(*samples, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what compiling adds to a call.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"{platform.machine()}, one thread; medians"
    )
    for compile_ in COMPILERS.values():
        compile_(lambda x: x - 1)(torch.ones(2))  # each loads what it needs
    rows = [measured(p, 3 if quick else 60, 0.001 if quick else 0.004) for p in PROGRAMS]
    print_calls(rows)
    print_first_calls(rows, 1 if quick else 3)


if __name__ == "__main__":
    main()
