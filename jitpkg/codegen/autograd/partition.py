"""What a forward saves for its backward, and what the backward computes again.

A value that is computed by pointwise ops costs a fused kernel nothing but the loads that it begins
with. So of all ways to cut the joint graph the one is taken that saves the fewest bytes. But what
lies in memory for a call forward, and is read by one backward, is saved: to compute it again would
take a kernel that does nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from math import inf, prod
from typing import Any

import networkx
from torch import fx

from jitpkg.codegen.aten.passes.common import share_common
from jitpkg.codegen.aten.purity import is_random, is_view, may_be_dropped, name_of, takes_result
from jitpkg.codegen.aten.reach import needed_for, root_of
from jitpkg.codegen.aten.traced import PART, Declined
from jitpkg.codegen.autograd.record import Joint
from jitpkg.codegen.ir.extents import SYMBOL, example
from jitpkg.codegen.lowering import activations, comparison, creation, pointwise
from jitpkg.codegen.lowering.calls import is_fused
from jitpkg.dataclass import dataclass
from jitpkg.facts.tensor import TensorFacts

LONGEST = 150
"""Ops in a row that are computed again. 120 in one kernel take two thirds of the time that they
take in parts; what a kernel of 400 gains is less than what it takes to compile."""

_HAD_ANYWAY = 1 / 8
"""What a byte of an input or a result counts: somebody else holds it, too, most often."""

_CHEAP = frozenset(
    key.partition(".")[0]
    for rows in (pointwise.ROWS, comparison.ROWS, activations.ROWS, creation.ROWS)
    for key in rows
)
"""Ops that are computed again."""


@dataclass(frozen=True, eq=False, slots=True)
class Halves:
    """The two graphs."""

    forward: fx.Graph
    """Returns the values, and then what is saved."""
    backward: fx.Graph
    """Takes symbols, what was saved, and tangents; returns a gradient, or None, for each input."""


def parted(joint: Joint) -> Halves:
    """Cut a joint graph, which is changed.

    Raises:
        Declined: it cannot be cut.
    """
    graph = joint.graph
    returned = {root_of(node) for node in joint.values}
    read = {root_of(used) for node in joint.backward for used in node.all_input_nodes}
    output = graph.output((tuple(joint.values), tuple(joint.gradients)))
    share_common(graph, but=_makers_of(graph, returned))
    ends: Any = output.args[0]
    values, gradients = ends
    placeholders = graph.find_nodes(op="placeholder")
    given, tangents = placeholders[: len(gradients)], placeholders[len(gradients) :]
    inner = _inside_of_parts(graph, joint.backward)
    read.update(root_of(used) for node in inner for used in node.all_input_nodes)
    # Of what the program can write to before it goes backward, what eager code saves, too.
    untold = (returned | set(given)) - read
    late = _following(tangents)
    wanted = {node for node in gradients if node is not None}
    needed = needed_for(wanted)
    early = [node for node in graph.nodes if node in needed and node not in late]
    saved = _Cut(early, late, wanted, untold, {*given, *returned}, inner).saved()
    for node in graph.nodes:
        facts = node.meta.get("facts")
        if isinstance(facts, TensorFacts):
            node.meta["facts"] = replace(facts, requires_grad=False, is_leaf=True)
    kept = [node for node in graph.nodes if node not in late and node not in tangents]
    forward = _part(kept, given, (*values, *saved), all_that_may_raise=True)
    symbols = [node for node in given if SYMBOL in node.meta]
    given_back = [*symbols, *saved, *tangents]
    order = _when_needed(graph, given_back, late) if inner else [*kept, *graph.nodes]
    backward = _part(order, given_back, gradients)
    return Halves(forward, backward)


def _makers_of(graph: fx.Graph, returned: Set[fx.Node]) -> set[fx.Node]:
    """What makes the memory of a result: two results may not become one."""
    made = {node for node in graph.nodes if root_of(node) in returned}
    return made | {node.all_input_nodes[0] for node in made if takes_result(node)}


def _inside_of_parts(graph: fx.Graph, backward: Set[fx.Node]) -> set[fx.Node]:
    """What the forward has in parts of which nothing is saved, and does not use outside of them.

    Random numbers are saved: they are not drawn again.
    """
    return {
        node
        for node in graph.nodes
        if PART in node.meta
        and not is_random(node)
        and all(
            user in backward or user.meta.get(PART) == node.meta[PART]
            for user in _users_of_value(node)
        )
    }


def _users_of_value(node: fx.Node) -> Iterator[fx.Node]:
    """The users of a value, or of a view of it."""
    for user in node.users:
        if is_view(user):
            yield from _users_of_value(user)
        else:
            yield user


def _when_needed(graph: fx.Graph, given: Iterable[fx.Node], late: Set[fx.Node]) -> list[fx.Node]:
    """The nodes of a graph in an order in which what does not depend on tangents comes just before
    what reads it: memory is used for one part at a time."""
    placed = set(given)
    order: list[fx.Node] = []

    def place(node: fx.Node) -> None:
        todo = [node]
        while todo:
            missing = [n for n in todo[-1].all_input_nodes if n not in placed]
            if missing:
                todo.extend(missing)
                continue
            last = todo.pop()
            if last not in placed:
                placed.add(last)
                order.append(last)

    for node in graph.nodes:
        if node in late:
            place(node)
    for node in graph.nodes:
        place(node)
    return order


def _following(of: Iterable[fx.Node]) -> set[fx.Node]:
    """What is computed from these."""
    found = set(of)
    open_ = list(found)
    while open_:
        for user in open_.pop().users:
            if user.op != "output" and user not in found:
                found.add(user)
                open_.append(user)
    return found


class _Cut:
    """The cheapest set of values from which all that follows can be computed.

    Args:
        early: what a backward needs that does not depend on tangents, in order.
        late: what does.
        gradients: what a backward returns.
        untold: what is not to be saved.
        had: what is held anyway.
        inner: what is to be computed again.
    """

    def __init__(
        self,
        early: list[fx.Node],
        late: Set[fx.Node],
        gradients: Set[fx.Node],
        untold: Set[fx.Node],
        had: Set[fx.Node],
        inner: Set[fx.Node],
    ) -> None:
        self._early = early
        self._late = late
        self._gradients = gradients
        self._untold = untold
        self._had = had
        self._inner = inner
        self._depths: dict[fx.Node, int] = {}

    def saved(self) -> list[fx.Node]:
        """
        Raises:
            Declined: nothing that may be saved is enough.
        """
        flow = networkx.DiGraph()
        flow.add_node("source")
        flow.add_node("sink")
        early = set(self._early)
        for node in self._early:
            flow.add_edge((node, 0), (node, 1), capacity=self._cost(node))
            if not self._is_computed_again(node):
                flow.add_edge("source", (node, 0), capacity=inf)
            for user in node.users:
                if user in early:
                    flow.add_edge((node, 1), (user, 0), capacity=inf)
                elif user in self._late:
                    flow.add_edge((node, 1), "sink", capacity=inf)
            if node in self._gradients:  # one that needs no tangent
                flow.add_edge((node, 1), "sink", capacity=inf)
        try:
            _, (reached, _) = networkx.minimum_cut(flow, "source", "sink")
        except networkx.NetworkXUnbounded as error:
            raise Declined("what a backward needs may be written to before") from error
        return [n for n in self._early if (n, 0) in reached and (n, 1) not in reached]

    def _cost(self, node: fx.Node) -> float:
        facts: Any = node.meta.get("facts")
        if not isinstance(facts, TensorFacts) or is_view(node):
            return inf
        if node in self._untold or node in self._inner:
            return inf
        size = prod(map(example, facts.size)) * facts.dtype.itemsize
        return (size + 1) * (_HAD_ANYWAY if node in self._had else 1)

    def _is_computed_again(self, node: fx.Node) -> bool:
        if is_random(node) or node.op != "call_function":
            return False
        if is_view(node) or node in self._inner:
            return True
        if PART in node.meta:  # what it returns: another part begins with that
            return False
        if name_of(node) not in _CHEAP or self._lies_for_calls(node):
            return False
        depth = 1 + max((self._depths.get(n, 0) for n in node.all_input_nodes), default=0)
        self._depths[node] = depth % (LONGEST + 1)
        return depth <= LONGEST

    def _lies_for_calls(self, node: fx.Node) -> bool:
        is_late = {reader in self._late for reader in _readers(node)}
        return len(is_late) == 2


def _readers(node: fx.Node) -> Iterator[fx.Node]:
    """The calls that are not fused, and read a value or a view of it."""
    for user in node.users:
        if is_view(user):
            yield from _readers(user)
        elif user.op == "call_function" and not is_fused(user.target):
            yield user


def _part(
    nodes: Iterable[fx.Node],
    given: list[fx.Node],
    returned: Iterable[fx.Node | None],
    *,
    all_that_may_raise: bool = False,
) -> fx.Graph:
    """A graph of its own: what these return, made of what is given."""
    returned = tuple(returned)
    wanted = {node for node in returned if node is not None}
    nodes = list(dict.fromkeys(nodes))
    if all_that_may_raise:
        called = (node for node in nodes if node.op == "call_function")
        wanted.update(node for node in called if not may_be_dropped(node))
    needed = needed_for(wanted, set(given))
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in given:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in nodes:
        if node in needed and node not in copies and node.op == "call_function":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(None if node is None else copies[node] for node in returned))
    return graph
