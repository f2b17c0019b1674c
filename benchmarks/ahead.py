"""Triton kernels compiled ahead of time, without a GPU: how many, and what compiling takes.

For each network, inference and training: how many kernels jitpkg launches and how many it compiles,
beside what TorchInductor's own code generation does with the same graphs (`inductor_kernels`); the
seconds that Triton takes for ours, with an empty cache and as many threads as there are cores.

    python benchmarks/run.py ahead                        the networks in working size
    python benchmarks/run.py ahead --quick --no-compile   tiny ones, and ours alone
    python benchmarks/run.py ahead --jobs FOLDER          only write all kernels, to be compiled
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import kernels
import networks
import rounds
import torch
from torch import fx, nn

import jitpkg
from jitpkg.codegen import backend as own
from jitpkg.codegen.options import Options
from jitpkg.codegen.triton.collected import Collected, collecting
from jitpkg.codegen.triton.elsewhere import compiled_elsewhere
from jitpkg.codegen.triton.jobs import Job, Outcome, job_text
from jitpkg.codegen.triton.source import Source
from jitpkg.codegen.triton.target import A100, H200, Target

Graphs = list[tuple[fx.GraphModule, list[Any]]]


def without_dropout(module: nn.Module) -> nn.Module:
    """Inductor's random numbers cannot be traced for a GPU that is not there."""
    for each in module.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0
    return module


def printed(
    function: Callable[..., Any], call: Callable[[Callable[..., Any]], Any], target: Target
) -> tuple[Collected, Graphs]:
    """What a program would launch on a GPU, and its graphs as the tracer makes them."""
    found, graphs = Collected(), Graphs()

    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graphs.append((copy.deepcopy(gm), inputs))
        with mock.patch.object(own, "_maker", return_value=(collecting(target, found), "")):
            return own.compile_graph_module(gm, inputs, Options())

    call(jitpkg.compile(function, backend=backend))
    return found, graphs


def job(source: Source, target: Target) -> Job:
    """For tensors that are aligned, as those of torch's allocator are."""
    return Job(source, source.configs[0], target, (True,) * len(source.pointers))


@dataclass(frozen=True)
class Row:
    """A network, in one direction or both."""

    title: str
    found: Collected
    graphs: Graphs
    outcomes: Sequence[Outcome]
    seconds: float
    """Of all kernels together."""


def measured(title: str, found: Collected, graphs: Graphs) -> Row:
    with tempfile.TemporaryDirectory(prefix="jitpkg-ahead-") as folder:
        began = time.perf_counter()
        with mock.patch.dict("os.environ", {"TRITON_CACHE_DIR": folder}):
            outcomes = compiled_elsewhere([job(source, H200) for source in found.sources])
        seconds = time.perf_counter() - began
    return Row(title, found, graphs, outcomes, seconds)


def programs(quick: bool) -> list[tuple[str, Callable[[Target], tuple[Collected, Graphs]]]]:
    """Each network twice, by a title."""
    made = []
    for network in networks.available():
        for training in (False, True):

            def one(
                target: Target, network: networks.Network = network, training: bool = training
            ) -> tuple[Collected, Graphs]:
                torch.manual_seed(0)
                module = network.tiny() if quick else network.working()
                module = without_dropout(module).train(training)
                inputs = network.tiny_inputs() if quick else network.working_inputs()
                if not training:
                    return printed(module, lambda f: networks.infer(f, inputs), target)
                return printed(module, lambda f: networks.loss(f(**inputs)).backward(), target)

            made.append((f"{network.title}, {'training' if training else 'inference'}", one))
    return made


def kinds(sizes: Sequence[int]) -> list[Callable[[Target], tuple[Collected, Graphs]]]:
    """The programs of the benchmark of kernels."""
    made = []
    arguments = argparse.Namespace(
        only=[], quick=False, direction=None, size=sizes, dtype=["float32", "bfloat16"]
    )
    for case in kernels.cases(arguments):

        def one(target: Target, case: kernels.Case = case) -> tuple[Collected, Graphs]:
            torch.manual_seed(0)
            inputs = case.kind.inputs(kernels.Sample(case.size, case.dtype, case.backward))
            return printed(case.kind.function, lambda f: kernels.step(f, case, inputs)(), target)

        made.append(one)
    return made


def write_all(folder: Path) -> None:
    """Every kernel of the benchmarks' programs, for both GPUs."""
    folder.mkdir(parents=True, exist_ok=True)
    every = [run for quick in (True, False) for _, run in programs(quick)] + kinds([1024, 4096])
    seen: set[str] = set()
    for target in (A100, H200):
        for run in every:
            found, _ = run(target)
            seen.update(job_text(job(source, target)) for source in found.sources)
    for k, text in enumerate(sorted(seen)):
        (folder / f"benchmark-{k}.json").write_text(text, encoding="utf-8")
    print(f"{len(seen)} kernels of benchmarks")


def print_row(row: Row, theirs: str) -> None:
    done = [each for each in row.outcomes if each.resources is not None]
    failed = len(row.outcomes) - len(done)
    times = sorted(each.seconds for each in done) or [0.0]
    spilling = sum(each.resources.spilled > 0 for each in done if each.resources is not None)
    ours = f"{len(row.found.launches)} of {len(row.found.sources)}"
    notes = (f"{spilling} spill" if spilling else "") + (f", {failed} fail" if failed else "")
    print(
        f"{row.title:30}{ours:>14}{theirs:>14}{statistics.median(times):9.2f}{times[-1]:9.2f}"
        f"{row.seconds:10.1f}  {notes}",
        flush=True,
    )


def of_inductor(graphs: Graphs, training: bool) -> str:
    import inductor_kernels  # it imports all of Inductor

    with torch.set_grad_enabled(training):
        try:
            every = [inductor_kernels.launches(gm, inputs) for gm, inputs in graphs]
        except Exception:  # an op of which nothing is known on a GPU that is not there
            return "-"
    return f"{sum(e.kernels for e in every)} of {sum(e.distinct for e in every)}"


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="ahead", description="Compile Triton kernels.")
    rounds.add_arguments(parser)
    parser.add_argument("--jobs", type=Path, help="write all kernels there, for `make ahead`")
    arguments = parser.parse_args(given)
    if importlib.util.find_spec("triton") is None:
        print("Triton is not installed: pip install triton")
        return
    if arguments.jobs is not None:
        write_all(arguments.jobs)
        return
    print("Triton kernels: launches and how many differ; seconds to compile them for sm_90")
    print("(a second or two of the last column is the start of the process that compiles)\n")
    print(f"{'':30}{'jitpkg':>14}{'Inductor':>14}{'median':>9}{'slowest':>9}{'all':>10}")
    for title, run in programs(arguments.quick):
        if rounds.chosen(title, arguments.only):
            row = measured(title, *run(H200))
            theirs = "-" if arguments.no_compile else of_inductor(row.graphs, "training" in title)
            print_row(row, theirs)
