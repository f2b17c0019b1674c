"""Graphs with a backward pass inside, as a whole training step has one.

The pass is recorded where it stands, by torch's own formulas, and what comes of it is a graph like
one of inference: no half of it waits for anything. Results that require grad have a history that
the pass has freed; to ask for it again raises, as in eager code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.prepared import Prepared, Result, Same, Value, ViewOf
from jitpkg.codegen.aten.traced import NO_GRAD, PART, REPLACES, WRITTEN_TO, Declined
from jitpkg.codegen.autograd.freed import KEPT, Freed
from jitpkg.codegen.autograd.record import Replay, laid, recorded_or_why
from jitpkg.facts.layout import gradient_of
from jitpkg.facts.tensor import stride_of
from jitpkg.internals.ops import op_name
from jitpkg.internals.tensors import gradients
from jitpkg.marks import ASKED, GRADIENTS


def recorded(gm: fx.GraphModule, inputs: Sequence[Any]) -> tuple[Prepared, Freed] | str:
    """The graph with its backward pass in ATen ops; or why it cannot be recorded."""
    prepared = prepare(gm, inputs, trains=True)
    if isinstance(prepared, str):
        return prepared
    return recorded_or_why(lambda: _Step(prepared, inputs).recorded())


class _Step(Replay):
    def __init__(self, prepared: Prepared, inputs: Sequence[Any]) -> None:
        super().__init__(prepared, inputs, None)
        self._stale: set[fx.Node] = set()
        """Values that a write has changed which autograd does not see."""
        self._own: set[fx.Node] = set()
        """Gradients, each in memory of its own."""
        self._leaves: dict[int, None] = {}
        """The inputs that have got one."""

    def recorded(self) -> tuple[Prepared, Freed]:
        prepared, recorder = self._prepared, self._recorder
        places = {id(each.tensor): k for k, each in self._given().items()}
        for node in self._calls():
            self._check_stale(node)
            if GRADIENTS in node.meta and ASKED not in node.meta:
                self._made[node] = self._differentiated(node, places)
            else:
                self._run(node)
            self._note_stale(node)
        if any(prepared.values[k] in self._stale for k in self._returned()):
            raise Declined("a result with a history, and a write that autograd does not see")
        results = [self._made[node] for node in prepared.values]
        values = tuple(recorder.read(recorder.traced(each)) for each in results)
        if any(result is leaf for result in results for leaf in self._made_leaves()):
            raise Declined(KEPT)
        freed = [k for k, each in enumerate(prepared.results) if self._has_history(each)]
        if freed and any(ASKED in node.meta for node in self._calls()):
            raise Declined(KEPT)
        for k in freed:
            self._check_freed(prepared.results[k])
        recorder.graph.output(values)
        step = replace(prepared, graph=recorder.graph, without_grad=True)
        return step, Freed(tuple(freed), tuple(self._leaves) if freed else ())

    def _check_stale(self, node: fx.Node) -> None:
        if PART in node.meta:
            raise Declined("a checkpoint: nothing would be computed again")
        sees = GRADIENTS in node.meta or NO_GRAD not in node.meta
        if sees and not self._stale.isdisjoint(node.all_input_nodes):
            raise Declined("a write that autograd does not see, to what it goes on with")

    def _note_stale(self, node: fx.Node) -> None:
        before = node.meta.get(REPLACES)
        if before is None or (NO_GRAD not in node.meta and WRITTEN_TO not in before.meta):
            return
        if before in self._stale or self._made[before].requires_grad:
            self._stale.add(node)

    def _check_replaced(self, node: fx.Node) -> None:
        if NO_GRAD not in node.meta and WRITTEN_TO not in node.meta[REPLACES].meta:
            super()._check_replaced(node)

    def _differentiated(self, node: fx.Node, places: Mapping[int, int]) -> tuple[Any, ...]:
        """The gradients of leaves, as they come to lie in their `.grad`."""
        recorder = self._recorder
        roots: Any
        tangents: Any
        leaves: Any
        keep: Any
        roots, tangents, leaves, keep = fx.map_arg(node.args, self._made.__getitem__)
        own = {id(leaf) for leaf in self._made_leaves()}
        if not all(id(leaf) in places or id(leaf) in own for leaf in leaves):
            raise Declined("gradients by what the graph has written to")
        given = [places[id(leaf)] for leaf in leaves if id(leaf) in places]
        self._leaves.update(dict.fromkeys(given))
        before = set(recorder.graph.nodes)
        with recorder.of_everything(), torch.no_grad():
            found = self._by_formulas(roots, tangents, leaves, keep=keep)
            if any(each is None for each in found):
                raise Declined("a leaf that gets no gradient")
            pairs = zip(leaves, found, strict=True)
            return tuple(self._accumulated(*pair, before) for pair in pairs)

    def _accumulated(self, leaf: torch.Tensor, found: Any, before: Collection[fx.Node]) -> Any:
        """A gradient in memory of its own, laid out like the leaf."""
        recorder = self._recorder
        traced, facts = recorder.traced(found), gradient_of(recorder.traced(leaf).facts)
        assert facts is not None, "the tracer has asked"
        node = traced.node
        shared = node is None or traced.parent is not None or node in before or node in self._own
        made = laid(found, stride_of(facts))
        if made is found and shared:
            made = found.clone()
        self._own.add(recorder.read(recorder.traced(made)))
        return made

    # Results

    def _returned(self) -> set[int]:
        """The values that are results, or that results are views of."""
        bases = (each.base if isinstance(each, ViewOf) else each for each in self._prepared.results)
        return {base.index for base in bases if isinstance(base, Value)}

    def _has_history(self, result: Result) -> bool:
        match result:
            case Value(index):
                return bool(self._made[self._prepared.values[index]].requires_grad)
            case Same(index):
                return self._has_history(self._prepared.results[index])
            case ViewOf(base, views):
                detached = any(op_name(view.op) == "aten::detach" for view in views)
                if not detached and self._has_history(base):
                    raise Declined("a view with a history is returned")
        return False

    def _check_freed(self, result: Result) -> None:
        """Gradients cannot be asked for again: then nothing is kept for them."""
        if isinstance(result, Same):
            raise Declined("a result with a history, twice")
        assert isinstance(result, Value)
        root, recorder = self._made[self._prepared.values[result.index]], self._recorder
        before = set(recorder.graph.nodes)
        try:
            with recorder.of_everything(), torch.no_grad():
                given = [x for x in self._made.values() if _is_leaf(x)]
                gradients([root], [torch.ones_like(root)], given)
        except RuntimeError as error:
            if "a second time" in str(error):
                for node in reversed(recorder.graph.nodes):
                    if node not in before:
                        recorder.graph.erase_node(node)
                return
            raise
        raise Declined(KEPT)


def _is_leaf(made: Any) -> bool:
    return isinstance(made, torch.Tensor) and made.is_leaf and made.requires_grad
