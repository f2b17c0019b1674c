"""Kernels printed and not run: for what is asked of them alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import torch

from jitpkg.codegen.triton.maker import TritonKernels
from jitpkg.codegen.triton.source import Source
from jitpkg.codegen.triton.target import Target
from jitpkg.dataclass import dataclass


@dataclass(eq=False, slots=True)
class Collected:
    """Notes what it is to run; what is to be computed is zero, which is an index into anything."""

    sources: list[Source] = field(default_factory=list)
    """Each kernel once, in the order in which they were printed."""
    launches: list[Source] = field(default_factory=list)
    """What would have been launched, in that order."""

    def runner(self, source: Source, written: int) -> Callable[..., None]:
        if source not in self.sources:
            self.sources.append(source)
        count = len(source.pointers)

        def run(*given: Any) -> None:
            self.launches.append(source)
            for tensor in given[count - written : count]:
                tensor.zero_()

        return run

    def wait(self, source: Source) -> tuple[float, str]:
        return 0.0, ""


def collecting(target: Target, into: Collected) -> TritonKernels:
    """What prints kernels for a GPU that need not be there, for graphs on the CPU."""
    return TritonKernels(torch.device("cpu"), target, into)
