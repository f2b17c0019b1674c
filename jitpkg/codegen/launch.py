"""Kernels as CPython builtins: printed, compiled in process, called with tensors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg import config, events, native
from jitpkg.codegen.cache.objects import object_code
from jitpkg.codegen.cpu.host import Host, host_of
from jitpkg.codegen.cpu.printer import printed
from jitpkg.codegen.cpu.products import onednn_is_faster, use_onednn
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import example, varies
from jitpkg.codegen.ir.nodes import Buffer
from jitpkg.codegen.kept.entry import MadeKernel
from jitpkg.codegen.made import Made

LONG = 1 << 20
"""Elements from which on a kernel lets other threads run Python, which costs it 50 ns."""


class CpuKernels:
    """Makes kernels for this processor."""

    def __init__(self) -> None:
        self.host: Host = host_of(native.host_features(), native.has("torch_parallel_for"))
        self.made: dict[Callable[..., Any], MadeKernel] = {}
        pool = native.pool()
        if pool is not None:
            pool.limit_to(config.current().pool_megabytes << 20)

    def choose_calls(self, graph: fx.Graph) -> None:
        """Let matrix products be computed by the faster library."""
        if onednn_is_faster(native.host_cpu(), torch._C._get_cpu_capability()):
            use_onednn(graph)

    def make(self, normal: Normal, builder: Builder, given: int) -> Made:
        began = time.perf_counter()
        kernel = normal.kernel
        fresh = normal.outputs[given:]
        first = [n for buffer in fresh for n in (*buffer.sizes, *buffer.strides) if varies(n)]
        llvm, numbers = printed(schedule(kernel, builder), self.host, given=first)
        names = {number: f"i{k}" for k, number in enumerate(numbers)}

        def extents(lengths: Sequence[int]) -> tuple[native.Extent, ...]:
            return tuple(names[length] if varies(length) else length for length in lengths)

        signature = native.Signature(
            inputs=len(kernel.inputs) + given,
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
        self.made[function] = MadeKernel(kernel.name, doc, llvm, code)
        seconds = time.perf_counter() - began
        events.STREAM.emit(events.KernelCompiled(kernel.name, llvm, seconds))
        return Made(function, numbers)


def _span(buffer: Buffer) -> int:
    return example(buffer.sizes[0])


def _comments(text: str) -> list[str]:
    """What a kernel's text says of itself."""
    lines = (line for line in text.splitlines() if line.startswith(";"))
    return [line.lstrip("; ") for line in lines]
