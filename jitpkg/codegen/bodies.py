"""Bodies of control flow, such as the branches of `torch.cond`: each is compiled by itself, for the
tensors that it is first given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.copies import copied, replaced
from jitpkg.marks import BODIES

Function = Callable[..., Any]
Compile = Callable[[fx.GraphModule, list[Any]], Function]

MOST = 8
"""Ways to be given tensors that a body is compiled for; for others it runs op by op."""


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
    vars(made)["forward"] = _Body(made, module.forward, compile_)
    return made


class _Body:
    """A body, called with tensors."""

    def __init__(self, module: fx.GraphModule, plain: Function, compile_: Compile) -> None:
        self._module = module
        self._plain = plain
        self._compile = compile_
        self._made: dict[Any, Function] = {}

    def __call__(self, *inputs: torch.Tensor) -> Any:
        if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
            return self._plain(*inputs)
        key = tuple((x.shape, x.stride(), x.dtype, x.is_inference()) for x in inputs)
        function = self._made.get(key)
        if function is None:
            if len(self._made) == MOST or any(x.is_meta for x in inputs):
                return self._plain(*inputs)
            function = self._made[key] = self._compile(self._module, list(inputs))
        return function(*inputs)
