"""How long it takes to trace a model, what memory that takes, and in how many graphs it ends.

Each trace is made in a process of its own, forked from one in which both compilers have been used
before, so that all start from the same state.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from models import Inputs, Model
from torch import fx, nn

import jitpkg

REASONS_THAT_COUNT_AS_NONE = ("B112", "B114")
"""An exception is raised, a generator yields: nothing that a user could do anything about."""


@dataclass(frozen=True)
class Trace:
    """What one compiler made of a model."""

    seconds: float
    """Of this thread, for compiling and the first call, without what an eager call takes."""
    megabytes: float
    """By how much the process's memory grew, at its peak."""
    graphs: int
    ops: int
    """Calls in all graphs; parameters and outputs do not count."""
    breaks: int
    """Of jitpkg's; torch.compile is not asked."""
    guards: int
    """Of jitpkg's first entry."""
    entries: int
    """Of jitpkg's, when the model has been called with all its sizes."""


COMPILERS: dict[str, Callable[..., Callable[..., Any]]] = {
    "jitpkg": jitpkg.compile,
    "torch.compile": torch.compile,
}


def warm_up() -> None:
    """Let both load what they need: for an op of which few facts are known, too."""
    for compile_ in COMPILERS.values():
        compile_(nn.Linear(2, 2), backend="eager")(torch.ones(1, 2))
        compile_(_rare, backend="eager")(torch.ones(2))


def _rare(x: torch.Tensor) -> torch.Tensor:
    return torch.special.bessel_j0(x)


def traces(model: Model, rounds: int) -> dict[str, Trace]:
    """The medians of so many traces by each compiler, which take turns."""
    module, inputs = model.module().eval(), model.inputs(model.size)
    others = [model.inputs(size) for size in model.others]
    found: dict[str, list[Trace]] = {name: [] for name in COMPILERS}
    for _ in range(rounds):
        for name, samples in found.items():
            samples.append(
                _in_a_fork(lambda name=name: traced(module, inputs, others, COMPILERS[name]))
            )
    return {name: _median(samples) for name, samples in found.items()}


def _median(samples: list[Trace]) -> Trace:
    columns = zip(*(asdict(sample).values() for sample in samples), strict=True)
    seconds, megabytes, *counts = (statistics.median(column) for column in columns)
    return Trace(seconds, megabytes, *map(int, counts))


def traced(
    module: nn.Module,
    inputs: Inputs,
    others: Sequence[Inputs],
    compile_: Callable[..., Any],
) -> Trace:
    graphs: list[int] = []

    def counting(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        return gm.forward

    breaks: set[str] = set()
    guards: list[int] = []

    def listen(event: jitpkg.events.Event) -> None:
        match event:
            case jitpkg.events.EntryAdded():
                guards.append(len(event.guards))
            case jitpkg.events.Broke(graph_break=found):
                if found.reason.code not in REASONS_THAT_COUNT_AS_NONE:
                    breaks.add(f"{found.title()} {found.where}")

    module(**inputs)
    began = time.thread_time()
    module(**inputs)
    eager = time.thread_time() - began
    gc.collect()  # what was there before is nobody's to look through
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak
    began = time.thread_time()
    compile_(module, backend=counting)(**inputs)
    seconds = time.thread_time() - began - eager
    grown, made = _memory("VmHWM") - before, (len(graphs), sum(graphs))
    if compile_ is jitpkg.compile:
        with jitpkg.events.STREAM.listening(listen):
            compiled = jitpkg.compile(module, backend="eager")
            for each in (inputs, *others):
                compiled(**each)
    return Trace(seconds, grown, *made, len(breaks), guards[0] if guards else 0, len(guards))


def _memory(name: str) -> float:
    """One of the kernel's numbers of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def _in_a_fork(measure: Callable[[], Trace]) -> Trace:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, json.dumps(asdict(measure())).encode())
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        raise RuntimeError("a compiler failed; see above")
    return Trace(**json.loads(text))
