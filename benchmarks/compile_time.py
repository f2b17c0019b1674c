"""How compiling grows with the program: it should be linear in its length.

CPU seconds from the call to the first result, each in a new process with empty caches, of chains
of pointwise ops and of stacks of transformer blocks; the straight line that fits them best; and
how fast the code for long chains is.

    python benchmarks/run.py compile-time --no-compile        jitpkg only
    python benchmarks/run.py compile-time --plot docs/compile-time.svg
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import fresh
import rounds
import torch
from chains import chain
from kernels import Case, Kind, measured, print_header, print_row, two
from plot import Panel, Points, svg
from rounds import OURS, THEIRS

CHAINS = (10, 30, 100, 300, 1000, 3000, 5000)
LAYERS = (1, 3, 10, 30, 100)
MOST_SECONDS = 120.0
"""A compiler that takes longer is not given a longer program."""

RUN_LENGTHS = (100, 1000)


def first_calls(
    programs: Mapping[int, str], compilers: Mapping[str, str]
) -> dict[str, list[tuple[float, float]]]:
    """For each compiler the length and the seconds of each program, which are printed."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in compilers}
    stopped: set[str] = set()
    for length, title in programs.items():
        text = f"{title:24}"
        for name, compiler in compilers.items():
            shown = "-"
            if name not in stopped:
                try:
                    with fresh.caches() as caches:
                        seconds = fresh.first_call(title, compiler, caches).cpu_seconds
                except RuntimeError as error:
                    stopped.add(name)
                    shown = f"fails: {error}"
                else:
                    shown = f"{seconds:.2f}"
                    found[name].append((length, seconds))
                    if seconds > MOST_SECONDS:
                        stopped.add(name)
            text += f"{shown:>16}"
        print(text, flush=True)
    return found


def print_fit(name: str, line: Points, unit: str) -> None:
    """The straight line, and what its last part costs more than the rest."""
    if len(line) < 3:
        return
    fixed, each = fit(line)
    worst = max(abs(y / (fixed + each * x) - 1) for x, y in line)
    text = f"{name:24}{fixed:8.2f} s + {1e3 * each:8.3f} ms per {unit}, off by {worst:.0%} at most"
    (x, y), (middle, at_middle), (last, at_last) = line[0], line[-2], line[-1]
    if len(line) > 3 and at_middle > y:
        bend = (at_last - at_middle) / (last - middle) / ((at_middle - y) / (middle - x))
        text += f"; beyond {middle:,} each costs {bend:.2f} times as much"
    print(text)


def fit(line: Points) -> tuple[float, float]:
    """The fixed part, and that for each op, of a straight line.

    Least squares of the relative errors, so that short programs count as much as long ones.
    """
    weights = [1 / y**2 for _, y in line]
    total = sum(weights)
    x_mean = sum(w * x for w, (x, _) in zip(weights, line, strict=True)) / total
    y_mean = sum(w * y for w, (_, y) in zip(weights, line, strict=True)) / total
    products = sum(w * (x - x_mean) * (y - y_mean) for w, (x, y) in zip(weights, line, strict=True))
    squares = sum(w * (x - x_mean) ** 2 for w, (x, _) in zip(weights, line, strict=True))
    each = products / squares
    return y_mean - each * x_mean, each


def print_growth(
    programs: Mapping[int, str], compilers: Mapping[str, str], unit: str
) -> dict[str, list[tuple[float, float]]]:
    print("\nFrom the call to the first result in a new process, empty caches, in CPU seconds\n")
    print(f"{'':24}" + "".join(f"{name:>16}" for name in compilers))
    found = first_calls(programs, compilers)
    print()
    for name, line in found.items():
        print_fit(name, line, unit)
    return found


def print_speeds(arguments: argparse.Namespace, lengths: Sequence[int]) -> None:
    """How fast long chains run."""
    contestants = rounds.compilers(arguments)
    for k, length in enumerate(lengths):
        case = Case(Kind(f"chain of {length} ops", chain(length), two), torch.float32, 1024, False)
        if k == 0:
            print_header(case, list(contestants))
        row, notes = measured(case, contestants, 15, 10.0)
        print_row(row, list(contestants), notes)


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="compile-time", description="Measure how it grows.")
    rounds.add_arguments(parser)
    parser.add_argument("--plot", type=Path, help="where to write a plot, as SVG")
    arguments = parser.parse_args(given)
    torch.set_num_threads(1)
    fresh.adopt_orphans()
    compilers = {OURS: f"jitpkg:{arguments.backend}"}
    if not arguments.no_compile:
        compilers[THEIRS] = "torch.compile"
    print(rounds.platform_line(arguments.backend))
    with fresh.caches() as caches:  # compiles the package's modules
        fresh.first_call("tiny", compilers[OURS], caches)
    chains, stacks, running = (CHAINS, LAYERS, RUN_LENGTHS)
    if arguments.quick:
        chains, stacks, running = chains[:3], stacks[:3], running[:1]
    panels = []
    if rounds.chosen("chains", arguments.only):
        found = print_growth({n: f"chain of {n} ops" for n in chains}, compilers, "op")
        panels.append(Panel("A chain of pointwise ops", "ops", "CPU seconds", found))
    if rounds.chosen("layers", arguments.only):
        found = print_growth({n: f"{n} layers" for n in stacks}, compilers, "layer")
        panels.append(Panel("Transformer blocks", "layers", "CPU seconds", found))
    if arguments.plot and panels:
        arguments.plot.write_text(svg(panels), encoding="utf-8")
        print(f"\nwritten: {arguments.plot}")
    if rounds.chosen("speed", arguments.only):
        print_speeds(arguments, running)
