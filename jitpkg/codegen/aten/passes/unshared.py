"""The last pass: values that the graph returns lie in memory of their own.

What eager code returns as a new tensor must not share memory with an input, with another result,
or with a constant of the graph.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.passes.constants import constant
from jitpkg.codegen.aten.prepared import Prepared, Value, ViewOf
from jitpkg.codegen.aten.purity import takes_result
from jitpkg.codegen.aten.reach import root_of

aten = torch.ops.aten


def unshare(prepared: Prepared) -> int:
    """Copy values that share memory; returns how many.

    A value that is only written to an input may share memory, but with inputs that are written to.
    """
    (output,) = prepared.graph.find_nodes(op="output")
    placeholders = prepared.graph.find_nodes(op="placeholder")
    written = {placeholders[write.input] for write in prepared.writes}
    returned = _returned(prepared)
    taken: set[Any] = set()
    values: list[fx.Node] = []
    copied = 0
    for k, value in enumerate(output.args[0]):
        root = _root(value)
        if k not in returned:
            shared = root in written
        else:
            lent = isinstance(root, fx.Node) and (
                root.op == "placeholder" or root.target == constant
            )
            shared = lent or root in taken or _is_part(value)
            taken.add(root)
        if shared:
            value = _copy(prepared.graph, output, value)
            copied += 1
        values.append(value)
    output.args = (tuple(values),)
    return copied


def _returned(prepared: Prepared) -> set[int]:
    """The values that become results, or what results are views of."""
    found: set[int] = set()
    for result in prepared.results:
        base = result.base if isinstance(result, ViewOf) else result
        if isinstance(base, Value):
            found.add(base.index)
    return found


def _root(node: fx.Node) -> Any:
    """What a value lies in: the node that made the memory, and which of its results it is."""
    source = root_of(node)
    return source.args if takes_result(source) else source


def _is_part(value: fx.Node) -> bool:
    """Whether a value is a part of a larger tensor, which it would keep alive."""
    whole = math.prod(root_of(value).meta["facts"].size)
    return bool(whole != math.prod(value.meta["facts"].size))


def _copy(graph: fx.Graph, output: fx.Node, value: fx.Node) -> fx.Node:
    with graph.inserting_before(output):
        copied = graph.call_function(aten.clone.default, (value,))
    copied.meta["facts"] = value.meta["facts"]
    return copied
