"""Whole steps of training in their steady state: forward, loss, backward, clipping and AdamW.

By eager code, by torch.compile of the step, by torch.compile of the model alone (the rest is eager
code, with `fused=True`), and by jitpkg of the step, which take turns in one process.

    python benchmarks/run.py steps                       a quarter of an hour
    python benchmarks/run.py steps --only BERT           some of them
    python benchmarks/run.py steps --threads 2           by the clock on the wall
    python benchmarks/run.py steps --no-compile --quick  a minute
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import networks
import rounds
import torch
from networks import Network
from rounds import EAGER, OURS, Compile, Timing
from torch import nn
from torch.optim import AdamW, Optimizer

MS, MB = 1e3, 1e6

OF_STEP, OF_MODEL = "compiled step", "compiled model"
TARGETS = {EAGER: 1.3, OF_STEP: 1.15, OF_MODEL: 1.15}
"""Of the speed of these, as geometric means; none below 1."""

Step = Callable[[], Any]


def step(
    model: Callable[..., Any], optimizer: Optimizer, parameters: list[Any], inputs: Any
) -> Any:
    optimizer.zero_grad()
    loss = networks.loss(model(**inputs))
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    return loss.detach()


def made(network: Network, of_model: Compile, of_step: Compile, **options: Any) -> Step:
    torch.manual_seed(0)
    module = network.working().train()
    parameters = list(module.parameters())
    optimizer = AdamW(parameters, lr=1e-4, **options)
    inputs = network.working_inputs()
    return partial(of_step(step), of_model(module), optimizer, parameters, inputs)


def contestants(network: Network, arguments: argparse.Namespace) -> dict[str, Callable[[], Step]]:
    """How the step of each is made, by name, in the order of their turns."""
    compilers = rounds.compilers(arguments)
    eager, ours = compilers.pop(EAGER), compilers.pop(OURS)
    every = {EAGER: partial(made, network, eager, eager)}
    for theirs in compilers.values():
        every[OF_STEP] = partial(made, network, eager, theirs)
        every[OF_MODEL] = partial(made, network, theirs, eager, fused=True)
    return every | {OURS: partial(made, network, eager, ours)}


def peak(call: Step) -> float:
    """Bytes by which a call raises what the process holds, at most: pages, as Linux counts them."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", "ascii")  # the largest is counted anew
    before = _status("VmRSS")
    call()
    return _status("VmHWM") - before


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return 1024.0 * int(next(line for line in lines if line.startswith(name)).split()[1])


def measured(
    makers: dict[str, Callable[[], Step]], arguments: argparse.Namespace
) -> tuple[Timing, dict[str, float], dict[str, float], list[str]]:
    """Times, seconds of the first three steps, peaks of memory, and what is to be said."""
    torch.compiler.reset()
    steps: dict[str, Step] = {}
    first: dict[str, float] = {}
    notes: list[str] = []
    for name, make in makers.items():
        call = make()
        began = time.perf_counter()
        try:
            for _ in range(3):
                call()
        except Exception as error:
            notes.append(f"{name} fails: {type(error).__name__}: {str(error).splitlines()[0]}")
        else:
            steps[name] = call
            first[name] = time.perf_counter() - began
    most_rounds, seconds = (5, 2.0) if arguments.quick else (25, 30.0)
    clock = rounds.clock_of(arguments.threads)
    timing = rounds.interleaved(steps, most_rounds, 0.02, seconds, clock)
    return timing, first, {name: peak(call) for name, call in steps.items()}, notes


def row(
    title: str,
    names: Sequence[str],
    timing: Timing,
    first: dict[str, float],
    peaks: dict[str, float],
) -> str:
    there = timing.rounds.keys()

    def cells(of: Callable[[str], float], digits: int) -> str:
        return "".join(f"{of(n):8.{digits}f}" if n in there else f"{'-':>8}" for n in names)

    text = f"{title:20}{cells(lambda name: MS * timing.median(name), 1)} "
    for name in names:
        if name != OURS:
            speed = str(timing.speed(OURS, name)) if {name, OURS} <= there else "-"
            text += f"{speed:>19}"
    return f"{text} {cells(lambda name: peaks[name] / MB, 0)} {cells(first.__getitem__, 1)}"


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="steps", description="Measure whole steps of training.")
    rounds.add_arguments(parser)
    parser.add_argument("--threads", type=int, default=1, help="of torch (default: %(default)s)")
    arguments = parser.parse_args(given)
    torch.set_num_threads(arguments.threads)
    every = [each for each in networks.available() if rounds.chosen(each.title, arguments.only)]
    if arguments.quick and not arguments.only:
        every = every[:1]
    names = [EAGER, OF_STEP, OF_MODEL, OURS]
    if arguments.no_compile:
        names = [EAGER, OURS]
    print(rounds.platform_line(arguments.backend))
    print(
        f"\nOf {', '.join(names)}: milliseconds of a step; jitpkg's speed over the others; by how"
    )
    print("many MB a step raises what the process holds; seconds of the first three steps\n")
    speeds: dict[str, list[float]] = {name: [] for name in names if name != OURS}
    for network in every:
        timing, first, peaks, notes = measured(contestants(network, arguments), arguments)
        print(row(network.title, names, timing, first, peaks), flush=True)
        for note in notes:
            print(f"    {note}", flush=True)
        for name, found in speeds.items():
            if {name, OURS} <= timing.rounds.keys():
                found.append(timing.speed(OURS, name).median)
    print("\nGeometric means")
    for name, found in speeds.items():
        mean, least = rounds.geomean(found), min(found, default=0)
        print(f"    over {name:16}{mean:.2f} (target {TARGETS[name]}), least {least:.2f}")
