"""What compiling adds to a call, in microseconds, and how long the first call takes.

Eager code, jitpkg and torch.compile(backend="eager") take turns in one process, round by round, so
that whatever slows the machine slows all three. All run the same ops; what differs is the way to
them.

    python benchmarks/run.py            five minutes or so
    python benchmarks/run.py --quick    fewer rounds: only to see that it works
    python benchmarks/run.py --tracing  how long it takes to trace models, and nothing else
    python benchmarks/run.py --inductor and the first call with torch.compile's default backend
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from models import Model, available
from programs import PROGRAMS, Calls, Program
from torch import fx
from tracing import traces, warm_up

import jitpkg
from jitpkg import native

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]

US, MS = 1e6, 1e3


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


class Counting:
    """A backend that runs a graph as it is, counts the graphs that it is given, and notes calls."""

    def __init__(self) -> None:
        self.graphs = 0
        self.calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1

        def noted(*args: Any) -> Any:
            self.calls.append((gm.forward, args))
            return gm.forward(*args)

        return noted

    def again(self) -> None:
        """The graphs that were called, without what leads to them."""
        for forward, args in self.calls:
            forward(*args)


COMPILERS: dict[str, Compile] = {
    "eager": eager,
    "jitpkg": partial(jitpkg.compile, backend="eager"),
    "torch.compile": partial(torch.compile, backend="eager"),
}


@dataclass(frozen=True)
class Row:
    """Of one program, by compiler."""

    title: str
    target: float | None
    """What jitpkg may add at most, as a part of what torch.compile adds."""
    call: dict[str, float]
    """Seconds of a call."""
    added: dict[str, float]
    """Seconds of a call beyond those of the eager one."""
    over: dict[str, float]
    """Seconds of a call beyond those of its graphs alone: guards, and the way in and out."""
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


def counted(program: Program) -> dict[str, Counting]:
    """The graphs of a program, and how each set of arguments calls them when all are there."""
    found = {}
    for name, compile_ in (("jitpkg", jitpkg.compile), ("torch.compile", torch.compile)):
        torch.compiler.reset()
        backend = Counting()
        function, calls = program.make()
        compiled = compile_(function, backend=backend)
        for _ in range(2):
            backend.calls.clear()
            for args in calls:
                compiled(*args)
        found[name] = backend
    return found


def first_calls(program: Program, rounds: int) -> dict[str, float]:
    """The medians of so many first calls with each compiler."""
    return {
        name: statistics.median(first_call(program, compile_) for _ in range(rounds))
        for name, compile_ in COMPILERS.items()
    }


def measured(
    program: Program, first: dict[str, float], rounds: int, seconds_per_round: float
) -> Row:
    graphs = counted(program)
    torch.compiler.reset()
    function, calls = program.make()
    compiled = {name: compile_(function) for name, compile_ in COMPILERS.items()}
    for contestant in compiled.values():
        round_of(contestant, calls, 3)
    slowest = max(round_of(contestant, calls, 3) for contestant in compiled.values())
    repeat = max(1, int(seconds_per_round / (slowest * len(calls))))
    times: dict[str, list[float]] = {name: [] for name in compiled}
    bare: dict[str, list[float]] = {name: [] for name in graphs}
    gc.disable()
    order = list(compiled.items())
    for _ in range(rounds):
        for name, contestant in order:
            times[name].append(round_of(contestant, calls, repeat))
            if name in graphs:
                bare[name].append(round_of(graphs[name].again, [()], repeat) / len(calls))
        order.reverse()
    gc.enable()
    call = {name: statistics.median(column) for name, column in times.items()}
    added = {
        name: statistics.median(t - e for t, e in zip(column, times["eager"], strict=True))
        for name, column in times.items()
    }
    over = {
        name: statistics.median(t - b for t, b in zip(times[name], column, strict=True))
        for name, column in bare.items()
    }
    counts = {name: each.graphs for name, each in graphs.items()}
    return Row(program.title, program.target, call, added, over, first, counts)


IN_A_NEW_PROCESS = """
import time
start = time.perf_counter()
import sys, torch
sys.path.insert(0, {folder!r})
from programs import PROGRAMS
function, calls = PROGRAMS[{index}].make()
torch_is_there = time.perf_counter()
import jitpkg
import_jitpkg = time.perf_counter() - torch_is_there
if {compiler!r} == "jitpkg":
    function = jitpkg.compile(function)
elif {compiler!r} == "torch.compile":
    function = torch.compile(function, backend="eager")
elif {compiler!r} == "inductor":
    function = torch.compile(function)
function(*calls[0])
end = time.perf_counter()
print(end - start, end - torch_is_there, import_jitpkg)
"""


@dataclass(frozen=True)
class Start:
    """The beginning of a process, in seconds."""

    whole: float
    """From the start of Python's own work to the first result."""
    behind_torch: float
    """The same without the import of torch."""
    import_jitpkg: float


def without_bytecode_switch() -> dict[str, str]:
    """The environment in which modules are compiled once, as users have it."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def start_of_process(program: Program, compiler: str) -> Start:
    """Run a program once in a new process."""
    text = IN_A_NEW_PROCESS.format(
        folder=str(Path(__file__).parent), index=PROGRAMS.index(program), compiler=compiler
    )
    with tempfile.TemporaryDirectory() as empty:
        run = subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            check=False,
            env=without_bytecode_switch() | {"TORCHINDUCTOR_CACHE_DIR": empty},
        )
    if run.returncode:
        raise RuntimeError(run.stderr)
    return Start(*map(float, run.stdout.splitlines()[-1].split()))


def starts(program: Program, rounds: int) -> dict[str, Start]:
    """The medians of so many starts with each compiler, which take turns."""
    found: dict[str, list[Start]] = {name: [] for name in COMPILERS}
    start_of_process(program, "jitpkg")  # compiles the package's modules
    for _ in range(rounds):
        for name, samples in found.items():
            samples.append(start_of_process(program, name))
    return {
        name: Start(*map(statistics.median, zip(*map(astuple, samples), strict=True)))
        for name, samples in found.items()
    }


def ratio(ours: float, theirs: float) -> str:
    """How many times theirs; nothing where one of them is not above the noise."""
    return f"{ours / theirs:.2f}" if min(ours, theirs) > 0.1 / US else "-"


def target(most: float | None, ours: float, theirs: float) -> str:
    """The target of a ratio, marked where it is missed."""
    if most is None:
        return ""
    return f"{most:.2f}{'!' if ours > max(0.1 / US, most * theirs) else ' '}"


def print_calls(rows: list[Row]) -> None:
    print(
        "\nOne call, in µs: eager, and what is added to it; and to the graphs alone by guards and"
    )
    print("the way in and out, jitpkg / torch.compile, and its target; calls and graphs of both\n")
    print(
        f"{'':24}{'eager':>9}{'jitpkg':>11}{'torch.compile':>15}"
        f"{'to the graphs':>20}{'ratio':>7}{'target':>8}{'call':>7}{'graphs':>11}"
    )
    for row in rows:
        ours, theirs = row.over["jitpkg"], row.over["torch.compile"]
        added = row.added["jitpkg"], row.added["torch.compile"]
        print(
            f"{row.title:24}{US * row.call['eager']:9.1f}{US * added[0]:+11.1f}"
            f"{US * added[1]:+15.1f}{US * ours:+11.1f} /{US * theirs:+7.1f}"
            f"{ratio(ours, theirs):>7}{target(row.target, ours, theirs):>8}"
            f"{ratio(row.call['jitpkg'], row.call['torch.compile']):>7}"
            f"{row.graphs['jitpkg']:7} / {row.graphs['torch.compile']}"
        )


HEADER = f"{'':24}{'eager':>9}{'jitpkg':>11}{'torch.compile':>15}{'':9}{'ratio':>7}"


def print_line(title: str, eager: float, ours: float, theirs: float) -> None:
    print(
        f"{title:24}{MS * eager:9.1f}{MS * ours:11.1f}{MS * theirs:15.1f}"
        f"{'':9}{ratio(ours, theirs):>7}"
    )


def print_first_calls(rows: list[Row]) -> None:
    print("\nCompiling and the first call, in ms\n")
    print(HEADER)
    for row in rows:
        print_line(row.title, row.first["eager"], row.first["jitpkg"], row.first["torch.compile"])


def print_inductor(programs: list[Program]) -> None:
    """How much later a default `torch.compile` has its first result, with an empty cache."""
    print("\nThe same with torch.compile's default backend and an empty cache, in ms\n")
    print(f"{'':24}{'':9}{'jitpkg':>11}{'Inductor':>15}{'':9}{'ratio':>7}")
    for program in programs:
        ours, theirs = (start_of_process(program, name) for name in ("jitpkg", "inductor"))
        for title, a, b in (
            (program.title, ours.whole, theirs.whole),
            ("  without import torch", ours.behind_torch, theirs.behind_torch),
        ):
            print(f"{title:24}{'':9}{MS * a:11.1f}{MS * b:15.1f}{'':9}{ratio(a, b):>7}")


def print_starts(programs: list[Program], rounds: int) -> None:
    print("\nFrom the start of a new process to the first result, in ms\n")
    print(HEADER)
    import_jitpkg: list[float] = []
    for program in programs:
        found = starts(program, rounds)
        import_jitpkg.extend(start.import_jitpkg for start in found.values())
        print_line(program.title, *(found[name].whole for name in COMPILERS))
        behind = [found[name].behind_torch for name in COMPILERS]
        print_line("  without import torch", *behind)
    print(f"\nimport jitpkg: {MS * statistics.median(import_jitpkg):.1f} ms")


TRACING_TARGET = 1 / 2


def print_tracing(models: list[Model], rounds: int) -> None:
    print("\nTracing a model and the first call, without the eager call: ms, and MB at the peak")
    print("(target 0.50 of torch.compile's time; graphs and ops of both; of jitpkg the breaks, the")
    print(
        "guards of the first entry, and how many entries serve two lengths and three batch sizes)\n"
    )
    print(
        f"{'':22}{'jitpkg':>9}{'torch.compile':>15}{'ratio':>8}"
        f"{'MB':>7}{'MB':>7}{'graphs':>9}{'ops':>12}{'breaks':>8}{'guards':>8}{'entries':>9}"
    )
    warm_up()
    for model in models:
        found = traces(model, rounds)
        ours, theirs = found["jitpkg"], found["torch.compile"]
        missed = "!" if ours.seconds > TRACING_TARGET * theirs.seconds else " "
        shown = ratio(ours.seconds, theirs.seconds)
        if not theirs.graphs:  # it has left the model as it is
            shown, missed = "-", " "
        print(
            f"{model.title:22}{MS * ours.seconds:9.0f}{MS * theirs.seconds:15.0f}"
            f"{shown:>7}{missed}"
            f"{ours.megabytes:7.1f}{theirs.megabytes:7.1f}{f'{ours.graphs} / {theirs.graphs}':>9}"
            f"{f'{ours.ops} / {theirs.ops}':>12}{ours.breaks:8}{ours.guards:8}{ours.entries:9}",
            flush=True,
        )


def main(arguments_given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Measure what compiling adds to a call.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--tracing", action="store_true", help="only the tracing of models")
    parser.add_argument("--inductor", action="store_true", help="start with Inductor, too (slow)")
    arguments = parser.parse_args(arguments_given)
    quick = arguments.quick
    torch.set_num_threads(1)
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"{platform.machine()}, one thread; medians"
    )
    for compile_ in COMPILERS.values():
        compile_(lambda x: x - 1)(torch.ones(2))  # each loads what it needs
    if arguments.tracing:
        print_tracing(list(available()), 3)
        return
    programs = [program for program in PROGRAMS if not (quick and program.slow)]
    firsts = [first_calls(p, 1 if quick else 5) for p in programs]
    native.start()  # as the default backend's first kernel does
    rounds, seconds = (1, 0.001) if quick else (60, 0.004)
    rows = [measured(p, f, rounds, seconds) for p, f in zip(programs, firsts, strict=True)]
    print_calls(rows)
    print_first_calls(rows)
    in_new_process = [p for p in PROGRAMS if p.in_new_process]
    print_starts(in_new_process[:1] if quick else in_new_process, 1 if quick else 5)
    models = list(available())
    print_tracing(models[:1] if quick else models, 1 if quick else 3)
    if arguments.inductor:
        print_inductor(in_new_process)
