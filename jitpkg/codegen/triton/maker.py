"""Kernels by Triton: scheduled, printed, and launched on a GPU, or interpreted on CPU tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

import torch
from torch import fx

from jitpkg import events
from jitpkg.codegen.fusion.groups import Limits
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.fusion.split import split
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import example
from jitpkg.codegen.made import Made, Refused
from jitpkg.codegen.options import Options
from jitpkg.codegen.triton import graphs
from jitpkg.codegen.triton.frame import NotPrinted
from jitpkg.codegen.triton.gpu import gpu_of
from jitpkg.codegen.triton.interpreted import interpreted
from jitpkg.codegen.triton.launch import Launches
from jitpkg.codegen.triton.printer import printed
from jitpkg.codegen.triton.script import script
from jitpkg.codegen.triton.source import Source
from jitpkg.codegen.triton.target import H200, Target
from jitpkg.codegen.triton.wrapper import Step, wrapped


class Runs(Protocol):
    """What runs sources."""

    def runner(self, source: Source, written: int) -> Callable[..., None]:
        """A function of tensors and then numbers.

        Args:
            written: how many of the last pointers it writes to.
        """
        ...

    def wait(self, source: Source) -> tuple[float, str]:
        """Wait for what is being done in the background for a source: how many seconds that takes,
        and what the kernel takes of the device, in words.

        Raises:
            Exception: it failed.
        """
        ...


class Interprets:
    """Triton's interpreter; the tensors are in main memory."""

    def runner(self, source: Source, written: int) -> Callable[..., None]:
        count = len(source.pointers)
        run = interpreted(source)
        return lambda *given: run(given[:count], given[count:])

    def wait(self, source: Source) -> tuple[float, str]:
        return 0.0, ""


class TritonKernels:
    """Makes kernels for a GPU."""

    limits = Limits(most=Limits().nodes)  # registers are few

    def __init__(
        self, device: torch.device, target: Target, runs: Runs, *, replays: bool = False
    ) -> None:
        """
        Args:
            replays: whether graphs are recorded as CUDA graphs.
        """
        self.device = device
        self.target = target
        self._runs = runs
        self._replays = replays

    def choose_calls(self, graph: fx.Graph) -> None:
        """All stay as they are."""

    def replayed(
        self,
        name: str,
        graph: fx.Graph,
        function: Callable[..., Any],
        *,
        shown: int | None = None,
        handed: set[int] | None = None,
    ) -> Callable[..., Any]:
        if not self._replays:
            return function
        return graphs.replayed(name, graph, function, self.device, shown=shown, handed=handed)

    def make(self, normal: Normal, builder: Builder, given: int) -> Made:
        name = normal.kernel.name
        made: list[tuple[Source, Kernel]] = []
        steps: list[Step] = []
        for part in split(normal.kernel, builder, _WAVES * self.target.processors):
            try:
                loops = schedule(replace(part, ops=normal.kernel.ops), builder)
                source = printed(loops, self.target, part.name)
            except NotPrinted as error:
                raise Refused(str(error)) from error
            made.append((source, part))
            run = self._runs.runner(source, len(part.outputs))
            steps.append(Step(run, (*part.inputs, *part.outputs), source.numbers))
        function, numbers = wrapped(name, normal, given, steps, self.device)

        def ready() -> None:
            for source, part in made:
                self._wait(source, part)

        return Made(function, numbers, ready)

    def _wait(self, source: Source, part: Kernel) -> None:
        alone = _alone(source, part) if events.STREAM.heard else ""
        try:
            seconds, resources = self._runs.wait(source)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            events.STREAM.emit(events.KernelFailed(source.name, source.text, why, alone))
            raise
        events.STREAM.emit(
            events.KernelCompiled(source.name, source.text, seconds, resources, alone)
        )


def _alone(source: Source, part: Kernel) -> str:
    """A program that runs the kernel alone."""
    counts = [example(buffer.sizes[0]) for buffer in (*part.inputs, *part.outputs)]
    return script(source, source.configs[0], counts, [example(n) for n in source.numbers])


_WAVES = 4
"""Programs on one processor that keep it busy while some of them wait for memory."""


def for_gpu(device: torch.device, options: Options) -> TritonKernels:
    """What runs on a GPU; `gpu.obstacle` must be None."""
    launches = launches_on(device, tunes=options.max_autotune)
    return TritonKernels(device, gpu_of(device).target, launches, replays=options.cudagraphs)


@cache
def launches_on(device: torch.device, *, tunes: bool) -> Launches:
    """Kernels of all graphs: those that are alike are compiled once."""
    return Launches(gpu_of(device), tunes=tunes)


def interpreting() -> TritonKernels:
    """What runs on CPU tensors whatever would run on a GPU."""
    return TritonKernels(torch.device("cpu"), H200, Interprets())
