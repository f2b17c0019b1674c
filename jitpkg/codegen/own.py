"""The backend `jitpkg`: fused kernels, by our own compiler.

Inference goes the short way (`aten.prepare`); what that cannot do, and training, goes through
AOTAutograd. Where neither works the graph runs as it is, op by op.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from torch import fx

from jitpkg import events, native
from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.runtime import runtime
from jitpkg.codegen.compiler import Maker, compile_graph
from jitpkg.codegen.interpreted import Interpreted
from jitpkg.codegen.launch import CpuKernels
from jitpkg.codegen.lowering.table import NotLowered
from jitpkg.codegen.straight_line import straight_line

Function = Callable[..., Any]


def own(gm: fx.GraphModule, example_inputs: list[Any]) -> Function:
    """Compile a graph to kernels."""
    name = type(gm).__name__
    maker, why = _maker()
    if maker is None:
        return _as_it_is(gm, why)
    prepared = prepare(gm, example_inputs)
    if isinstance(prepared, str):
        return _through_aot(gm, example_inputs, maker)
    try:
        compiled = compile_graph(name, prepared.graph, maker)
    except NotLowered as error:
        return _as_it_is(gm, str(error))
    return runtime(prepared, compiled.function)


def _maker() -> tuple[Maker | None, str]:
    if os.environ.get("JITPKG_DEBUG") == "interpret":
        return Interpreted(), ""
    why = native.why_not()
    return (CpuKernels(), "") if why is None else (None, why)


def _as_it_is(gm: fx.GraphModule, why: str) -> Function:
    name = type(gm).__name__
    events.STREAM.emit(events.Declined(name, "jitpkg", why))
    return straight_line(name, gm.graph)


def _through_aot(gm: fx.GraphModule, inputs: list[Any], maker: Maker) -> Function:
    from jitpkg.codegen.training import through_kernels  # it imports torch's compiler: a second

    return through_kernels(gm, inputs, maker)
