"""Backends of your own: `backend(gm, example_inputs) -> callable`, as for torch.compile.

python examples/custom_backend.py
"""

import operator
from collections.abc import Callable

import torch
from torch import fx

import jitpkg


def rational(x, y):
    return torch.exp(x * y) / (1 + torch.exp(x * y))


def printing(gm: fx.GraphModule, example_inputs: list) -> Callable:
    """Show the graph, and run it as it is."""
    print(f"A graph with {len(example_inputs)} inputs:")
    for node in gm.graph.nodes:
        print(f"  {node.format_node()}")
    return gm.forward


PURE = frozenset({operator.add, operator.mul, operator.truediv, torch.exp})
"""Ops that give the same for the same arguments, and have no other effect."""


def computing_once(gm: fx.GraphModule, example_inputs: list) -> Callable:
    """Let what is computed twice be computed once: common subexpression elimination."""
    before = len(gm.graph.nodes)
    known: dict[object, fx.Node] = {}
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or node.target not in PURE or node.kwargs:
            continue
        first = known.setdefault((node.target, node.args), node)
        if first is not node:
            node.replace_all_uses_with(first)
            gm.graph.erase_node(node)
    gm.recompile()
    print(f"{before} nodes before, {len(gm.graph.nodes)} after")
    return gm.forward


def counted(gm: fx.GraphModule, example_inputs: list, *, options: dict) -> Callable:
    """Count the calls, in a list that the options bring."""
    calls = options["calls"]

    def run(*args):
        calls.append(gm)
        return gm.forward(*args)

    return run


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = torch.randn(4), torch.randn(4)

    compiled = jitpkg.compile(rational, backend=printing)
    assert torch.equal(compiled(x, y), rational(x, y))
    assert torch.equal(compiled(y, x), rational(y, x))  # the same graph: nothing is printed

    print("\nWithout what is computed twice:")
    jitpkg.register_backend(computing_once)
    assert "computing_once" in jitpkg.list_backends()
    explanation = jitpkg.explain(rational, backend="computing_once")(x, y)
    assert torch.equal(explanation.result, rational(x, y))
    assert explanation.op_count == 4
    print(explanation.graphs[0].code.strip())

    print("\nWith options:")
    calls = []
    compiled = jitpkg.compile(rational, backend=counted, options={"calls": calls})
    for _ in range(3):
        assert torch.equal(compiled(x, y), rational(x, y))
    assert len(calls) == 3
    print(f"{len(calls)} calls of one graph")
