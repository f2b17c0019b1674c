"""For backends that compile for the very sizes of their example inputs: a compilation for each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.straight_line import straight_line
from jitpkg.marks import VARIES

MOST = 8
"""For so many sizes there is a compilation; for others the graph runs as it is."""


def per_size(backend: Callable[..., Callable[..., Any]]) -> Callable[..., Callable[..., Any]]:
    """A backend for graphs whose sizes vary, of one that takes sizes and numbers as they are."""

    def compile_(
        gm: fx.GraphModule, example_inputs: list[Any], **kwargs: Any
    ) -> Callable[..., Any]:
        if not gm.meta.get(VARIES):
            return backend(gm, example_inputs, **kwargs)
        return _PerSize(backend, gm, kwargs).compiled(example_inputs)

    compile_.__name__ = getattr(backend, "__name__", "backend")
    return compile_


class _PerSize:
    def __init__(self, backend: Any, gm: fx.GraphModule, kwargs: dict[str, Any]) -> None:
        self._backend = backend
        self._gm = gm
        self._kwargs = kwargs
        self._made: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._as_it_is = straight_line(type(gm).__name__, gm.graph)

    def compiled(self, examples: list[Any]) -> Callable[..., Any]:
        """A function of the graph's inputs, compiled for the example inputs already."""
        self._made[_key(examples)] = self._compile(examples)
        return self._run

    def _run(self, *inputs: Any) -> Any:
        key = _key(inputs)
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= MOST:
                return self._as_it_is(*inputs)
            made = self._made[key] = self._compile(list(inputs))
        return made(*inputs)

    def _compile(self, inputs: list[Any]) -> Callable[..., Any]:
        gm = _with_numbers(self._gm, inputs)
        positions = [k for k, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        function = self._backend(gm, [inputs[k] for k in positions], **self._kwargs)
        return lambda *given: function(*[given[k] for k in positions])


def _key(inputs: Any) -> tuple[Any, ...]:
    return tuple(
        (tuple(x.shape), x.stride()) if isinstance(x, torch.Tensor) else (type(x), repr(x))
        for x in inputs
    )


_ARITHMETIC = frozenset(
    {operator.add, operator.mul, operator.floordiv, operator.mod, torch.sym_min, torch.sym_max}
)


def _with_numbers(gm: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    """The graph with numbers in place of inputs that are numbers, and of what they give."""
    graph = fx.Graph()
    known: dict[fx.Node, Any] = {}
    values = iter(inputs)
    for node in gm.graph.nodes:
        value = next(values) if node.op == "placeholder" else None
        if node.op == "placeholder" and not isinstance(value, torch.Tensor):
            known[node] = value
            continue
        is_number = not any(isinstance(known[n], fx.Node) for n in node.all_input_nodes)
        if node.op == "call_function" and node.target in _ARITHMETIC and is_number:
            known[node] = node.target(*fx.map_arg(node.args, known.__getitem__))
            continue
        known[node] = graph.node_copy(node, lambda n: known[n])
    return fx.GraphModule(torch.nn.Module(), graph, class_name=type(gm).__name__)
