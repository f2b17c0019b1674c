"""The passes over a prepared graph, in order."""

from __future__ import annotations

from collections.abc import Sequence

from jitpkg.codegen.aten.passes.common import share_common
from jitpkg.codegen.aten.passes.constants import fold_constants
from jitpkg.codegen.aten.passes.dead_code import drop_dead_code
from jitpkg.codegen.aten.passes.no_ops import drop_no_ops
from jitpkg.codegen.aten.passes.rewrites import Rewrite, rewrite
from jitpkg.codegen.aten.passes.unshared import unshare
from jitpkg.codegen.aten.passes.view_chains import merge_view_chains
from jitpkg.codegen.aten.prepared import Prepared


def simplify(prepared: Prepared, rewrites: Sequence[Rewrite] = ()) -> None:
    """Change a graph to one that computes the same with fewer ops.

    Without rewrites it does so bit for bit.
    """
    graph = prepared.graph
    drop_dead_code(graph)
    fold_constants(graph)
    merge_view_chains(graph)
    drop_no_ops(graph)
    share_common(graph)
    if rewrites:
        rewrite(graph, rewrites)
        merge_view_chains(graph)
        drop_no_ops(graph)
    drop_dead_code(graph)
    unshare(prepared)
