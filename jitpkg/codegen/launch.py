"""Kernels as CPython builtins: printed, compiled in process, called with tensors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jitpkg import events, native
from jitpkg.codegen.cache.objects import object_code
from jitpkg.codegen.cpu.host import Host, host_of
from jitpkg.codegen.cpu.printer import llvm_of
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer
from jitpkg.codegen.kept.entry import MadeKernel

LONG = 1 << 20
"""Elements from which on a kernel lets other threads run Python, which costs it 50 ns."""


class CpuKernels:
    """Makes kernels for this processor."""

    def __init__(self) -> None:
        self.host: Host = host_of(native.host_features(), native.has("torch_parallel_for"))
        self.made: dict[Callable[..., Any], MadeKernel] = {}

    def make(self, normal: Normal, builder: Builder, given: int) -> Callable[..., Any]:
        began = time.perf_counter()
        kernel = normal.kernel
        printed = llvm_of(schedule(kernel, builder), self.host)
        signature = native.Signature(
            inputs=len(kernel.inputs) + given,
            outputs=tuple(
                native.Output(buffer.dtype, buffer.sizes, buffer.strides)
                for buffer in normal.outputs[given:]
            ),
            releases_gil=sum(map(_span, (*kernel.inputs, *kernel.outputs))) >= LONG,
        )
        text = native.joined(printed, native.entry_point("entry", signature))
        code, doc = object_code(text), "\n".join(_comments(printed))
        function = native.builtin(native.load(code), "entry", kernel.name, doc)
        self.made[function] = MadeKernel(kernel.name, doc, printed, code)
        seconds = time.perf_counter() - began
        events.STREAM.emit(events.KernelCompiled(kernel.name, printed, seconds))
        return function


def _span(buffer: Buffer) -> int:
    return buffer.sizes[0]


def _comments(text: str) -> list[str]:
    """What a kernel's text says of itself."""
    lines = (line for line in text.splitlines() if line.startswith(";"))
    return [line.lstrip("; ") for line in lines]
