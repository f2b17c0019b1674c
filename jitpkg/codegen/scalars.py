"""Floats that vary: each is handed to a graph as a tensor of one element.

Nobody compiles graphs for floats that vary, and most backends take no floats at all. An op that
takes a float and a tensor computes the same with a tensor of float64 without dims in its place,
which counts as little for the dtype of the result, where the other one is of floats and has dims.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.copies import copied
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
        if type(value) is float and all(SCALAR in user.meta for user in node.users)
    )


def with_tensors(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    at: Collection[int],
    compile_: Callable[[fx.GraphModule, list[Any]], Function],
) -> Function:
    """A function of the graph's inputs, compiled with tensors in place of the floats at these."""
    made = fx.GraphModule(torch.nn.Module(), copied(gm.graph), class_name=type(gm).__name__)
    made.meta = dict(gm.meta)
    dims = [Dims() if k in at else each for k, each in enumerate(gm.meta[VARIES])]
    made.meta[VARIES] = tuple(dims) if any(each is None or each for each in dims) else ()

    def given(inputs: Sequence[Any]) -> list[Any]:
        return [_tensor(value) if k in at else value for k, value in enumerate(inputs)]

    function = compile_(made, given(inputs))
    return lambda *inputs: function(*given(inputs))


def _tensor(value: float) -> torch.Tensor:
    return torch.scalar_tensor(value, dtype=torch.float64, device=_CPU)
