"""Kernels as CPython builtins: printed, compiled in process, called with tensors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg import config, events, native
from jitpkg.codegen.cache.entry import MadeKernel
from jitpkg.codegen.cache.objects import object_code
from jitpkg.codegen.cache.plain import Plain
from jitpkg.codegen.cpu import tuning
from jitpkg.codegen.cpu.host import Host, host_of
from jitpkg.codegen.cpu.innermost import put_innermost
from jitpkg.codegen.cpu.printer import printed
from jitpkg.codegen.cpu.products import onednn_is_faster, use_onednn
from jitpkg.codegen.fusion.groups import Limits
from jitpkg.codegen.fusion.kernel import Schedule
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import example, varies
from jitpkg.codegen.ir.nodes import Buffer
from jitpkg.codegen.kernels.made import Made
from jitpkg.dataclass import dataclass
from jitpkg.internals import dispatch

LONG = 1 << 20
"""Elements from which on a kernel lets other threads run Python, which costs it 50 ns."""


class CpuKernels:
    """Makes kernels for this processor."""

    device = torch.device("cpu")
    limits = Limits()
    keeps = True

    def __init__(self, *, tunes: bool = False) -> None:
        self.tunes = tunes
        """Whether several ways are tried for each kernel."""
        self.host: Host = host_of(native.host_features(), native.has("torch_parallel_for"))
        self.made: dict[Callable[..., Any], MadeKernel] = {}
        """Kernels that can be kept on disk, until somebody has done so, or will not."""
        pool = native.pool()
        if pool is not None:
            pool.limit_to(config.current().pool_megabytes << 20)

    def depends(self) -> Plain:
        """The processor, and how kernels are called."""
        return [native.target(), native.binding(), native.has("torch_parallel_for")]

    def choose_calls(self, graph: fx.Graph) -> None:
        """Let matrix products and convolutions be computed in the faster way."""
        put_innermost(graph)
        if onednn_is_faster(native.host_cpu(), torch.backends.cpu.get_cpu_capability()):
            use_onednn(graph)

    def obstacle(self, graph: fx.Graph) -> str | None:
        """Nothing is launched as a whole."""

    def replayed(
        self, name: str, obstacle: str | None, function: Callable[..., Any], **how: Any
    ) -> Callable[..., Any]:
        """As it is."""
        return function

    def make(self, normal: Normal, builder: Builder, given: int) -> Made:
        began = time.perf_counter()
        loops = schedule(normal.kernel, builder)
        way = _way(loops, normal.outputs[given:], self.host)
        if self.tunes and not way.numbers and dispatch.NO_MODES.found() is not None:
            way = _tuned(way, loops, normal.outputs[given:], self.host)
        self.made[way.function] = MadeKernel(normal.kernel.name, way.doc, way.llvm, way.code)
        seconds = time.perf_counter() - began
        events.STREAM.emit(events.KernelCompiled(normal.kernel.name, way.llvm, seconds))
        return Made(way.function, way.numbers)


@dataclass(frozen=True, slots=True)
class _Way:
    """A kernel, printed and compiled for a host."""

    function: Callable[..., Any]
    numbers: tuple[int, ...]
    llvm: str
    code: bytes
    doc: str


def _way(loops: Schedule, fresh: Sequence[Buffer], host: Host) -> _Way:
    """The function that returns these of the kernel's outputs, and is given the others."""
    kernel = loops.kernel
    first = [n for buffer in fresh for n in (*buffer.sizes, *buffer.strides) if varies(n)]
    llvm, numbers = printed(loops, host, given=first)
    names = {number: f"i{k}" for k, number in enumerate(numbers)}

    def extents(lengths: Sequence[int]) -> tuple[native.Extent, ...]:
        return tuple(names[length] if varies(length) else length for length in lengths)

    signature = native.Signature(
        inputs=len(kernel.inputs) + len(kernel.outputs) - len(fresh),
        integers=len(numbers),
        outputs=tuple(
            native.Output(buffer.dtype, extents(buffer.sizes), extents(buffer.strides))
            for buffer in fresh
        ),
        releases_gil=sum(map(_span, (*kernel.inputs, *kernel.outputs))) >= LONG,
    )
    text = native.joined(llvm, native.entry_point("entry", signature))
    code, doc = object_code(text), "\n".join(_comments(llvm))
    function = native.builtin(native.load(code), "entry", kernel.name, doc)
    return _Way(function, numbers, llvm, code, doc)


def _tuned(way: _Way, loops: Schedule, fresh: Sequence[Buffer], host: Host) -> _Way:
    """The fastest of several ways, of which one is known already."""
    kernel = loops.kernel
    count = len(kernel.outputs) - len(fresh)
    given = tuning.arguments((*kernel.inputs, *kernel.outputs[:count]))
    best = way
    for others in tuning.families(kernel, host, torch.get_num_threads()):
        found = {best.llvm: (best, host)}
        for other in others(host):
            made = _way(loops, fresh, other)
            found.setdefault(made.llvm, (made, other))
        ways = list(found.values())
        if len(ways) > 1:
            best, host = ways[tuning.fastest([each.function for each, _ in ways], given)]
    return best


def _span(buffer: Buffer) -> int:
    return example(buffer.sizes[0])


def _comments(text: str) -> list[str]:
    """What a kernel's text says of itself."""
    lines = (line for line in text.splitlines() if line.startswith(";"))
    return [line.lstrip("; ") for line in lines]
