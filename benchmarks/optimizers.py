"""Steps of optimizers in their steady state, on one thread.

By eager code (as they are, with `foreach=True` and with `fused=True`), by torch.compile and by
jitpkg, which take turns in one process.

    python benchmarks/run.py optimizers                       some minutes
    python benchmarks/run.py optimizers --only Adam "10 of"   some of them
    python benchmarks/run.py optimizers --no-compile --quick  a minute
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import rounds
import torch
from rounds import EAGER, OURS, THEIRS, Compile, Timing
from torch import nn
from torch.optim import Optimizer

MS = 1e3

FOREACH, FUSED = "foreach", "fused"
KINDS: dict[str, dict[str, Any]] = {
    "SGD, momentum": {"lr": 1e-4, "momentum": 0.9},
    "Adam": {"lr": 1e-4},
    "AdamW": {"lr": 1e-4},
    "RMSprop": {"lr": 1e-4},
}
PARAMETERS: dict[str, tuple[int, tuple[int, ...]]] = {
    "10 of 1024 x 1024": (10, (1024, 1024)),
    "100 of 64": (100, (64,)),
    "1,000 of 64": (1000, (64,)),
}
QUICK = 2
"""So many kinds, and so many sets of parameters."""


def optimizer(kind: str, count: int, shape: Sequence[int], **options: Any) -> Optimizer:
    """One whose parameters have gradients."""
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(*shape)) for _ in range(count)]
    for parameter in parameters:
        parameter.grad = torch.randn(*shape)
    made: Optimizer = getattr(torch.optim, kind.partition(",")[0])(
        parameters, **KINDS[kind], **options
    )
    return made


def step_of(made: Optimizer, compile_: Compile) -> Callable[[], Any]:
    def step() -> None:
        made.step()

    return compile_(step)


def steps(
    kind: str, count: int, shape: Sequence[int], compilers: dict[str, Compile]
) -> tuple[dict[str, Callable[[], Any]], dict[str, float]]:
    """By contestant: the step, and the seconds until it has been made three times: the first makes
    the optimizer's state."""
    every = {name: partial(optimizer, kind, count, shape) for name in compilers}
    made: dict[str, Callable[[], Any]] = {}
    for name, options in ((FOREACH, {"foreach": True}), (FUSED, {"fused": True})):
        if name == FUSED and kind == "RMSprop":
            continue
        made[name] = step_of(optimizer(kind, count, shape, **options), rounds.eager)
    seconds: dict[str, float] = {}
    torch.compiler.reset()
    for name, compile_ in compilers.items():
        made[name] = step_of(every[name](), compile_)
        began = time.perf_counter()
        for _ in range(3):
            made[name]()
        seconds[name] = time.perf_counter() - began
    return made, seconds


def row(title: str, timing: Timing, seconds: dict[str, float]) -> str:
    names = (EAGER, FOREACH, FUSED, THEIRS, OURS)
    shown = [f"{MS * timing.median(n):9.3f}" if n in timing.rounds else f"{'-':>9}" for n in names]
    others = [name for name in names[:-1] if name in timing.rounds]
    best = timing.speed_over_best(OURS, others)
    first = [f"{seconds[n]:7.2f}" if n in seconds else f"{'-':>7}" for n in (THEIRS, OURS)]
    return f"{title:32}{''.join(shown)}{best!s:>22}{''.join(first)}"


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="optimizers", description="Measure steps of optimizers.")
    rounds.add_arguments(parser)
    arguments = parser.parse_args(given)
    torch.set_num_threads(1)
    print(rounds.platform_line(arguments.backend))
    print(
        "\nMilliseconds of a step; how many times as fast as the fastest other one jitpkg is; and"
    )
    print("the seconds of the first three steps, compiling included\n")
    names = "".join(f"{name:>9}" for name in (EAGER, FOREACH, FUSED, "compile", OURS))
    print(f"{'':32}{names}{'jitpkg over best':>22}{'compile':>8}{'jitpkg':>6}")
    some = slice(QUICK if arguments.quick else None)
    for kind in list(KINDS)[some]:
        for size, (count, shape) in list(PARAMETERS.items())[some]:
            title = f"{kind}, {size}"
            if not rounds.chosen(title, arguments.only):
                continue
            made, seconds = steps(kind, count, shape, rounds.compilers(arguments))
            timing = rounds.interleaved(made, 5 if arguments.quick else 30, 0.02)
            print(row(title, timing, seconds), flush=True)
