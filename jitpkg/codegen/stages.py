"""Graphs of which one result is computed from another, as a loss is from logits that are returned.

The backward half of a graph is one node of autograd's: the gradient of the loss would not go
through the logits that the program has. It may look at that: by a hook, by `retain_grad`, by
`torch.autograd.grad(loss, logits)`. So such a graph ends where a result is computed that others are
made of, and another one, of its own, goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.by_size import BySize
from jitpkg.codegen.aten.by_symbols import OneMore
from jitpkg.codegen.autocast import casts, is_kept
from jitpkg.codegen.numbers import ARITHMETIC
from jitpkg.facts.thread_state import changes_autocast
from jitpkg.marks import DIMS, TRAINS, VARIES, WRITES, Dims, varies

Function = Callable[..., Any]
Compile = Callable[[fx.GraphModule, list[Any]], Function]

MOST = 12
"""Stages of one graph; what has more is not cut."""


def in_stages(gm: fx.GraphModule, inputs: list[Any], compile_: Compile) -> Function:
    """The graph, compiled in stages, or as one.

    A graph is not cut that writes to what an earlier stage has made, or that enters autocast: there
    gradients by results of the same graph are not those of eager code.

    Args:
        compile_: compiles a graph for such inputs, as the backend does.
    """
    stages = _stages(gm.graph) if torch.is_grad_enabled() else []
    if not 1 < len(stages) <= MOST or not _can_be_cut(gm.graph, stages):
        return compile_(gm, inputs)
    if casts(gm.graph) and _shares_leaves(gm.graph, stages, inputs):
        return compile_(gm, inputs)
    return _Stages(gm, stages, compile_).compiled(inputs)


def _stages(graph: fx.Graph) -> list[list[fx.Node]]:
    """The ops, cut behind each result that others are computed from."""
    results = {node for node in graph.output_node().all_input_nodes if TRAINS in node.meta}
    ends = _ends(graph, results)
    stages: list[list[fx.Node]] = [[]]
    cut = False
    for node in graph.nodes:
        if not node.op.startswith("call"):
            continue
        if cut and not _is_item(node):
            stages.append([])
            cut = False
        stages[-1].append(node)
        cut = cut or node in ends
    return stages


def _ends(graph: fx.Graph, results: set[fx.Node]) -> set[fx.Node]:
    """The nodes with which those results have become what they are that others are made of."""
    leading: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if any(user in results or user in leading for user in node.users):
            leading.add(node)
    order = {node: k for k, node in enumerate(graph.nodes)}
    last = {name: node for node in graph.nodes for name in node.meta.get(WRITES, ())}
    made = (node for node in results & leading if node.op != "placeholder")
    return {max(node, last.get(node.meta[TRAINS], node), key=order.__getitem__) for node in made}


def _is_item(node: fx.Node) -> bool:
    """Whether it may be one of the results of the op before: these stay together."""
    return node.target is getitem and isinstance(node.args[1], int)


def _can_be_cut(graph: fx.Graph, stages: list[list[fx.Node]]) -> bool:
    of = {node.name: k for k, stage in enumerate(stages) for node in stage}
    given = {node.name for node in graph.find_nodes(op="placeholder")}
    for k, stage in enumerate(stages):
        for node in stage:
            if changes_autocast(node.target):
                return False
            written = (name for name in node.meta.get(WRITES, ()) if name not in given)
            if any(of.get(name) != k for name in written):
                return False
    return True


def _shares_leaves(graph: fx.Graph, stages: list[list[fx.Node]], inputs: Sequence[Any]) -> bool:
    """Whether two stages use what autocast casts once: its gradients are summed in that dtype."""
    placeholders = graph.find_nodes(op="placeholder")
    kept = {node for node, given in zip(placeholders, inputs, strict=True) if is_kept(given)}
    used = [{n for node in stage for n in node.all_input_nodes} & kept for stage in stages]
    return sum(map(len, used)) > len(set().union(*used))


@dataclass(frozen=True, eq=False, slots=True)
class _Stage:
    """A part of a graph."""

    module: fx.GraphModule
    takes: tuple[int, ...]
    """Which values it is given: the inputs, and what the stages before return, in order."""


class _Stages:
    def __init__(self, gm: fx.GraphModule, stages: list[list[fx.Node]], compile_: Compile) -> None:
        self._compile = compile_
        self._varies = varies(gm.meta)
        given = gm.graph.find_nodes(op="placeholder")
        dims = gm.meta.get(VARIES) or [Dims()] * len(given)
        self._dims: dict[fx.Node, Dims | None] = dict(zip(given, dims, strict=True))
        self._places = {node: k for k, node in enumerate(given)}
        self._stages = list(self._made(type(gm).__name__, stages))
        returned: Any = gm.graph.output_node().args[0]
        self._returned = [self._places[node] for node in returned]

    def _made(self, name: str, stages: list[list[fx.Node]]) -> Iterator[_Stage]:
        for nodes in stages:
            own = set(nodes)
            used = (each for node in nodes for each in node.all_input_nodes)
            given = list(dict.fromkeys(each for each in used if each not in own))
            returned = [node for node in nodes if any(user not in own for user in node.users)]
            graph = fx.Graph()
            copies = {node: graph.placeholder(node.name) for node in given}
            for node in nodes:
                copies[node] = graph.node_copy(node, copies.__getitem__)
            graph.output(tuple(copies[node] for node in returned))
            takes = tuple(self._places[node] for node in given)
            module = fx.GraphModule(torch.nn.Module(), graph, class_name=name)
            if self._varies:
                module.meta[VARIES] = tuple(map(self._dims_of, given))
            yield _Stage(module, takes)
            for node in returned:
                self._places[node] = len(self._places)

    def _dims_of(self, node: fx.Node) -> Dims | None:
        """What varies of a value; None for a number."""
        if node in self._dims:
            return self._dims[node]
        if node.target in ARITHMETIC and all(
            self._dims_of(n) is None for n in node.all_input_nodes
        ):
            return None
        dims: Dims = node.meta.get(DIMS, Dims())
        return dims

    def compiled(self, inputs: Sequence[Any]) -> Function:
        """A function of the graph's inputs: of it the first stage is compiled already, the others
        are when they are called."""
        first, *others = self._stages
        function = self._compile(first.module, [inputs[k] for k in first.takes])
        calls = [(function, first.takes)]
        later = OneMore if self._varies else BySize
        calls += [(later(each.module, self._compile).run, each.takes) for each in others]
        places = self._returned

        def run(*inputs: Any) -> Any:
            values = list(inputs)
            for function, takes in calls:
                values += function(*[values[k] for k in takes])
            return tuple([values[k] for k in places])

        return run
