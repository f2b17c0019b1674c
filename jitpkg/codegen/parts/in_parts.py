"""Graphs of which a backend gets the parts only: what is between them Python does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from jitpkg.codegen.parts.reads import around_reads, reads_numbers
from jitpkg.codegen.parts.switches import around_switches, switches

Function = Callable[..., Any]
Compile = Callable[[fx.GraphModule, list[Any]], Function]


def in_parts(
    backend: str,
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    compile_: Compile,
    *,
    takes_floats: bool = True,
) -> Function | None:
    """The graph, cut where modes are switched or numbers are made of tensors; None of any other.

    Args:
        compile_: the backend.
        takes_floats: see `around_reads`.
    """
    if switches(gm.graph):
        return around_switches(backend, gm, inputs, compile_)
    if reads_numbers(gm.graph):
        return around_reads(backend, gm, inputs, compile_, takes_floats=takes_floats)
    return None
