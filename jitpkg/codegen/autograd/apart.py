"""Gradients that a backward graph returns, each in memory of its own where eager code's are.

Autograd keeps the first gradient of a leaf as it is, if nobody else holds it, and adds the next
ones in place. Eager code's engine still holds a gradient that goes on to other ops, and copies it.
Of a graph's results it cannot know that one is a view of another, or two are of a third: there
eager code has a gradient that was expanded, which autograd copies, and a kernel has written it out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.reach import root_of

TANGENTS = "tangents"
"""How the placeholders for gradients of outputs are named."""


def apart(backward: fx.Graph, *, all_of_them: bool = True) -> tuple[int, ...]:
    """Copy gradients that lie in the same memory, all but one.

    Args:
        all_of_them: also those that lie in the memory of a gradient that comes in. Where they are
            returned, eager code's do, too, so whoever calls the graph copies them otherwise.

    Returns:
        Which of these are left as they are.
    """
    (output,) = backward.find_nodes(op="output")
    gradients: Any = output.args[0]
    returned = list(gradients)
    roots = {k: root_of(node) for k, node in enumerate(gradients) if isinstance(node, fx.Node)}
    kept: dict[fx.Node, int] = {}
    for k, root in roots.items():
        if root not in kept or gradients[kept[root]] is root:
            kept[root] = k  # of a view nobody needs the rest
    left = []
    for k, root in roots.items():
        if kept[root] == k:
            continue
        node = gradients[k]
        if not all_of_them and root.op == "placeholder" and root.name.startswith(TANGENTS):
            left.append(k)
            continue
        with backward.inserting_before(output):
            returned[k] = backward.call_function(torch.ops.aten.clone.default, (node,))
        returned[k].meta = {name: node.meta[name] for name in ("val", "facts") if name in node.meta}
    output.args = (tuple(returned),)
    return tuple(left)
