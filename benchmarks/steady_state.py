"""Models in their steady state: what compiling is for.

Inference and a step of training (with eager SGD), by eager code, torch.compile and jitpkg, which
take turns in one process; and what it costs to launch what a backend has made of a graph.

    python benchmarks/run.py models                          half an hour
    python benchmarks/run.py models --threads 1 2            twice as long
    python benchmarks/run.py models --only BERT launch       some of them
    python benchmarks/run.py models --no-compile --quick     one minute
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import larger
import networks
import rounds
import torch
from networks import Network
from programs import OfParameters, increment
from rounds import EAGER, OURS, THEIRS, Compile, Timing
from torch import fx, nn

import jitpkg
from jitpkg.codegen.backends import REGISTRY, Backend

MS, US = 1e3, 1e6

TARGET_MEAN = 1.05
"""Of torch.compile's speed, as a geometric mean."""
LEAST = {EAGER: 0.97, THEIRS: 0.95}
"""Of the speed of these, for each model."""

Step = Callable[[], Any]


def inference(network: Network, compile_: Compile) -> Step:
    torch.manual_seed(0)
    module = network.working().eval()
    return partial(networks.infer, compile_(module), network.working_inputs())


def training(network: Network, compile_: Compile) -> Step:
    torch.manual_seed(0)
    module = network.working().train()
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)
    return partial(networks.train, compile_(module), network.working_inputs(), optimizer)


DIRECTIONS = {"inference": inference, "training": training}


def measured(
    make: Callable[[Compile], Step], compilers: dict[str, Compile], most_rounds: int, seconds: float
) -> tuple[Timing, list[str]]:
    """The times of one model, and what is to be said about them."""
    torch.compiler.reset()
    steps: dict[str, Step] = {}
    notes: list[str] = []
    for name, compile_ in compilers.items():
        step = make(compile_)
        try:
            step()
        except Exception as error:
            notes.append(f"{name} fails: {type(error).__name__}: {str(error).splitlines()[0]}")
        else:
            steps[name] = step
    clock = rounds.clock_of(torch.get_num_threads())
    return rounds.interleaved(steps, most_rounds, 0.02, seconds, clock), notes


def print_header(names: Sequence[str]) -> None:
    print(
        f"\nOne call of a model, threads: {torch.get_num_threads()}; times are medians, in ms, and"
        " speeds are ratios of one round each,"
    )
    print(
        "with the interval that holds the median in 19 cases of 20 (! below 0.97 of eager's speed"
    )
    print("or 0.95 of torch.compile's)\n")
    times = "".join(f"{name:>15}" for name in names)
    speeds = "".join(f"{f'speed over {name}':>27}" for name in names if name != OURS)
    print(f"{'':28}{times}{speeds}")


def print_row(title: str, names: Sequence[str], timing: Timing, notes: Sequence[str]) -> None:
    there = timing.rounds.keys()
    text = f"{title:28}" + "".join(
        f"{MS * timing.median(name):15.2f}" if name in there else f"{'-':>15}" for name in names
    )
    for name in names:
        if name == OURS:
            continue
        if {name, OURS} <= there:
            speed = timing.speed(OURS, name)
            text += f"{speed!s:>26}{'!' if speed.median < LEAST[name] else ' '}"
        else:
            text += f"{'-':>26} "
    print(text, flush=True)
    for note in notes:
        print(f"    {note}", flush=True)


def print_models(arguments: argparse.Namespace) -> None:
    compilers = rounds.compilers(arguments)
    chosen = [
        (f"{network.title}, {name}", partial(make, network))
        for name, make in DIRECTIONS.items()
        for network in networks.available((*networks.NETWORKS, *larger.MORE))
        if (network.trains or make is inference)
        and rounds.chosen(f"{network.title}, {name}", arguments.only)
    ]
    if arguments.quick and not arguments.only:
        chosen = chosen[:1]
    if not chosen:
        return
    names = list(compilers)
    print_header(names)
    speeds: dict[str, list[float]] = {name: [] for name in names if name != OURS}
    for title, make in chosen:
        most_rounds, seconds = (5, 2.0) if arguments.quick else (25, 20.0)
        timing, notes = measured(make, compilers, most_rounds, seconds)
        print_row(title, names, timing, notes)
        for name, found in speeds.items():
            if {name, OURS} <= timing.rounds.keys():
                found.append(timing.speed(OURS, name).median)
    print(f"\nGeometric means (the target is {TARGET_MEAN} over torch.compile)")
    for name, found in speeds.items():
        print(f"    over {name:16}{rounds.geomean(found):.3f}, least {min(found, default=0):.3f}")


def made_by(backend: Backend, compile_: Callable[..., Any], of: Callable[..., Any]) -> Step:
    """A call of what a backend makes of a function's graph, behind guards and the like."""
    made: list[Step] = []

    def keeping(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        compiled = backend(gm, example_inputs)

        def called(*args: Any) -> Any:
            made.append(partial(compiled, *args))
            return compiled(*args)

        return called

    with torch.no_grad():
        compile_(of, backend=keeping)(torch.ones(4))
    return made[0]


def inductor(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Inductor as torch.compile has it."""
    compiled: Callable[..., Any] = importlib.import_module("torch._inductor").compile(
        gm, example_inputs
    )
    return compiled


def of_parameters(count: int) -> nn.Module:
    return OfParameters(count).requires_grad_(False)


LAUNCHES: dict[str, Callable[[], Callable[..., Any]]] = {
    "x + 1": lambda: increment,
    "10 parameters": lambda: of_parameters(10),
    "100 parameters": lambda: of_parameters(100),
    "1,000 parameters": lambda: of_parameters(1000),
}


def launches(arguments: argparse.Namespace) -> Iterator[tuple[str, Timing]]:
    for title, make in list(LAUNCHES.items())[: 2 if arguments.quick else None]:
        function = make()
        steps = {EAGER: made_by(REGISTRY.find("eager"), jitpkg.compile, function)}
        if not arguments.no_compile:
            torch.compiler.reset()
            steps[THEIRS] = made_by(inductor, torch.compile, function)
        steps[OURS] = made_by(REGISTRY.find(arguments.backend), jitpkg.compile, function)
        with torch.no_grad():
            yield title, rounds.interleaved(steps, 5 if arguments.quick else 40, 0.005)


def print_launches(arguments: argparse.Namespace) -> None:
    print("\nA call of what a backend makes of an inference graph on tensors of 4 elements, in µs:")
    print("nearly all of it is the launch (behind it jitpkg / Inductor; 0.25 is wanted)\n")
    print(f"{'':28}{'eager':>12}{'Inductor':>12}{'jitpkg':>12}{'ratio':>24}")
    for title, timing in launches(arguments):
        text = f"{title:28}" + "".join(
            f"{US * timing.median(name):12.2f}" if name in timing.rounds else f"{'-':>12}"
            for name in (EAGER, THEIRS, OURS)
        )
        if THEIRS in timing.rounds:
            text += f"{timing.speed(THEIRS, OURS)!s:>24}"
        print(text, flush=True)


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="models", description="Measure models that are compiled.")
    rounds.add_arguments(parser)
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    arguments = parser.parse_args(given)
    print(rounds.platform_line(arguments.backend, threads=","))
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        print_models(arguments)
    torch.set_num_threads(1)
    if rounds.chosen("launch", arguments.only):
        print_launches(arguments)
