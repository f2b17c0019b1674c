"""Gradients that a backward graph returns, each in memory of its own where eager code's are.

Autograd keeps the first gradient of a leaf as it is, if nobody else holds it, and adds the next
ones in place. Eager code's engine still holds a gradient that goes on to other ops, and copies it.
Of a graph's results it cannot know that one is a view of another.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.reach import root_of


def apart(backward: fx.Graph) -> None:
    """Copy each gradient of which another one is a view."""
    (output,) = backward.find_nodes(op="output")
    gradients: Any = output.args[0]
    roots = [root_of(node) for node in gradients if isinstance(node, fx.Node)]
    several = Counter(roots)
    returned = list(gradients)
    for k, node in enumerate(gradients):
        if not isinstance(node, fx.Node) or root_of(node) is not node or several[node] < 2:
            continue
        with backward.inserting_before(output):
            returned[k] = backward.call_function(torch.ops.aten.clone.default, (node,))
        returned[k].meta = {name: node.meta[name] for name in ("val", "facts") if name in node.meta}
    output.args = (tuple(returned),)
