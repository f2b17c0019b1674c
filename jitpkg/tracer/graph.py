"""The only writer of FX nodes."""

from __future__ import annotations

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.guards.numbers import Formula
from jitpkg.guards.sources import Source, described
from jitpkg.marks import WRITES


@dataclass(frozen=True, slots=True)
class GraphInput:
    """A placeholder, and the tensor or number that it stands for."""

    node: fx.Node
    source: Source | Formula
    example: torch.Tensor | int | float


class GraphWriter:
    """A graph that grows, and that can go back to a mark."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.inputs: list[GraphInput] = []
        self._by_node: dict[fx.Node, GraphInput] = {}
        self._ops: list[fx.Node] = []
        self._arithmetic: set[fx.Node] = set()
        """Nodes that compute with numbers, and are no ops by themselves."""
        self._writers: defaultdict[str, list[fx.Node]] = defaultdict(list)

    @property
    def op_count(self) -> int:
        return len(self._ops) - len(self._arithmetic)

    def placeholder(self, source: Source, example: torch.Tensor) -> fx.Node:
        """The node for a tensor that exists."""
        name = re.sub(r"\W+", "_", described(source)).strip("_") or "value"
        return self._input(name, source, example)

    def number(self, source: Source | Formula, example: int | float) -> fx.Node:
        """The node for a number that is computed anew on each call."""
        name = "number" if isinstance(source, Formula) else described(source)
        return self._input(re.sub(r"\W+", "_", name).strip("_") or "value", source, example)

    def _input(
        self, name: str, source: Source | Formula, example: torch.Tensor | int | float
    ) -> fx.Node:
        with self._behind_inputs():
            node = self.graph.placeholder(name)
        node.target = node.name  # what the printed function calls its argument: once each
        self.inputs.append(GraphInput(node, source, example))
        self._by_node[node] = self.inputs[-1]
        return node

    def input(self, node: fx.Node) -> GraphInput | None:
        """What a node stands for, if that is an input."""
        return self._by_node.get(node)

    def example(self, node: fx.Node) -> torch.Tensor:
        """The tensor of the call at hand that an input stands for."""
        example = self._by_node[node].example
        assert isinstance(example, torch.Tensor)
        return example

    def arithmetic(self, target: Callable[..., Any], args: tuple[Any, ...]) -> fx.Node:
        """A node that computes with numbers."""
        node = self.call_function(target, args, {})
        self._arithmetic.add(node)
        return node

    def call_function(
        self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> fx.Node:
        return self._added(self.graph.call_function(target, args, kwargs))

    def call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        return self._added(self.graph.call_method(name, args, kwargs))

    def mark(self) -> tuple[int, int]:
        return len(self.inputs), len(self._ops)

    def note_writes(self, node: fx.Node, names: tuple[str, ...]) -> None:
        """Note on an op which nodes' tensors it writes to, by the names of those."""
        node.meta[WRITES] = names
        for name in dict.fromkeys(names):
            self._writers[name].append(node)

    def writers(self, node: fx.Node) -> Sequence[fx.Node]:
        """The ops that write to a node's tensor, or to what shares its memory."""
        return self._writers.get(node.name, ())

    def rollback(self, mark: tuple[int, int]) -> None:
        """Erase what was added since `mark`."""
        inputs, ops = mark
        while len(self._ops) > ops:
            node = self._ops.pop()
            self._arithmetic.discard(node)
            for name in dict.fromkeys(node.meta.get(WRITES, ())):
                self._writers[name].pop()
            self.graph.erase_node(node)
        while len(self.inputs) > inputs:
            node = self.inputs.pop().node
            del self._by_node[node]
            self.graph.erase_node(node)

    def outlined(
        self, mark: tuple[int, int], returned: Sequence[fx.Node]
    ) -> tuple[fx.Graph, list[fx.Node]]:
        """Take the ops since `mark` out: they are a graph of their own that returns these of them.

        Returns: that graph, and the nodes that it is given.
        """
        made = self.part(mark, tuple(returned))
        inputs, _ = self.mark()
        self.rollback((inputs, mark[1]))
        return made

    def part(self, mark: tuple[int, int], returned: Any) -> tuple[fx.Graph, list[fx.Node]]:
        """The same as a copy; `returned` has nodes in tuples, with None."""
        ops = self._ops[mark[1] :]
        own = set(ops)
        used = [each for node in ops for each in node.all_input_nodes]
        fx.map_arg(returned, used.append)
        given = list(dict.fromkeys(each for each in used if each not in own))
        graph = fx.Graph()
        copies = {node: graph.placeholder(node.name) for node in given}
        for node in ops:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(fx.map_arg(returned, copies.__getitem__))
        return graph, given

    def nodes_since(self, mark: tuple[int, int]) -> list[fx.Node]:
        """The ops added since `mark`."""
        return self._ops[mark[1] :]

    def item(self, node: fx.Node, k: int) -> fx.Node:
        """One of several results."""
        return self.call_function(operator.getitem, (node, k), {})

    def names_since(self, mark: tuple[int, int]) -> list[str]:
        """The nodes added since `mark`, inputs not counted."""
        return [node.name for node in self._ops[mark[1] :]]

    def targets_since(self, mark: tuple[int, int]) -> set[object]:
        """What these nodes call."""
        return {node.target for node in self._ops[mark[1] :]}

    def _added(self, node: fx.Node) -> fx.Node:
        self._ops.append(node)
        return node

    def _behind_inputs(self) -> AbstractContextManager[Any]:
        if self.inputs:
            return self.graph.inserting_after(self.inputs[-1].node)
        if self._ops:
            return self.graph.inserting_before(self._ops[0])
        return nullcontext()
