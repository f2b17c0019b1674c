"""Kernels by Triton: scheduled, printed, and launched on a GPU, or interpreted on CPU tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, replace
from functools import cache
from typing import Any, Protocol

import torch
from torch import fx

from jitpkg import events
from jitpkg.codegen.cache.entry import MadeKernel
from jitpkg.codegen.cache.plain import Plain
from jitpkg.codegen.fusion.groups import Limits
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.fusion.split import split
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import example
from jitpkg.codegen.kernels.made import Made, Refused
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
from jitpkg.codegen.triton.version import installed
from jitpkg.codegen.triton.wrapper import Step, Wrapper, wrapped
from jitpkg.dataclass import dataclass


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

    limits = Limits(most=Limits().nodes, deep=12)  # registers are few, but hold whole rows
    keeps = True

    def __init__(
        self,
        device: torch.device,
        target: Target,
        runs: Runs,
        *,
        replays: bool = False,
        tunes: bool = False,
    ) -> None:
        """
        Args:
            replays: whether graphs are recorded as CUDA graphs.
            tunes: whether `runs` chooses the fastest config of a source.
        """
        self.device = device
        self.target = target
        self._runs = runs
        self._replays = replays
        self._tunes = tunes
        self.made: dict[Callable[..., Any], MadeKernel] = {}
        """None: a kernel's function says what it was made of."""

    def depends(self) -> Plain:
        """Triton, the GPU, and the library that decides which ops some functions are there."""
        made = [installed(), asdict(self.target), str(self.device)]
        if self.device.type == "cuda" and torch.cuda.is_available():
            library = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
            return [*made, torch.cuda.current_device(), library]
        return made

    def choose_calls(self, graph: fx.Graph) -> None:
        """All stay as they are."""

    def obstacle(self, graph: fx.Graph) -> str | None:
        return graphs.obstacle_of(graph, self.device) if self._replays else None

    def replayed(
        self,
        name: str,
        obstacle: str | None,
        function: Callable[..., Any],
        *,
        shown: int | None = None,
        handed: set[int] | None = None,
    ) -> Callable[..., Any]:
        if not self._replays:
            return function
        return graphs.replayed(name, obstacle, function, self.device, shown=shown, handed=handed)

    def make(self, normal: Normal, builder: Builder, given: int) -> Made:
        parts: list[_Part] = []
        steps: list[Step] = []
        for part in split(normal.kernel, builder, _WAVES * self.target.processors):
            try:
                loops = schedule(replace(part, ops=normal.kernel.ops), builder)
                source = printed(loops, self.target, part.name)
            except NotPrinted as error:
                raise Refused(str(error)) from error
            buffers = (*part.inputs, *part.outputs)
            counts = tuple(example(buffer.sizes[0]) for buffer in buffers)
            parts.append(_Part(source, len(part.outputs), counts))
            steps.append(Step(buffers, source.numbers))
        wrapper, numbers = wrapped(normal.kernel.name, normal, given, steps)
        function, ready = _function(wrapper, self.device, self._runs, parts)
        if not numbers:
            made_of = self.device, self._tunes, astuple(wrapper), *(astuple(p) for p in parts)
            function.made_by = _again, made_of  # type: ignore[attr-defined]
        return Made(function, numbers, ready)


@dataclass(frozen=True, slots=True)
class _Part:
    """A source that is run for a kernel."""

    source: Source
    written: int
    """How many of the last pointers it writes to."""
    counts: tuple[int, ...]
    """How many elements lie behind each pointer."""

    def alone(self) -> str:
        """A program that runs it alone."""
        source = self.source
        numbers = [example(number) for number in source.numbers]
        return script(source, source.configs[0], self.counts, numbers)


def _function(
    wrapper: Wrapper, device: torch.device, runs: Runs, parts: Sequence[_Part]
) -> tuple[Callable[..., Any], Callable[[], None]]:
    """A kernel's function, and what waits for its binaries."""
    function = wrapper.function(device, [runs.runner(p.source, p.written) for p in parts])

    def ready() -> None:
        for part in parts:
            _wait(runs, part)

    return function, ready


def _again(
    device: torch.device, tunes: bool, of_wrapper: tuple[Any, ...], *of_parts: tuple[Any, ...]
) -> Callable[..., Any]:
    """The function of a kernel that another process has made."""
    runs: Runs = Interprets() if device.type == "cpu" else launches_on(device, tunes=tunes)
    parts = [_Part(Source.of(*source), written, counts) for source, written, counts in of_parts]
    function, ready = _function(Wrapper(*of_wrapper), device, runs, parts)
    function.ready = ready  # type: ignore[attr-defined]
    return function


def _wait(runs: Runs, part: _Part) -> None:
    source = part.source
    alone = part.alone() if events.STREAM.heard else ""
    try:
        seconds, resources = runs.wait(source)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        events.STREAM.emit(events.KernelFailed(source.name, source.text, why, alone))
        raise
    events.STREAM.emit(events.KernelCompiled(source.name, source.text, seconds, resources, alone))


_WAVES = 4
"""Programs on one processor that keep it busy while some of them wait for memory."""


def for_gpu(device: torch.device, options: Options) -> TritonKernels:
    """What runs on a GPU; `gpu.obstacle` must be None."""
    tunes = options.max_autotune
    runs, target = launches_on(device, tunes=tunes), gpu_of(device).target
    return TritonKernels(device, target, runs, replays=options.cudagraphs, tunes=tunes)


@cache
def launches_on(device: torch.device, *, tunes: bool) -> Launches:
    """Kernels of all graphs: those that are alike are compiled once."""
    return Launches(gpu_of(device), tunes=tunes)


def interpreting() -> TritonKernels:
    """What runs on CPU tensors whatever would run on a GPU."""
    return TritonKernels(torch.device("cpu"), H200, Interprets())
