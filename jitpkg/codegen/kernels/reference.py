"""Kernels by the reference interpreter: slow, and what everything else is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.cache.entry import MadeKernel
from jitpkg.codegen.cache.plain import Plain
from jitpkg.codegen.fusion.groups import Limits
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.ir import interpreter, legality
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import symbols_of, value_of
from jitpkg.codegen.ir.nodes import Axis, Checked, Given, Reduce, below, written
from jitpkg.codegen.kernels.made import Made


class Interpreted:
    """Makes functions that interpret a kernel."""

    device = torch.device("cpu")
    limits = Limits()
    keeps = False

    def __init__(self) -> None:
        self.made: dict[Callable[..., Any], MadeKernel] = {}

    def depends(self) -> Plain:
        """Nothing else."""

    def choose_calls(self, graph: fx.Graph) -> None:
        """All stay as they are."""

    def obstacle(self, graph: fx.Graph) -> str | None:
        """Nothing is launched as a whole."""

    def replayed(
        self, name: str, obstacle: str | None, function: Callable[..., Any], **how: Any
    ) -> Callable[..., Any]:
        """As it is."""
        return function

    def make(self, normal: Normal, builder: Builder, given: int) -> Made:
        kernel = normal.kernel
        for store in kernel.stores:
            legality.check_store(store, kernel.axes)
        fresh = normal.outputs[given:]
        lines = (*kernel.inputs, *kernel.outputs)
        numbers = symbols_of(_lengths(kernel, normal))
        names = [str(number) for number in numbers]

        def run(*args: Any) -> Any:
            count = len(args) - len(names)
            tensors, symbols = args[:count], dict(zip(names, args[count:], strict=True))

            def here(lengths: Sequence[int]) -> list[int]:
                return [value_of(length, symbols) for length in lengths]

            made = [
                torch.empty_strided(
                    here(b.sizes), here(b.strides), dtype=b.dtype, device=self.device
                )
                for b in fresh
            ]
            memory = {  # what a kernel writes counts for no version
                line: tensor.data.as_strided(here(line.sizes), (1,))
                for line, tensor in zip(lines, (*tensors, *made), strict=True)
            }
            overwritten = {id(tensor) for tensor in tensors[len(kernel.inputs) :]}
            for line, tensor in zip(kernel.inputs, tensors, strict=False):
                if id(tensor) in overwritten:  # one store is done after the other
                    memory[line] = memory[line].clone()
            interpreter.run_stores(kernel.stores, kernel.axes, memory, symbols)
            return made[0] if len(made) == 1 else tuple(made)

        return Made(run, numbers)


def _lengths(kernel: Kernel, normal: Normal) -> Iterator[int]:
    """All in a kernel that may vary."""
    for buffer in (*kernel.inputs, *kernel.outputs, *normal.inputs, *normal.outputs):
        yield from (*buffer.sizes, *buffer.strides)
    for node in below(*written(kernel.stores)):
        match node:
            case Axis(extent=length) | Checked(extent=length) | Given(value=length):
                yield length
            case Reduce(over=over):
                yield from (axis.extent for axis in over)
            case _:
                pass
    yield from (axis.extent for axis in kernel.axes)
