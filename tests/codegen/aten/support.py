"""A backend that prepares graphs and runs them op by op, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.passes.rewrites import Rewrite
from jitpkg.codegen.aten.passes.simplify import simplify
from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.prepared import Prepared
from jitpkg.codegen.aten.runtime import op_by_op
from jitpkg.codegen.graph.python import straight_line
from jitpkg.testing import Comparison

HOW = ("traceback", "idle strides", "view", "version")
"""What only says how a result was computed."""


@dataclass
class OpByOp:
    """The backend."""

    prepared: list[Prepared] = field(default_factory=list)
    declined: list[str] = field(default_factory=list)
    simplifies: bool = True
    rewrites: Sequence[Rewrite] = ()

    def __call__(self, gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        found = prepare(gm, inputs)
        if isinstance(found, str):
            self.declined.append(found)
            return straight_line("declined", gm.graph)
        check(found)
        if self.simplifies:
            simplify(found, self.rewrites)
            check(found)
        self.prepared.append(found)
        return op_by_op(found)

    def assert_same(self, fn: Callable[..., Any], *args: Any) -> None:
        off = 1e-5 if self.rewrites else 0.0
        Comparison(
            backend=self, ignore=HOW, backward=False, relative=off, absolute=off
        ).assert_same(fn, *args)

    def names(self) -> list[str]:
        """The names of the ops of the last graph, without overloads."""
        return [
            getattr(node.target, "__name__", "").split(".")[0]
            for node in self.prepared[-1].graph.nodes
            if node.op == "call_function"
        ]


def check(prepared: Prepared) -> None:
    """Nothing of a graph writes, and everything has facts."""
    for node in prepared.graph.nodes:
        if node.op == "output":
            continue
        assert node.meta["facts"] is not None, node.format_node()
        if isinstance(node.target, torch._ops.OpOverload):
            assert not node.target._schema.is_mutable, node.target
