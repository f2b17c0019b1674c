"""Graphs that enter or leave inference mode, or choose kernels for attention: what is between is
compiled where the modes are so.

What a graph does depends on the modes that it is called in, and backends look at them. So such a
graph is cut at each switch, of grad mode, too, and these are called as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.graph.fallback import as_it_is
from jitpkg.codegen.graph.grad_modes import has_backward, is_switch
from jitpkg.codegen.graph.python import straight_line
from jitpkg.codegen.parts.stages import Stage, Stages, write_to_their_own
from jitpkg.facts.thread_state import changes_autocast, mode_switches, snapshot
from jitpkg.marks import READING

Function = Callable[..., Any]
Compile = Callable[[fx.GraphModule, list[Any]], Function]

MOST = 12
"""Parts of one graph that are compiled; what has more is not cut."""


def switches(graph: fx.Graph) -> bool:
    """Whether a graph has such a switch."""
    return any(node.target in mode_switches() for node in graph.nodes)


def around_switches(
    backend: str, gm: fx.GraphModule, inputs: Sequence[Any], compile_: Compile
) -> Function:
    """The graph, of which the parts between switches are compiled.

    Args:
        compile_: compiles a graph without switches for such inputs.
    """
    parts = list(_parts(gm.graph))
    why = _obstacle(gm.graph, parts)
    if why is not None:
        return as_it_is(backend, gm, why)
    return _Around(gm, parts, compile_).compiled(inputs)


def _parts(graph: fx.Graph) -> Iterator[list[fx.Node]]:
    """The ops between switches, and each of these."""
    part: list[fx.Node] = []
    for node in graph.nodes:
        if not node.op.startswith("call"):
            continue
        if _is_switch(node):
            if part:
                yield part
            yield [node]
            part = []
        else:
            part.append(node)
    if part:
        yield part


def _is_switch(node: fx.Node) -> bool:
    return node.target in mode_switches() or is_switch(node)


def _obstacle(graph: fx.Graph, parts: Sequence[Sequence[fx.Node]]) -> str | None:
    """Why a graph is not cut."""
    what = "a mode that is entered inside"
    if has_backward(graph):
        return f"{what}, beside a backward pass"
    if sum(not _is_switch(part[0]) for part in parts) > MOST:
        return f"{what}, too often"
    if not write_to_their_own(graph, parts):
        return f"{what}, and a write to what was made in another mode"
    if not all(map(_leaves_autocast, parts)):
        return f"{what}, and autocast around it"
    of = {node: k for k, part in enumerate(parts) for node in part}
    for node in of:
        if READING in node.meta and any(of.get(user, of[node]) != of[node] for user in node.users):
            return f"{what}, and a number made of a tensor's data that is used after it"
    return None


def _leaves_autocast(part: Sequence[fx.Node]) -> bool:
    """Whether autocast contexts are entered and left in a part, or no call is about them."""
    depth = 0
    for node in part:
        depth += node.target is torch.autocast_increment_nesting
        depth -= node.target is torch.autocast_decrement_nesting
        if depth < 0:
            return False
    alone = depth == 0 and any(node.target is torch.autocast_increment_nesting for node in part)
    return alone or not any(changes_autocast(node.target) for node in part)


class _Around(Stages):
    """Parts, of which those of inputs alone are compiled at once, in the mode that they run in."""

    def compiled(self, inputs: Sequence[Any]) -> Function:
        restore = snapshot()
        try:
            return super().compiled(inputs)
        finally:
            restore()

    def function_of(self, k: int, stage: Stage, inputs: Sequence[Any]) -> Function:
        if any(map(_is_switch, stage.module.graph.nodes)):
            switch = straight_line(type(stage.module).__name__, stage.module.graph)
            switch()
            return switch
        if all(place < len(inputs) for place in stage.takes):
            return super().function_of(0, stage, inputs)
        return self.later(stage)
