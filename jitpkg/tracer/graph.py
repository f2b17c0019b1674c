"""The only writer of FX nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from jitpkg.guards.sources import Source, described


@dataclass(frozen=True, slots=True)
class GraphInput:
    """A placeholder and the tensor that it stands for."""

    node: fx.Node
    source: Source
    example: torch.Tensor


class GraphWriter:
    """A graph that grows, and that can go back to a mark."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.inputs: list[GraphInput] = []
        self._ops: list[fx.Node] = []

    @property
    def op_count(self) -> int:
        return len(self._ops)

    def placeholder(self, source: Source, example: torch.Tensor) -> fx.Node:
        """The node for a tensor that exists."""
        name = re.sub(r"\W+", "_", described(source)).strip("_") or "value"
        with self._behind_inputs():
            node = self.graph.placeholder(name)
        self.inputs.append(GraphInput(node, source, example))
        return node

    def call_function(
        self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> fx.Node:
        return self._added(self.graph.call_function(target, args, kwargs))

    def call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        return self._added(self.graph.call_method(name, args, kwargs))

    def mark(self) -> tuple[int, int]:
        return len(self.inputs), len(self._ops)

    def rollback(self, mark: tuple[int, int]) -> None:
        """Erase what was added since `mark`."""
        inputs, ops = mark
        while len(self._ops) > ops:
            self.graph.erase_node(self._ops.pop())
        while len(self.inputs) > inputs:
            self.graph.erase_node(self.inputs.pop().node)

    def _added(self, node: fx.Node) -> fx.Node:
        self._ops.append(node)
        return node

    def _behind_inputs(self) -> AbstractContextManager[Any]:
        if self.inputs:
            return self.graph.inserting_after(self.inputs[-1].node)
        if self._ops:
            return self.graph.inserting_before(self._ops[0])
        return nullcontext()
