"""Kernels and models on a GPU: eager code, torch.compile and jitpkg, which take turns.

Kernels: times by CUDA events, and what must be read and written at the least, over what a copy of
as many bytes as the input has reads and writes in its time: the fraction of copy bandwidth. Models:
the time of a call or of a step of training, as a program sees it, and the speed over eager code.
torch.compile and jitpkg each run in their default mode and with `mode="reduce-overhead"`, by CUDA
graphs.

    python benchmarks/run.py gpu                            half an hour
    python benchmarks/run.py gpu --quick                    two minutes
    python benchmarks/run.py gpu --only softmax BERT        some of them
    python benchmarks/run.py gpu --device cpu --quick       sees that the program works, no more

Ends with status 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import kernels
import networks
import rounds
import torch
from kernels import COPY, Case, Kind, Measured
from networks import Network
from rounds import EAGER, Clock, Compile, Timing
from torch import Tensor

import jitpkg

MS, GB = 1e3, 1e9

THEIRS, THEIRS_GRAPHS = "compile", "compile+graphs"
OURS, OURS_GRAPHS = "jitpkg", "jitpkg+graphs"

OF_COPY = 0.9
"""The fraction of copy bandwidth that kernels which move memory should have."""

PUBLISHED = {"inference": 2.27, "training": 1.41}
"""torch.compile's speed over eager on an A100, in the paper of PyTorch 2."""

BATCH = 16
"""What the networks' batches for the CPU are multiplied by."""

LEFT_OUT = ("chain of 200 ops", "cumsum, dim 0", "cumsum, dim 1", "dropout")
"""Kinds that are not bound by memory, or random."""

KINDS = (
    *(kind for kind in kernels.KINDS if kind.title not in LEFT_OUT),
    Kind("sum of all", lambda x: x.sum()),
    Kind("max, dim 0", lambda x: x.amax(0)),
    Kind("max, dim 1", lambda x: x.amax(1)),
)


def seconds_of_events(call: Callable[[], Any], repeat: int, ahead: int = 0) -> float:
    """Seconds of the GPU per call.

    Args:
        ahead: cycles for which the GPU is kept busy before, so that launches wait for it and not
            it for them.
    """
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    if ahead:
        torch.cuda._sleep(ahead)  # type: ignore[no-untyped-call]
    began.record()
    for _ in range(repeat):
        call()
    ended.record()
    ended.synchronize()
    return began.elapsed_time(ended) / MS / repeat


@dataclass(frozen=True)
class Machine:
    """Where things run, and by what clocks."""

    device: torch.device
    kernels: Clock
    models: Clock

    def name(self) -> str:
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return "the CPU, to try the program: the numbers mean nothing"


def machine(device: str) -> Machine:
    if device == "cpu":
        return Machine(torch.device("cpu"), rounds.seconds_of_wall, rounds.seconds_of_wall)
    ahead = partial(seconds_of_events, ahead=2_000_000)
    return Machine(torch.device(device), ahead, seconds_of_events)


def contestants(arguments: argparse.Namespace) -> dict[str, Compile]:
    """By name, in the order of their turns."""
    made: dict[str, Compile] = {EAGER: rounds.eager}
    if not arguments.no_compile:
        made[THEIRS] = torch.compile
        made[THEIRS_GRAPHS] = partial(torch.compile, mode="reduce-overhead")
    ours = partial(jitpkg.compile, backend=arguments.backend)
    made[OURS] = ours
    if arguments.backend == "jitpkg":
        made[OURS_GRAPHS] = partial(ours, mode="reduce-overhead")
    return {name: each for name, each in made.items() if name not in arguments.without}


def started(
    calls: dict[str, Callable[[], Callable[[], Any]]],
) -> tuple[dict[str, Callable[[], Any]], list[str]]:
    """What can be called of each contestant, after some calls; and why it cannot."""
    made: dict[str, Callable[[], Any]] = {}
    notes: list[str] = []
    for name, make in calls.items():
        try:
            call = make()
            for _ in range(4):  # CUDA graphs are recorded in the second or third
                call()
        except Exception as error:
            notes.append(f"{name} fails: {type(error).__name__}: {str(error).splitlines()[0]}")
        else:
            made[name] = call
    return made, notes


# Kernels


def measured(
    case: Case, compilers: dict[str, Compile], on: Machine, most_rounds: int
) -> tuple[Measured, list[str]]:
    torch.compiler.reset()
    torch.manual_seed(0)
    with on.device:
        inputs = case.kind.inputs(kernels.Sample(case.size, case.dtype, case.backward))
        source = torch.ones(case.size, case.size, dtype=case.dtype)
    expected = kernels.step(case.kind.function, case, inputs)()
    makes = {
        name: partial(kernels.step, compile_(case.kind.function), case, inputs)
        for name, compile_ in compilers.items()
    }
    calls, notes = started(makes)
    for name, call in calls.items():
        if not kernels.agrees(call(), expected, case.dtype):
            notes.append(f"{name} differs from eager")
    calls[COPY] = partial(torch.empty_like(source).copy_, source)
    timing = rounds.interleaved(calls, most_rounds, 0.01, 5.0, on.kernels)
    copied = 2 * kernels.in_memory([source])
    return Measured(case, timing, kernels.least_traffic(case, inputs), copied), notes


def print_kernels(
    arguments: argparse.Namespace, compilers: dict[str, Compile], on: Machine
) -> None:
    kinds = [kind for kind in KINDS if rounds.chosen(kind.title, arguments.only)]
    if arguments.quick and not arguments.only:
        kinds = [kind for kind in kinds if kind.basic]
    if not kinds:
        return
    names = list(compilers)
    rows: list[Measured] = []
    for dtype in arguments.dtype:
        size = arguments.size
        print(f"\nforward, {dtype}, {size} x {size}: ms, and in brackets of copy bandwidth\n")
        print(f"{'':24}" + "".join(f"{name:>18}" for name in names) + f"{'copy':>10}")
        for kind in kinds:
            case = Case(kind, getattr(torch, dtype), size, arguments.direction == "both")
            row, notes = measured(case, compilers, on, arguments.rounds)
            rows.append(row)
            print_kernel(row, names, notes)
    print_summary(rows)


def print_kernel(row: Measured, names: Sequence[str], notes: Sequence[str]) -> None:
    text = f"{row.case.kind.title:24}"
    for name in names:
        if name in row.timing.rounds:
            shown = f"{MS * row.timing.median(name):.3f} [{row.fraction(name):.2f}]"
        else:
            shown = "-"
        text += f"{shown:>18}"
    slow = OURS in row.timing.rounds and row.fraction(OURS) < OF_COPY
    print(f"{text}{MS * row.timing.median(COPY):10.3f}{' !' if slow else ''}", flush=True)
    for note in notes:
        print(f"    {note}", flush=True)


def print_summary(rows: Sequence[Measured]) -> None:
    ours = [row for row in rows if OURS in row.timing.rounds]
    fast = sum(row.fraction(OURS) >= OF_COPY for row in ours)
    print(f"\njitpkg has {OF_COPY:.0%} of copy bandwidth in {fast} of {len(ours)} rows")
    for name in (EAGER, THEIRS, THEIRS_GRAPHS):
        speeds = [r.timing.speed(OURS, name).median for r in ours if name in r.timing.rounds]
        if speeds:
            print(f"geometric mean of jitpkg's speed over {name}: {rounds.geomean(speeds):.2f}")


# Models


def to(device: torch.device, inputs: networks.Inputs, times: int) -> networks.Inputs:
    """The inputs with a batch so many times as large."""

    def larger(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return torch.cat([value] * times).to(device)

    return {name: larger(value) for name, value in inputs.items()}


def step(
    network: Network, compile_: Compile, on: Machine, *, training: bool, tiny: bool
) -> Callable[[], Any]:
    """A call of a model, or a step of training."""
    torch.manual_seed(0)
    module = (network.tiny() if tiny else network.working()).to(on.device).train(training)
    given = network.tiny_inputs() if tiny else network.working_inputs()
    inputs = to(on.device, given, 1 if tiny else BATCH)
    if not training:
        return partial(networks.infer, compile_(module), inputs)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)
    return partial(networks.train, compile_(module), inputs, optimizer)


def print_models(arguments: argparse.Namespace, compilers: dict[str, Compile], on: Machine) -> None:
    others = [name for name in compilers if name != EAGER]
    for direction, published in PUBLISHED.items():
        chosen = [
            network
            for network in networks.available()
            if rounds.chosen(f"{network.title}, {direction}", arguments.only)
        ]
        if arguments.quick and not arguments.only:
            chosen = chosen[:2]
        if not chosen:
            continue
        print(f"\n{direction}: ms of eager code, and speed over it\n")
        print(f"{'':24}{EAGER:>12}" + "".join(f"{name:>16}" for name in others))
        speeds: dict[str, list[float]] = {name: [] for name in others}
        for network in chosen:
            torch.compiler.reset()
            makes = {
                name: partial(
                    *(step, network, compile_, on),
                    training=direction == "training",
                    tiny=on.device.type == "cpu",
                )
                for name, compile_ in compilers.items()
            }
            calls, notes = started(makes)
            timing = rounds.interleaved(calls, arguments.rounds, 0.05, 20.0, on.models)
            print_model(network.title, timing, speeds, notes)
        print(
            f"{'geometric mean':36}"
            + "".join(f"{rounds.geomean(s):16.2f}" for s in speeds.values())
        )
        print(f"(torch.compile, published, on an A100: {published})")
        if {OURS, THEIRS} <= speeds.keys() and speeds[THEIRS]:
            ratio = rounds.geomean(speeds[OURS]) / rounds.geomean(speeds[THEIRS])
            print(f"jitpkg over torch.compile: {ratio:.2f}")


def print_model(
    title: str, timing: Timing, speeds: dict[str, list[float]], notes: Sequence[str]
) -> None:
    there = timing.rounds.keys()
    text = f"{title:24}" + (
        f"{MS * timing.median(EAGER):12.3f}" if EAGER in there else f"{'-':>12}"
    )
    for name, found in speeds.items():
        if {name, EAGER} <= there:
            speed = timing.speed(name, EAGER).median
            found.append(speed)
            text += f"{speed:16.2f}"
        else:
            text += f"{'-':>16}"
    print(text, flush=True)
    for note in notes:
        print(f"    {note}", flush=True)


def obstacle(device: str) -> str | None:
    """Why nothing can be measured."""
    if device == "cpu":
        return None
    if not torch.cuda.is_available():
        built = "" if torch.version.cuda else " This torch is built without CUDA."
        return f"There is no GPU here: torch.cuda.is_available() is False.{built}"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed: pip install triton"
    return None


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="gpu", description="Measure kernels and models on a GPU.")
    rounds.add_arguments(parser)
    parser.add_argument("--device", default="cuda", help="as torch names it (default: %(default)s)")
    parser.add_argument("--size", type=int, help="of the matrices (default: 16384)")
    parser.add_argument(
        "--dtype", nargs="*", default=["float32", "bfloat16"], choices=["float32", "bfloat16"]
    )
    parser.add_argument("--direction", choices=["forward", "both"], default="forward")
    parser.add_argument("--without", nargs="*", default=[], help="contestants to leave out")
    arguments = parser.parse_args(given)
    why = obstacle(arguments.device)
    if why is not None:
        print(f"{why} Nothing is measured.", file=sys.stderr)
        sys.exit(2)
    on = machine(arguments.device)
    arguments.rounds = 3 if on.device.type == "cpu" else 5 if arguments.quick else 15
    arguments.size = arguments.size or (64 if on.device.type == "cpu" else 16384)
    compilers = contestants(arguments)
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, {on.name()}")
    print("Medians of rounds in which all take turns; speeds are medians of the rounds' ratios.")
    print_kernels(arguments, compilers, on)
    print_models(arguments, compilers, on)
