"""Graphs whose sizes vary, for one set of sizes: numbers in place of what varies."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import fx

from jitpkg.codegen.graph.fallback import AS_TRACED, as_traced
from jitpkg.interrupts import from_outside, uninterrupted

Function = Callable[..., Any]
T = TypeVar("T")

MOST = 8
"""There are so many compilations of a graph; for other sizes it runs as it is."""

LARGEST = 2**31
"""Kernels compute with ints of 64 bits: products of smaller ones do not overflow."""


def is_symbol(value: object) -> bool:
    """Whether a number may be given to a kernel."""
    return type(value) is int and abs(value) < LARGEST


def is_operand(value: object) -> bool:
    """Whether an input may be given to a graph that is compiled for symbols."""
    return isinstance(value, torch.Tensor) or is_symbol(value)


def of_some(function: Function, kept: Sequence[int], count: int) -> Function:
    """A function of all inputs that takes those at some positions."""
    if len(kept) == count:
        return function
    return lambda *inputs: function(*[inputs[k] for k in kept])


def key_of(value: Any) -> tuple[Any, ...]:
    """What a graph with numbers in it depends on: sizes and strides, or the number itself."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride()
    return type(value), repr(value)


def made_in_a_call(compile_: Callable[[], T]) -> T | None:
    """What is compiled in the midst of a call; None where that fails: for other sizes the backend
    can do it."""
    try:
        return uninterrupted(compile_)
    except Exception as error:
        if from_outside(error):
            raise
        return None


ARITHMETIC = frozenset(
    {operator.add, operator.mul, operator.floordiv, operator.mod, torch.sym_min, torch.sym_max}
)


def with_numbers(gm: fx.GraphModule, inputs: Sequence[Any], kept: Sequence[int]) -> fx.GraphModule:
    """The graph with numbers in place of the inputs that are not kept, and of what they give."""
    graph = fx.Graph()
    known: dict[fx.Node, Any] = {}
    position = 0
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            position += 1
            if position - 1 not in kept:
                known[node] = inputs[position - 1]
                continue
        is_number = not any(isinstance(known[n], fx.Node) for n in node.all_input_nodes)
        if node.op == "call_function" and node.target in ARITHMETIC and is_number:
            known[node] = node.target(*fx.map_arg(node.args, known.__getitem__))
            continue
        known[node] = graph.node_copy(node, lambda n: known[n])
    made = fx.GraphModule(torch.nn.Module(), graph, class_name=type(gm).__name__)
    if as_traced(gm) is not gm:
        made.meta[AS_TRACED] = with_numbers(as_traced(gm), inputs, kept)
    return made
