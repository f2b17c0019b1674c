"""What pages show of a function that becomes one kernel: its graphs, and the kernel's loops."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

import jitpkg
from jitpkg.codegen.aten.passes.simplify import simplify
from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.prepared import Prepared
from jitpkg.codegen.fusion.kernel import Schedule
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import written
from jitpkg.codegen.ir.text import all_axes, axis_names, text_of_store
from jitpkg.codegen.kernels.compile import compile_graph
from jitpkg.codegen.kernels.made import Made
from jitpkg.codegen.kernels.reference import Interpreted


@dataclass(frozen=True)
class Followed:
    """What becomes of a function on its way to a kernel."""

    graph: str
    aten: str
    normal: Normal
    loops: Schedule
    function: str
    """What calls the kernel, as it is printed."""

    @property
    def kernel(self) -> str:
        """What the kernel stores."""
        kernel = self.loops.kernel
        names = axis_names(all_axes(kernel.axes, written(kernel.stores)))
        return "\n".join(line for s in kernel.stores for line in text_of_store(s, names))


def followed(program: Callable[..., Any], *given: torch.Tensor) -> Followed:
    """A function of which one graph is made, and of that one kernel."""
    graphs: list[tuple[fx.GraphModule, Prepared]] = []

    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        prepared = prepare(gm, inputs)
        assert isinstance(prepared, Prepared)
        graphs.append((gm, prepared))
        return gm.forward

    with torch.no_grad():
        jitpkg.compile(program, backend=backend)(*given)
    ((gm, prepared),) = graphs
    simplify(prepared)
    noted = _Noted()
    compiled = compile_graph("graph", prepared.graph, noted).function
    ((normal, loops),) = noted.kernels
    function = "".join(linecache.getlines(inspect.unwrap(compiled).__code__.co_filename)).strip()
    return Followed(gm.code.strip(), _aten(prepared.graph), normal, loops, function)


class _Noted(Interpreted):
    """Notes the kernels that are to be made."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[tuple[Normal, Schedule]] = []

    def make(self, normal: Normal, builder: Builder, given: int) -> Made:
        self.kernels.append((normal, schedule(normal.kernel, builder)))
        return super().make(normal, builder, given)


def _aten(graph: fx.Graph) -> str:
    lines = []
    for node in graph.nodes:
        facts = node.meta.get("facts")
        if node.op == "call_function" and facts is not None:
            args = ", ".join(map(str, node.args))
            dtype = str(facts.dtype).removeprefix("torch.")
            lines.append(f"{node.name} = {node.target}({args})  # {dtype}{list(facts.size)}")
        elif node.op == "output":
            lines.append(f"return {node.args[0]}")
    return "\n".join(lines)
