"""Autocast in graphs: entered before them, or in them; and as AOTAutograd traces it.

Eager code keeps the cast of a leaf that requires grad until the outermost context ends, so that the
gradients of all its uses are summed up in the narrow dtype. AOTAutograd's trace has no leaves, and
would cast for each use. So casts of leaves become nodes of the graph before it is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.graph.copies import copied, replaced
from jitpkg.codegen.ir.extents import SYMBOL, value_of, varies
from jitpkg.facts.casting import TO_COPY, state
from jitpkg.facts.thread_state import (
    DEVICE_TYPES,
    autocast_nesting,
    changes_autocast,
    nest_autocast,
    snapshot,
)
from jitpkg.internals import dispatch, modes, tensors, trees
from jitpkg.internals.ops import op_name

_CONVERSIONS = ("bfloat16", "half", "type", "type_as")


def casts(graph: fx.Graph) -> bool:
    """Whether ops of a graph run under autocast, where it is called as things are."""
    if modes.ANY_AUTOCAST.get()():
        return True
    return any(changes_autocast(node.target) for node in graph.nodes)


def is_kept(x: object) -> bool:
    """Whether autocast keeps what it makes of an input."""
    return (
        isinstance(x, torch.Tensor)
        and x.requires_grad
        and x.dtype is torch.float32
        and tensors.is_leaf(x)
        and tensors.BASE.get()(x) is None
    )


def of_these_leaves(
    gm: fx.GraphModule, inputs: Sequence[Any], compiled: Callable[..., Any]
) -> Callable[..., Any]:
    """What is compiled for some leaves, and the graph as it is for others: guards do not ask which
    inputs are."""
    asked = [
        (k, tensors.is_leaf(x))
        for k, x in enumerate(inputs)
        if isinstance(x, torch.Tensor) and _is_cast(x)
    ]
    if not asked:
        return compiled

    def run(*inputs: Any) -> Any:
        for k, is_leaf in asked:
            if tensors.is_leaf(inputs[k]) is not is_leaf:
                return gm.forward(*inputs)
        return compiled(*inputs)

    return run


def entered_inside(gm: fx.GraphModule) -> fx.GraphModule | None:
    """A graph that is called under autocast as one that enters it, and leaves it at its end.

    So its casts are ops of the graph, and it can be kept. None where that is not the same: it does
    not leave autocast as it was, or ops on other devices are cast, too.
    """
    kinds = [kind for kind in DEVICE_TYPES if torch.is_autocast_enabled(kind)]
    if kinds != ["cpu"] or not _leaves_it_as_it_was(gm.graph):
        return None
    graph = copied(gm.graph)
    (output,) = graph.find_nodes(op="output")
    first = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(first):
        graph.call_function(torch.set_autocast_dtype, ("cpu", torch.get_autocast_dtype("cpu")))
        graph.call_function(torch.set_autocast_enabled, ("cpu", True))
    with graph.inserting_before(output):
        graph.call_function(torch.set_autocast_enabled, ("cpu", False))
    return replaced(gm, graph)


def _leaves_it_as_it_was(graph: fx.Graph) -> bool:
    before, restore = state(), snapshot()
    try:
        for node in graph.nodes:
            target: Any = node.target
            if changes_autocast(target) and target is not torch.clear_autocast_cache:
                target(*node.args, **node.kwargs)
        return state() == before
    finally:
        restore()


def without(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors, called where autocast is off."""

    def run(*inputs: Any) -> Any:
        with off():
            return function(*inputs)

    return run


def _is_cast(x: torch.Tensor) -> bool:
    return x.requires_grad and x.dtype is torch.float32


class _Uses:
    """Notes which tensors ops get, and which of them are only cast, to which dtype."""

    def __init__(self) -> None:
        self._narrow = _narrow_dtypes()  # inside of an op that casts, autocast is off
        self.cast: dict[int, torch.dtype] = {}
        self.used: set[int] = set()

    def see(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        dtype = kwargs.get("dtype")
        if op_name(func) == TO_COPY and dtype in self._narrow:
            self.cast[id(args[0])] = dtype
        elif func.namespace != "prim":
            leaves = trees.leaves_of((args, kwargs))
            self.used.update(id(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
        return func(*args, **kwargs)


def _narrow_dtypes() -> list[torch.dtype]:
    """Those that autocast casts to now."""
    return [torch.get_autocast_dtype(k) for k in DEVICE_TYPES if torch.is_autocast_enabled(k)]


class _Walk(fx.Interpreter):
    """Runs a graph on tensors without data, and finds the casts of each node that are kept."""

    def __init__(self, gm: fx.GraphModule, kept: Mapping[fx.Node, torch.Tensor]) -> None:
        super().__init__(gm)
        self._kept = kept
        self.found: dict[fx.Node, dict[fx.Node, torch.dtype]] = {}

    def run_node(self, node: fx.Node) -> Any:
        given = [n for n in node.all_input_nodes if n in self._kept]
        if not given or not torch.is_autocast_cache_enabled() or node.target in _CONVERSIONS:
            return super().run_node(node)
        torch.clear_autocast_cache()
        uses = _Uses()
        with dispatch.mode(uses.see):
            made = super().run_node(node)
        named = [*node.args, *node.kwargs.values()]
        self.found[node] = {
            n: uses.cast[at]
            for n in given
            if (at := id(self._kept[n])) in uses.cast
            and at not in uses.used
            and uses.cast[at] not in named
        }
        return made


def cast_once(
    gm: fx.GraphModule, graph: fx.Graph, inputs: Sequence[Any], stand_ins: Sequence[Any]
) -> None:
    """Add a graph's casts that eager code keeps to `graph`, a copy of it.

    Args:
        stand_ins: for the inputs, without data.
    """
    kept = {
        node: stand_in
        for node, given, stand_in in zip(
            gm.graph.find_nodes(op="placeholder"), inputs, stand_ins, strict=True
        )
        if is_kept(given)
    }
    if not kept:
        return
    walk = _Walk(gm, kept)
    walk.run(*stand_ins)
    copies = dict(zip(gm.graph.nodes, graph.nodes, strict=True))
    known: dict[tuple[fx.Node, torch.dtype], fx.Node] = {}
    for node in gm.graph.nodes:
        if node.target is torch.clear_autocast_cache:
            known.clear()
        for given, dtype in walk.found.get(node, {}).items():
            user, old = copies[node], copies[given]
            if (given, dtype) not in known:
                with graph.inserting_before(user):
                    known[given, dtype] = graph.call_method("to", (old, dtype))
            user.replace_input_with(old, known[given, dtype])


def enter_and_leave(graph: fx.Graph) -> None:
    """Let a graph enter autocast as it is now, and leave it at its end.

    AOTAutograd traces it without: it takes no graph that ends inside of a context, and would hide
    from a backward pass whether that runs under autocast.
    """
    settings = tuple(
        (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
        for kind in DEVICE_TYPES
    )
    off = tuple((kind, False, dtype) for kind, _, dtype in settings)
    (output,) = graph.find_nodes(op="output")
    first = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(first):
        graph.call_function(_set, (settings, autocast_nesting()))
    with graph.inserting_before(output):
        graph.call_function(_set, (off, autocast_nesting()))


def _set(settings: Sequence[tuple[str, bool, torch.dtype]], depth: int) -> None:
    for kind, enabled, dtype in settings:
        torch.set_autocast_enabled(kind, enabled)
        torch.set_autocast_dtype(kind, dtype)
    nest_autocast(depth)
    torch.set_autocast_cache_enabled(False)  # as it is while AOTAutograd traces


def off() -> AbstractContextManager[object]:
    """Autocast does nothing inside."""
    return modes.NO_AUTOCAST.get()()


class _UnderAutocast(fx.Interpreter):
    """Runs a backward graph op by op. What autocast makes narrow is widened again, as autograd does
    it with gradients."""

    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        symbols = {node.name: value for node, value in self.env.items() if SYMBOL in node.meta}
        return trees.mapped(
            lambda x: value_of(x, symbols) if varies(x) else x,
            super().fetch_args_kwargs_from_env(n),
        )

    def run_node(self, node: fx.Node) -> Any:
        made = super().run_node(node)
        known: Any = node.meta.get("val", node.meta.get("facts"))
        if isinstance(made, torch.Tensor) and hasattr(known, "dtype"):
            return made.to(known.dtype)
        return made


def under_autocast(backward: fx.GraphModule) -> Callable[[list[Any]], Any]:
    """A backward graph for a pass under autocast: it was traced without."""
    walk = _UnderAutocast(backward)
    return lambda arguments: walk.run(*arguments)
