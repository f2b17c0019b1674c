"""Kernels for tests: from definitions through fusion, the printer and LLVM, to a call."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from functools import cache, partial

import pytest
import torch

from jitpkg import native
from jitpkg.codegen.cpu.host import Host, host_of
from jitpkg.codegen.cpu.printer import llvm_of
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer
from jitpkg.facts.tensor import contiguous_stride
from tests.codegen import compared

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


computed = partial(compared.computed, run)
check = partial(compared.check, run)
