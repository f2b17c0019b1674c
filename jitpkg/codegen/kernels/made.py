"""What a maker of kernels makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitpkg.dataclass import dataclass


class Refused(Exception):
    """A maker makes no such kernel: ATen computes what it would have computed."""


@dataclass(frozen=True, slots=True)
class Made:
    """A kernel that can be called."""

    function: Callable[..., Any]
    """Of the kernel's inputs, of outputs that exist already, and of numbers; it returns the other
    outputs: one tensor, or a tuple of them; None where there are none."""
    numbers: tuple[int, ...] = ()
    """What it is to be given behind the tensors: sizes that vary."""
    ready: Callable[[], None] | None = None
    """Waits for what is still being compiled. It raises where that fails."""
