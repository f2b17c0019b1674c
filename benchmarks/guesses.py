"""Branches on data that mostly go one way: guessed, as graph breaks, and by torch.compile.

All take turns in one process. Each program is called until its guesses are made; then come its
usual calls, which are timed, and one in which the guess is wrong.

    python benchmarks/run.py guesses               some minutes
    python benchmarks/run.py guesses --only exit   some of them
    python benchmarks/run.py guesses --no-compile --quick
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import rounds
import torch
from calls import Counting
from rounds import EAGER, OURS, THEIRS, Compile, Timing

import jitpkg

US = 1e6
BREAKS = "breaks"
USUAL = 40
"""Calls before anything is timed: a branch that has gone the same way 16 times is guessed."""


def early_exit(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x) * 2
    if y.abs().max() < 1e-6:
        return y
    for _ in range(3):
        y = torch.sin(y) + x
    return y


def nan_check(x: torch.Tensor) -> torch.Tensor:
    y = x.exp() / (1 + x.exp())
    if torch.isnan(y).any():
        raise ValueError("a NaN")
    return (y * x).cos() + 1


def assertion(x: torch.Tensor) -> torch.Tensor:
    y = x * 2 + 1
    assert (y.abs() < 1e6).all(), f"too large: {y.abs().max()}"
    return torch.sigmoid(y) * x


def full_mask(x: torch.Tensor) -> torch.Tensor:
    mask = x > -1e6
    y = x.softmax(-1)
    if not mask.all():
        y = y.masked_fill(~mask, 0.0)
    return y * 2 + x


def bounded_loop(x: torch.Tensor) -> torch.Tensor:
    y, steps = x, 0
    while y.abs().max() > 100.0 and steps < 3:
        y, steps = y / 2, steps + 1
    return torch.sin(y) * 2 + 1


def both_ways(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x)
    if y[0, 0] > 0:
        z = y * 2 + x
    else:
        z = y * 3 - x
    return torch.cos(z) + 1


def training(x: torch.Tensor) -> torch.Tensor:
    w = x.detach().requires_grad_()
    loss = (w.sin() * w).pow(2).mean()
    if not torch.isfinite(loss):
        raise FloatingPointError("the loss is not finite")
    return torch.autograd.grad(loss, w)[0]


@dataclass(frozen=True)
class Pattern:
    """A program, what it is mostly given, and what makes it go the other way."""

    title: str
    program: Callable[[torch.Tensor], Any]
    usual: Sequence[torch.Tensor]
    other: torch.Tensor | None
    """None where both ways are usual."""


def patterns(size: int) -> list[Pattern]:
    torch.manual_seed(0)
    x = torch.rand(size, size)
    nan, large = x.clone(), x.clone()
    nan[0, 0], large[0, 0] = torch.nan, -1e7
    return [
        Pattern("early exit", early_exit, [x], torch.zeros_like(x)),
        Pattern("NaN check", nan_check, [x], nan),
        Pattern("assertion", assertion, [x], large),
        Pattern("mask of ones", full_mask, [x], large),
        Pattern("bound of a loop", bounded_loop, [x], x * 1000),
        Pattern("both ways in turn", both_ways, [x, x - 1], None),
        Pattern("training", training, [x], nan),
    ]


@dataclass(frozen=True)
class Row:
    """What was found for a pattern."""

    title: str
    graphs: dict[str, int]
    """Of its usual calls, by contestant."""
    timing: Timing
    missed: dict[str, float]
    """Seconds of the first call that goes the other way, by contestant."""


def called(compiled: Callable[..., Any], usual: Sequence[torch.Tensor]) -> None:
    for x in usual:
        compiled(x)


def graphs_of(pattern: Pattern, compile_: Callable[..., Any]) -> int:
    """How many graphs a usual call runs in the end."""
    backend = Counting()
    compiled = compile_(pattern.program, backend=backend)
    settle([compiled], pattern)
    backend.calls.clear()
    called(compiled, pattern.usual)
    return round(len(backend.calls) / len(pattern.usual))


def settle(contestants: Iterable[Callable[..., Any]], pattern: Pattern) -> None:
    """Call each until its guesses are made."""
    for compiled in contestants:
        for _ in range(USUAL):
            called(compiled, pattern.usual)


def missed(pattern: Pattern, compiled: Callable[..., Any]) -> float:
    """Seconds of a call that goes the other way: the first, for after a few it is no guess."""

    def call() -> None:
        try:
            compiled(pattern.other)
        except (ValueError, AssertionError, FloatingPointError):
            return

    return rounds.seconds_per_call(call, 1)


def measured(pattern: Pattern, compilers: dict[str, Compile], quick: bool) -> Row:
    contestants = {name: make(pattern.program) for name, make in compilers.items()}
    settle(contestants.values(), pattern)
    graphs = {OURS: graphs_of(pattern, jitpkg.compile)}
    if THEIRS in compilers:
        graphs[THEIRS] = graphs_of(pattern, torch.compile)
    with jitpkg.config.patch(speculate=False):  # asks only who traces: what is guessed stays so
        contestants[BREAKS] = compilers[OURS](pattern.program)
        settle([contestants[BREAKS]], pattern)
        graphs[BREAKS] = graphs_of(pattern, jitpkg.compile)
        calls = {name: partial(called, each, pattern.usual) for name, each in contestants.items()}
        timing = rounds.interleaved(calls, 3 if quick else 30, 0.02)
    slow = (
        {} if pattern.other is None else {n: missed(pattern, contestants[n]) for n in (EAGER, OURS)}
    )
    return Row(pattern.title, graphs, timing, slow)


def shown(row: Row) -> str:
    names = (OURS, BREAKS, THEIRS)
    counts = "".join(f"{row.graphs.get(name, '-'):>7}" for name in names)
    rounds_ = row.timing.rounds
    times = "".join(
        f"{US * row.timing.median(n):9.1f}" if n in rounds_ else f"{'-':>9}"
        for n in (EAGER, *names)
    )
    over = row.timing.speed(OURS, BREAKS)
    late = "".join(f"{US * seconds:9.1f}" for seconds in row.missed.values()) or f"{'-':>9}{'-':>9}"
    return f"{row.title:20}{counts}{times}{over!s:>20}{late}"


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="guesses", description="Measure guessed branches.")
    rounds.add_arguments(parser)
    parser.add_argument("--size", type=int, default=128, help="of a matrix (default: %(default)s)")
    arguments = parser.parse_args(given)
    torch.set_num_threads(1)
    print(rounds.platform_line(arguments.backend))
    print("\nGraphs of a usual call; its microseconds; how many times as fast it is as with graph")
    print("breaks; and the microseconds of a call in which the guess is wrong\n")
    heads = "".join(f"{name:>7}" for name in ("guess", "break", "theirs"))
    names = "".join(f"{name:>9}" for name in (EAGER, "guess", "break", "compile"))
    print(f"{'':20}{heads}{names}{'guess over break':>20}{'eager':>9}{'guess':>9}")
    for pattern in patterns(arguments.size)[: 2 if arguments.quick else None]:
        if rounds.chosen(pattern.title, arguments.only):
            torch.compiler.reset()
            row = measured(pattern, rounds.compilers(arguments), arguments.quick)
            print(shown(row), flush=True)
