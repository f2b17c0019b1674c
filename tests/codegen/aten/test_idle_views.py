"""Views that show just what they are made of: which are dropped, and what results share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from jitpkg.codegen.aten.passes.idle_views import drop_idle_views
from jitpkg.codegen.graph.python import straight_line
from jitpkg.facts.tensor import facts_of

aten = torch.ops.aten


def made(write: Callable[[fx.Proxy], tuple[fx.Proxy, ...]]) -> fx.Graph:
    """A graph of one matrix, whose nodes have facts."""
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    results = write(fx.Proxy(graph.placeholder("x"), tracer))
    graph.output(tuple(result.node for result in results))
    values: dict[fx.Node, Any] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            values[node] = torch.randn(3, 4)
        elif node.op == "call_function":
            values[node] = node.target(*fx.map_arg(node.args, values.__getitem__))
        if node.op != "output":
            node.meta["facts"] = facts_of(values[node])
    return graph


def t(x: Any) -> Any:
    return aten.t.default(x)


def neg(x: Any) -> Any:
    return aten.neg.default(x)


def view(x: Any, *size: int) -> Any:
    return aten.view.default(x, list(size))


CASES: dict[str, tuple[Callable[[Any], tuple[Any, ...]], int]] = {
    # function, views that are left
    "turned twice": (lambda x: (neg(t(t(x))),), 0),
    "turned once": (lambda x: (neg(t(x)),), 1),
    "of the same size": (lambda x: (neg(view(view(x, 12), 3, 4)),), 0),
    "of another size": (lambda x: (neg(view(x, 12)),), 1),
    "a result": (lambda x: (t(t(neg(x))),), 0),
    "a result that is an input": (lambda x: (t(t(x)),), 1),
    "a result of its own": (lambda x: (y := neg(x), t(t(y))), 1),
    "two results": (lambda x: (t(t(y := neg(x))), aten.detach.default(y)), 1),
}


@pytest.mark.parametrize("title", CASES)
def test_views(title: str) -> None:
    write, left = CASES[title]
    graph, x = made(write), torch.randn(3, 4)
    wanted = straight_line("before", graph)(x)
    drop_idle_views(graph)
    found = straight_line("after", graph)(x)
    views = [node for node in graph.nodes if node.target not in (aten.neg.default, "x", "output")]
    assert len(views) == left
    assert len({id(result) for result in (x, *found)}) == 1 + len(found)
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b) and a.stride() == b.stride()
        assert sharing(a, (x, *found)) == sharing(b, (x, *wanted))


def sharing(result: torch.Tensor, others: tuple[torch.Tensor, ...]) -> list[bool]:
    """With which of them a result shares memory."""
    memory = result.untyped_storage().data_ptr()
    return [other.untyped_storage().data_ptr() == memory for other in others]
