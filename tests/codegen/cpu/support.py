"""Kernels for tests: from definitions through fusion, the printer and LLVM, to a call."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Mapping, Sequence
from functools import cache

import pytest
import torch

from jitpkg import native
from jitpkg.codegen.cpu.host import Host, host_of
from jitpkg.codegen.cpu.printer import llvm_of
from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normaliser
from jitpkg.codegen.ir import interpreter
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer, Definition, Store
from jitpkg.facts.tensor import contiguous_stride

needs_llvm = pytest.mark.skipif(
    importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"
)


@cache
def host() -> Host:
    return host_of(native.host_features(), native.has("torch_parallel_for"))


def buffer(
    name: str,
    *sizes: int,
    dtype: torch.dtype = torch.float32,
    strides: Sequence[int] | None = None,
) -> Buffer:
    return Buffer(
        name, dtype, sizes, contiguous_stride(sizes) if strides is None else tuple(strides)
    )


def run(
    kernel: Kernel, builder: Builder, tensors: Sequence[torch.Tensor], on: Host | None = None
) -> int:
    """The status of a call with tensors for the kernel's inputs and outputs."""
    text = llvm_of(schedule(kernel, builder), on or host())
    library = native.load(native.compile_ir(text))
    function = ctypes.CFUNCTYPE(ctypes.c_int)(library.address("kernel"))
    return int(function(*(ctypes.c_void_p(t.data_ptr()) for t in tensors)))


def computed(
    builder: Builder,
    definitions: Sequence[Definition],
    memory: Mapping[Buffer, torch.Tensor],
    on: Host | None = None,
) -> list[torch.Tensor]:
    """What one kernel makes of the definitions."""
    stores = [Store(each.buffer, each.axes, each.value) for each in definitions]
    normal = Normaliser(builder).normal(kernel_of("tested", stores))
    made = {each.buffer: torch.full(each.buffer.sizes, 7).to(each.dtype) for each in definitions}
    given = [memory[each] for each in normal.inputs] + [made[each] for each in normal.outputs]
    assert run(normal.kernel, builder, given, on) == 0
    return [made[each.buffer] for each in definitions]


def check(
    builder: Builder,
    definitions: Sequence[Definition],
    memory: Mapping[Buffer, torch.Tensor],
    *,
    tolerance: float = 1e-5,
    on: Host | None = None,
) -> None:
    """The kernel makes what the reference interpreter does."""
    found = computed(builder, definitions, memory, on)
    for definition, each in zip(definitions, found, strict=True):
        wanted = interpreter.evaluate(definition, memory)
        exact = not each.dtype.is_floating_point
        most = 0.0 if exact else 2e-2 if each.dtype.itemsize == 2 else tolerance
        torch.testing.assert_close(each, wanted, rtol=most, atol=most, equal_nan=True)
