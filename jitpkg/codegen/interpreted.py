"""Kernels by the reference interpreter: slow, and what everything else is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.ir import interpreter, legality
from jitpkg.codegen.ir.builder import Builder


class Interpreted:
    """Makes functions that interpret a kernel."""

    def choose_calls(self, graph: fx.Graph) -> None:
        """All stay as they are."""

    def make(self, normal: Normal, builder: Builder, given: int) -> Callable[..., Any]:
        kernel = normal.kernel
        for store in kernel.stores:
            legality.check_store(store, kernel.axes)
        fresh = normal.outputs[given:]

        def run(*tensors: torch.Tensor) -> Any:
            made = [
                torch.empty_strided(b.sizes, b.strides, dtype=b.dtype, device=torch.device("cpu"))
                for b in fresh
            ]
            lines = (*kernel.inputs, *kernel.outputs)
            memory = {
                line: tensor.as_strided(line.sizes, (1,))
                for line, tensor in zip(lines, (*tensors, *made), strict=True)
            }
            interpreter.run_stores(kernel.stores, kernel.axes, memory)
            return made[0] if len(made) == 1 else tuple(made)

        return run
