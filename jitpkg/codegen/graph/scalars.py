"""Floats that vary: they are handed to a graph as a tensor.

Nobody compiles graphs for floats that vary, and most backends take no floats at all. An op that
takes a float and a tensor computes the same with a tensor of float64 without dims in its place,
which counts as little for the dtype of the result, where the other one is of floats and has dims.
Where it has none, the float is given its dtype first. A factor, as `alpha=` and `value=` are, is
multiplied with what it is a factor of.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.graph.copies import copied, replaced
from jitpkg.codegen.graph.writing import name_of
from jitpkg.marks import SCALAR, VARIES, Dims

Function = Callable[..., Any]

_CPU = torch.device("cpu")


def places(gm: fx.GraphModule, inputs: Sequence[Any]) -> tuple[int, ...]:
    """The inputs that are floats and may be tensors."""
    if not any(type(value) is float for value in inputs):
        return ()
    if any(isinstance(value, torch.Tensor) and value.device != _CPU for value in inputs):
        return ()  # no kernel there would read them
    given = gm.graph.find_nodes(op="placeholder")
    return tuple(
        k
        for k, (node, value) in enumerate(zip(given, inputs, strict=True))
        if type(value) is float and all(_may_be_tensor(user, node) for user in node.users)
    )


def _may_be_tensor(user: fx.Node, number: fx.Node) -> bool:
    """Whether an op takes a tensor for a number; in a list of numbers none does."""
    given = (*user.args, *user.kwargs.values())
    return SCALAR in user.meta and any(each is number for each in given)


def with_tensors(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    at: Collection[int],
    compile_: Callable[[fx.GraphModule, list[Any]], Function],
) -> Function:
    """A function of the graph's inputs, compiled with tensors in place of the floats at these."""
    graph = copied(gm.graph)
    placeholders = graph.find_nodes(op="placeholder")
    for k in at:
        for user in list(placeholders[k].users):
            _use(graph, user, placeholders[k])
    made = replaced(gm, graph)
    dims = [Dims() if k in at else each for k, each in enumerate(gm.meta[VARIES])]
    made.meta[VARIES] = tuple(dims) if any(each is None or each for each in dims) else ()

    def given(inputs: Sequence[Any]) -> list[Any]:
        """Elements of one tensor: a view takes a tenth of the time that a tensor takes."""
        found = list(inputs)
        floats = torch.tensor([inputs[k] for k in at], dtype=torch.float64, device=_CPU)
        for k, element in zip(at, floats.unbind(), strict=True):
            found[k] = element
        return found

    function = compile_(made, given(inputs))
    return lambda *inputs: function(*given(inputs))


def _use(graph: fx.Graph, user: fx.Node, number: fx.Node) -> None:
    """Let an op use a tensor in place of a number."""
    dtype, target, operand = user.meta[SCALAR], user.target, number
    factor = next((key for key, given in user.kwargs.items() if given is number), None)
    with graph.inserting_before(user):
        if dtype is not None:
            operand = graph.call_method("to", (number, dtype))
        if target is operator.truediv and user.args[0] is number:  # as Tensor.__rtruediv__
            user.target = operator.mul
            user.args = graph.call_method("reciprocal", (user.args[1],)), operand
            return
        if factor is None:
            user.args = tuple(operand if given is number else given for given in user.args)
            return
        args = list(user.args)
        of_one_class = graph.call_method("to", (args[1], dtype))
        args[1] = graph.call_function(operator.mul, (of_one_class, operand))
        name = name_of(user)
        if name.startswith("addcdiv"):
            args[1] = graph.call_function(operator.truediv, (args[1], args.pop()))
        elif name.startswith("addcmul"):
            args[1] = graph.call_function(operator.mul, (args[1], args.pop()))
    user.op = "call_method"
    user.target = ("sub" if name.startswith("sub") else "add") + "_" * name.endswith("_")
    user.args, user.kwargs = tuple(args), {}
