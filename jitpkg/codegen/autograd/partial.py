"""Backward passes from some of a graph's outputs only.

AOTAutograd's backward graph starts from a gradient for every output, and where there is none it is
given zeros. That is not the same: what only other outputs depend on would get a gradient of zero in
place of none, with which optimisers move parameters, and `0 * inf` is no number. So for each set of
outputs that have no gradient there is a graph of its own, without what follows from them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.autograd.graph import Node

from jitpkg.codegen.autograd.apart import TANGENTS, apart
from jitpkg.codegen.autograd.function import Run
from jitpkg.codegen.autograd.twice import refusal
from jitpkg.codegen.graph.autocast import under_autocast
from jitpkg.codegen.graph.copies import copied
from jitpkg.facts.tensor import TensorFacts, contiguous_stride
from jitpkg.internals import aot, modes
from jitpkg.interrupts import from_outside, uninterrupted


class Halves:
    """A forward graph and its backward graphs."""

    def __init__(self) -> None:
        self._asked = threading.local()
        self._compile: Callable[[fx.GraphModule], Run] | None = None
        self._whole: fx.GraphModule | None = None
        self._whole_of: Callable[[], fx.GraphModule] | None = None
        """What makes it when it is asked for."""
        self._known: dict[frozenset[int], Run] = {}
        self._walks: dict[frozenset[int], Run] = {}
        """The same under autocast."""
        self.shared: tuple[int, ...] = ()
        """Gradients in memory that another one has, too."""
        self.tangents = 0
        """How many gradients the backward graph takes."""
        self.forward: Callable[..., Any] | None = None
        """The forward function, where a backend has shown it."""
        self.forward_graph: fx.Graph | None = None

    @property
    def backward_graph(self) -> fx.Graph | None:
        return None if self._whole is None else self._whole.graph

    def gradients(self) -> list[Any]:
        """The gradients that the backward graph takes, without data."""
        backward = self.backward_graph
        if backward is None or self.tangents == 0:
            return []
        taken = backward.find_nodes(op="placeholder")[-self.tangents :]
        return [node.meta["val"] for node in taken]

    def runs_forward(self, aten: fx.GraphModule, function: Callable[..., Any]) -> None:
        """Note what the forward graph has become."""
        self.forward, self.forward_graph = function, copied(aten.graph)

    @classmethod
    def again(
        cls,
        backward: Run,
        whole: Callable[[], fx.GraphModule],
        compile_part: Callable[[fx.GraphModule], Run],
    ) -> Halves:
        """Halves of which the backward graph is compiled already."""
        made = cls()
        made._compile, made._whole_of = compile_part, whole
        made._known[frozenset()] = backward
        return made

    def runs(
        self,
        aten: fx.GraphModule,
        compile_: Callable[[fx.GraphModule], Run],
        compile_part: Callable[[fx.GraphModule], Run] | None = None,
        *,
        all_apart: bool = True,
    ) -> Run:
        """A function that runs the backward graph, or a part of it, compiled when asked for.

        Args:
            all_apart: whether gradients are to be in memory of their own, which `shared` ones are
                not otherwise.
        """
        self.shared = apart(aten.graph, all_of_them=all_apart)
        aten.recompile()
        placeholders = [node.name for node in aten.graph.nodes if node.op == "placeholder"]
        self.tangents = sum(name.startswith(TANGENTS) for name in placeholders)
        asked = self._asked
        self._compile, self._whole = compile_part or compile_, _copied(aten)
        self._known[frozenset()] = compile_(aten)

        def run(arguments: list[Any]) -> Any:
            undefined: frozenset[int] = getattr(asked, "undefined", frozenset())
            asked.undefined = frozenset()
            return self.part(undefined)(arguments)

        return aot.takes_a_list(run)

    def part(self, undefined: frozenset[int]) -> Run:
        """What runs the backward graph where these of its gradients are undefined."""
        if modes.ANY_AUTOCAST.get()():
            walk = self._walks.get(undefined)
            if walk is None:
                walk = uninterrupted(lambda: under_autocast(without(self._graph(), undefined)))
                self._walks[undefined] = walk
            return walk
        found = self._known.get(undefined)
        if found is None:
            found = self._known[undefined] = uninterrupted(lambda: self._new(undefined))
        return found

    def _new(self, undefined: frozenset[int]) -> Run:
        assert self._compile is not None
        return _compiled(self._compile, without(self._graph(), undefined))

    def _graph(self) -> fx.GraphModule:
        """The whole backward graph."""
        if self._whole is None:
            assert self._whole_of is not None
            self._whole = self._whole_of()
        return self._whole

    def watched(self, function: Callable[..., Any], metadata: aot.Metadata) -> Callable[..., Any]:
        """The forward function, whose results say which of them have gradients."""
        returned = _differentiable(metadata)
        if not returned:
            return function
        aot.FUNCTION_OF_NODE.get()  # now, and not when the function has run already
        partial = len(returned) == self.tangents
        asked = self._asked

        def note(gradients: Sequence[torch.Tensor | None]) -> None:
            asked.undefined = frozenset(
                k for k, index in enumerate(returned) if gradients[index] is None
            )

        def run(*inputs: torch.Tensor) -> Any:
            results = function(*inputs)
            node = _node_of(results, metadata)
            if node is not None:
                node.register_hook(_refuse_a_second_derivative)
                if partial:
                    node.register_prehook(note)
            return results

        return run


def _refuse_a_second_derivative(_: object, __: object) -> None:
    """Gradients of AOTAutograd's do not hang together with all inputs: whoever asks for a
    derivative of these would take them for constants."""
    if torch.is_grad_enabled():
        raise refusal("its gradients are AOTAutograd's")


def _compiled(compile_: Callable[[fx.GraphModule], Run], aten: fx.GraphModule) -> Run:
    """In the middle of a backward pass, where a compiler that fails must not be noticed."""
    forward = _copied(aten).forward
    try:
        return compile_(aten)
    except Exception as error:
        if from_outside(error):
            raise
        return lambda arguments: forward(*arguments)


def _differentiable(metadata: aot.Metadata) -> list[int]:
    """Which of the values that AOTAutograd's forward function returns have a tangent."""
    written = [info for info in metadata.inputs if info.mutation == "MUTATED_OUT_GRAPH"]
    has_tangent = [info.mutates_data and info.requires_grad for info in written]
    has_tangent += [
        info.kind in _OWN and issubclass(info.raw_type, torch.Tensor) and info.has_tangent
        for info in metadata.outputs
    ]
    has_tangent += [True] * metadata.bases
    return [k for k, has in enumerate(has_tangent) if has]


_OWN = ("non_alias", "unsafe_view_alias", "custom_function_view")
"""Kinds of output that AOTAutograd's function returns itself; others are made from its results."""

_DEEPEST = 8
"""Views of a result lie so many nodes behind it at most."""


def _node_of(results: Sequence[Any], metadata: aot.Metadata) -> Node | None:
    """The node of the function whose results these are, or are views of."""
    for result in results:
        node = result.grad_fn
        for _ in range(_DEEPEST):
            if node is None:
                break
            if aot.is_node_of(node, metadata):
                found: Node = node
                return found
            node = node.next_functions[0][0] if node.next_functions else None
    return None


def without(gm: fx.GraphModule, undefined: frozenset[int]) -> fx.GraphModule:
    """A backward graph without what follows from these of its tangents.

    Each op of it is linear in what follows from tangents. So an op of which all such operands are
    undefined has no result, and in a sum an undefined term is left out, as by the engine.
    """
    gm = _copied(gm)
    graph = gm.graph
    tangents = [n for n in graph.find_nodes(op="placeholder") if n.name.startswith(TANGENTS)]
    follows = set(tangents)
    """What depends on a gradient."""
    missing = {tangents[k] for k in undefined}
    instead: dict[fx.Node, fx.Node] = {}
    for node in list(graph.nodes):
        node.args, node.kwargs = fx.map_arg(
            (node.args, node.kwargs), lambda used: instead.get(used, used)
        )
        operands = [used for used in node.all_input_nodes if used in follows]
        if not operands:
            continue
        follows.add(node)
        absent = [used for used in operands if used in missing]
        if node.op == "output":
            node.args = fx.map_arg(node.args, lambda used: None if used in missing else used)
        elif absent and len(absent) == len(operands) and node.target not in _SHAPED_ONLY:
            missing.add(node)
        elif absent and node.target is torch.ops.aten.add.Tensor and not node.kwargs:
            (instead[node],) = (used for used in operands if used not in missing)
        elif absent:
            zeros = {used: _zeros(graph, node, used) for used in absent}
            for used, zero in zeros.items():
                node.replace_input_with(used, zero)
    graph.eliminate_dead_code()
    gm.recompile()
    return gm


_SHAPED_ONLY = frozenset(
    {torch.ops.aten.full_like.default, torch.ops.aten.ones_like.default}
    | {torch.ops.aten.new_ones.default, torch.ops.aten.new_full.default}
)
"""Ops whose result is not zero where their operand is."""


def _zeros(graph: fx.Graph, before: fx.Node, like: fx.Node) -> fx.Node:
    value: Any = like.meta.get("val", like.meta.get("facts"))
    with graph.inserting_before(before):
        zeros = graph.call_function(
            torch.ops.aten.full.default,
            ([_length(graph, like, dim) for dim in range(len(_size(like)))], 0),
            {"dtype": value.dtype, "device": value.device, "pin_memory": False},
        )
    if isinstance(value, TensorFacts):
        zeros.meta["facts"] = replace(value, stride=contiguous_stride(value.size))
    else:
        zeros.meta["val"] = value.contiguous()
    return zeros


def _size(like: fx.Node) -> Sequence[Any]:
    """By its fake tensor, or by what else is known of it."""
    size: Sequence[Any] = like.meta["val"].shape if "val" in like.meta else like.meta["facts"].size
    return size


def _length(graph: fx.Graph, like: fx.Node, dim: int) -> Any:
    length = _size(like)[dim]
    if isinstance(length, torch.SymInt):
        node = graph.call_function(torch.ops.aten.sym_size.int, (like, dim))
        node.meta["val"] = length
        return node
    return length


def _copied(gm: fx.GraphModule) -> fx.GraphModule:
    return fx.GraphModule(gm, copied(gm.graph))
