"""What makes functions of kernels, as the compiler of graphs asks it to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import fx

from jitpkg.codegen.cache.entry import MadeKernel
from jitpkg.codegen.cache.plain import Plain
from jitpkg.codegen.fusion.groups import Limits
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.kernels.made import Made

Function = Callable[..., Any]


class Maker(Protocol):
    """What makes functions of kernels: a printer, or the interpreter."""

    @property
    def device(self) -> torch.device:
        """Where the tensors of all kernels lie; what is done elsewhere is left to ATen."""
        ...

    @property
    def limits(self) -> Limits:
        """Where fusion ends."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether its functions can be kept on disk."""
        ...

    @property
    def made(self) -> dict[Function, MadeKernel]:
        """Its functions that have no text, until somebody has kept them, or will not."""
        ...

    def depends(self) -> Plain:
        """What its functions depend on, but for the graph and all that holds for any maker."""
        ...

    def choose_calls(self, graph: fx.Graph) -> None:
        """Replace calls of ATen's by others that do the same, faster."""

    def make(self, normal: Normal, builder: Builder, given: int) -> Made:
        """A function of the kernel's inputs, and of the first `given` of its outputs, that returns
        the other outputs.

        Raises:
            Refused: such a kernel is left to ATen.
        """
        ...

    def obstacle(self, graph: fx.Graph) -> str | None:
        """Why the function of a compiled graph cannot be launched as a whole, where that was asked
        for; None where it can, or was not asked for."""
        ...

    def replayed(
        self,
        name: str,
        obstacle: str | None,
        function: Function,
        *,
        shown: int | None = None,
        handed: set[int] | None = None,
    ) -> Function:
        """The function of a compiled graph, launched as a whole where that was asked for.

        Args:
            obstacle: of that graph.
            shown: how many of its results others may keep, the first ones; None for all.
            handed: addresses of what graphs keep in its place, which the halves of one share.
        """
        ...
