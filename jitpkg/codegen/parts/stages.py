"""Graphs of which one result is computed from another, as a loss is from logits that are returned.

The backward half of a graph is one node of autograd's: the gradient of the loss would not go
through the logits that the program has. It may look at that: by a hook, by `retain_grad`, by
`torch.autograd.grad(loss, logits)`. So such a graph ends where a result is computed that others are
made of, and another one, of its own, goes on from there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import getitem
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.graph.autocast import casts, is_kept
from jitpkg.codegen.graph.fallback import as_it_is
from jitpkg.codegen.graph.grad_modes import has_backward, is_switch
from jitpkg.codegen.graph.python import straight_line
from jitpkg.codegen.sizes.by_size import BySize
from jitpkg.codegen.sizes.by_symbols import OneMore
from jitpkg.codegen.sizes.specialise import ARITHMETIC
from jitpkg.dataclass import dataclass
from jitpkg.facts.thread_state import changes_autocast, mode_switches
from jitpkg.internals.tensors import is_leaf
from jitpkg.marks import ASKED, DIMS, GRADIENTS, RECORDED, TRAINS, VARIES, WRITES, Dims, varies

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
    if has_backward(gm.graph):
        return around_backward(gm, inputs, partial(in_stages, compile_=compile_))
    stages = _stages(gm.graph) if torch.is_grad_enabled() else []
    if not 1 < len(stages) <= MOST or not can_be_cut(gm.graph, stages):
        return compile_(gm, inputs)
    if casts(gm.graph) and _shares_leaves(gm.graph, stages, inputs):
        return compile_(gm, inputs)
    return Stages(gm, stages, compile_).compiled(inputs)


def is_differentiated(graph: fx.Graph) -> bool:
    """Whether a graph that asks for gradients with a history, and goes backward nowhere, may be one
    node of autograd's."""
    passes = [node for node in graph.nodes if GRADIENTS in node.meta]
    if not all(ASKED in node.meta and node.args[-1] for node in passes):
        return False
    returned = graph.output_node().all_input_nodes
    return any(TRAINS in node.meta for node in returned) and len(_stages(graph)) == 1


def writes_histories(gm: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether a graph with a backward pass gives an input a history, or writes to one that has got
    a history elsewhere, or would if eager code did not refuse it, as for a leaf.

    The pass would free more of it than it went through, and a graph that runs without grad mode
    refuses nothing.
    """
    names = (node.name for node in gm.graph.find_nodes(op="placeholder"))
    given = dict(zip(names, inputs, strict=True))
    for node in gm.graph.nodes:
        written = (given[name] for name in node.meta.get(WRITES, ()) if name in given)
        if any(RECORDED in node.meta or (x.requires_grad and not is_leaf(x)) for x in written):
            return True
    return False


def around_backward(gm: fx.GraphModule, inputs: list[Any], compile_: Compile) -> Function:
    """What is before and behind each backward pass, compiled, and the passes by torch's engine.

    The graph as it is where autocast is entered in one of these parts and left in another, where it
    writes to histories, or where gradients are asked for: these may go to what a part computes.
    """
    if any(ASKED in node.meta for node in gm.graph.nodes):
        return as_it_is("jitpkg", gm, "gradients that the program asks for")
    if writes_histories(gm, inputs):
        why = "a backward pass, and a write to an input that has a history then"
        return as_it_is("jitpkg", gm, why)
    parts = [part for part in _around(gm.graph) if part]
    if sum(any(changes_autocast(node.target) for node in part) for part in parts) > 1:
        return as_it_is("jitpkg", gm, "a backward pass under autocast")
    if not _begin_with_grad(parts):
        return as_it_is("jitpkg", gm, "a backward pass where grad mode is off")
    if len(parts) > _WITH_ONE_PASS or _frees_others(gm.graph):
        return as_it_is("jitpkg", gm, "a backward pass, and another one by something else")

    def compiled(part: fx.GraphModule, given: list[Any]) -> Function:
        if has_backward(part.graph):
            return straight_line(type(part).__name__, part.graph)
        return compile_(part, given)

    return Stages(gm, parts, compiled).compiled(inputs)


_WITH_ONE_PASS = 3
"""Parts. What two passes go through may be in one part, which is one node of autograd's: it has
what all of it saves, whole."""


def _around(graph: fx.Graph) -> Iterator[list[fx.Node]]:
    part: list[fx.Node] = []
    within = False
    for node in graph.nodes:
        if not node.op.startswith("call"):
            continue
        if GRADIENTS in node.meta or (within and not _is_item(node)):
            yield part
            part, within = [], GRADIENTS in node.meta
        part.append(node)
    yield part


def _frees_others(graph: fx.Graph) -> bool:
    """Whether something is used after a backward pass that was made before, has a history, and is
    not what the pass goes through. A part is one node of autograd's: the pass would free it all."""
    order = {node: k for k, node in enumerate(graph.nodes)}
    freed: set[fx.Node] = set()
    for node in graph.nodes:
        if GRADIENTS not in node.meta or node.args[-1]:
            continue
        stack = list(node.all_input_nodes)
        while stack:
            used = stack.pop()
            if used not in freed:
                freed.add(used)
                stack += used.all_input_nodes
        others = (n for n in graph.nodes if TRAINS in n.meta and n not in freed)
        for other in others:
            if order[other] < order[node] < max(map(order.__getitem__, other.users), default=0):
                return True
    return False


def _begin_with_grad(parts: Sequence[Sequence[fx.Node]]) -> bool:
    """Whether grad mode, if it is on somewhere in a part, is so where that begins: what compiles
    the part looks at the mode there."""
    grad = torch.is_grad_enabled()
    for part in parts:
        switches = [bool(node.args[0]) for node in part if is_switch(node)]
        if not grad and any(switches):
            return False
        grad = switches[-1] if switches else grad
    return True


def _stages(graph: fx.Graph) -> list[list[fx.Node]]:
    """The ops, cut behind each result that others are computed from."""
    results = {node for node in graph.output_node().all_input_nodes if TRAINS in node.meta}
    ends = _ends(graph, results)
    stages: list[list[fx.Node]] = [[]]
    cut = False
    for node in graph.nodes:
        if not node.op.startswith("call"):
            continue
        if cut and not _belongs(node):
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


def _belongs(node: fx.Node) -> bool:
    """Whether it goes with the op before: it may be one of its results, or turns grad mode on."""
    return _is_item(node) or (is_switch(node) and bool(node.args[0]))


def _is_item(node: fx.Node) -> bool:
    return node.target is getitem and isinstance(node.args[1], int)


def can_be_cut(graph: fx.Graph, stages: list[list[fx.Node]]) -> bool:
    """Whether a graph may be several: none sets autocast or writes to what another one has made."""
    if not _begin_with_grad(stages):
        return False
    targets = [node.target for stage in stages for node in stage]
    if any(changes_autocast(each) or each in mode_switches() for each in targets):
        return False
    return write_to_their_own(graph, stages)


def write_to_their_own(graph: fx.Graph, stages: Sequence[Sequence[fx.Node]]) -> bool:
    """Whether no stage writes to what another one has made."""
    of = {node.name: k for k, stage in enumerate(stages) for node in stage}
    given = {node.name for node in graph.find_nodes(op="placeholder")}
    return all(
        name in given or of.get(name) == k
        for k, stage in enumerate(stages)
        for node in stage
        for name in node.meta.get(WRITES, ())
    )


def _shares_leaves(graph: fx.Graph, stages: list[list[fx.Node]], inputs: Sequence[Any]) -> bool:
    """Whether two stages use what autocast casts once: its gradients are summed in that dtype."""
    placeholders = graph.find_nodes(op="placeholder")
    kept = {node for node, given in zip(placeholders, inputs, strict=True) if is_kept(given)}
    used = [{n for node in stage for n in node.all_input_nodes} & kept for stage in stages]
    return sum(map(len, used)) > len(set().union(*used))


@dataclass(frozen=True, eq=False, slots=True)
class Stage:
    """A part of a graph."""

    module: fx.GraphModule
    takes: tuple[int, ...]
    """Which values it is given: the inputs, and what the stages before return, in order."""


class Stages:
    """A graph of which parts, one after the other, are compiled each by itself."""

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

    def _made(self, name: str, stages: list[list[fx.Node]]) -> Iterator[Stage]:
        for nodes in stages:
            cut = Cut.of(name, nodes, nodes)
            if self._varies:
                cut.module.meta[VARIES] = tuple(map(self._dims_of, cut.given))
            yield Stage(cut.module, tuple(self._places[node] for node in cut.given))
            for node in cut.returned:
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
        stages = enumerate(self._stages)
        calls = [(self.function_of(k, stage, inputs), stage.takes) for k, stage in stages]
        places = self._returned

        def run(*inputs: Any) -> Any:
            values = list(inputs)
            for function, takes in calls:
                values += function(*[values[k] for k in takes])
            return tuple([values[k] for k in places])

        return run

    def function_of(self, k: int, stage: Stage, inputs: Sequence[Any]) -> Function:
        """The function of a stage, of which it is the k-th."""
        if not k:
            return self._compile(stage.module, [inputs[place] for place in stage.takes])
        return self.later(stage)

    def later(self, stage: Stage) -> Function:
        """A function that compiles a stage when it is called."""
        by = OneMore if self._varies else BySize
        return by(stage.module, self._compile).run


@dataclass(frozen=True, eq=False, slots=True)
class Cut:
    """Some of a graph's nodes as a graph of their own."""

    module: fx.GraphModule
    given: Sequence[fx.Node]
    """What it takes, as the whole has it."""
    returned: Sequence[fx.Node]

    @classmethod
    def of(cls, name: str, nodes: Sequence[fx.Node], own: Sequence[fx.Node]) -> Cut:
        """
        Args:
            nodes: all of them, in order.
            own: those that others may use.
        """
        inside = set(nodes)
        used = (each for node in nodes for each in node.all_input_nodes)
        given = list(dict.fromkeys(each for each in used if each not in inside))
        returned = [node for node in own if any(user not in inside for user in node.users)]
        graph = fx.Graph()
        copies = {node: graph.placeholder(node.name) for node in given}
        names = _names_of_memories(given)
        for node in nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if WRITES in node.meta:
                also = (name for memory in node.meta[WRITES] for name in names[memory])
                copies[node].meta[WRITES] = (*node.meta[WRITES], *also)
        graph.output(tuple(copies[node] for node in returned))
        module = fx.GraphModule(torch.nn.Module(), graph, class_name=name)
        return cls(module, given, returned)


def _names_of_memories(given: Sequence[fx.Node]) -> Mapping[str, Sequence[str]]:
    """What values that a stage is given are called, by the name of what has made their memory."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for node in given:
        names[node.meta.get(TRAINS, node.name)].append(node.name)
    return names
