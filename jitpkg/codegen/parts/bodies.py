"""Bodies of control flow, such as the branches of `torch.cond`: each is compiled by itself, for the
tensors that it is first given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.graph.copies import copied, replaced
from jitpkg.codegen.sizes.by_size import BySize
from jitpkg.marks import BODIES

Function = Callable[..., Any]
Compile = Callable[[fx.GraphModule, list[Any]], Function]


def with_compiled(gm: fx.GraphModule, compile_: Compile) -> fx.GraphModule:
    """The graph, whose bodies are compiled when they first run; itself, if it has none."""
    if not any(_are_as_traced(node) for node in gm.graph.nodes):
        return gm
    graph = copied(gm.graph)
    for node in graph.nodes:
        if _are_as_traced(node):
            bodies = tuple(
                replace(part, module=_compiled(part.module, compile_)) for part in node.meta[BODIES]
            )
            run: Any = node.target
            node.target = MethodType(run.__func__, bodies)
            node.meta[BODIES] = bodies
    return replaced(gm, graph)


def _are_as_traced(node: fx.Node) -> bool:
    return any(not isinstance(part.module.forward, _Body) for part in node.meta.get(BODIES, ()))


def _compiled(module: fx.GraphModule, compile_: Compile) -> fx.GraphModule:
    made = fx.GraphModule(module, copied(module.graph), "Body")
    vars(made)["forward"] = _Body(module, compile_)
    return made


class _Body:
    """A body, called with tensors: compiled by their sizes, unless gradients go through it."""

    def __init__(self, module: fx.GraphModule, compile_: Compile) -> None:
        self._plain: Function = module.forward
        self._by_size = BySize(module, compile_)

    def __call__(self, *inputs: torch.Tensor) -> Any:
        trained = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
        if trained or any(x.is_meta for x in inputs):
            return self._plain(*inputs)
        return self._by_size.run(*inputs)
