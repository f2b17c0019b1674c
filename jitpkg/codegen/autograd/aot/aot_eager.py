"""The backend `aot_eager`: AOTAutograd's graphs of ATen ops, forward and backward, run op by op.

For finding out which half of a compiler a difference comes from, and as an oracle of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.autograd.aot.functional import Compiled, through_aot
from jitpkg.codegen.autograd.function import boxed
from jitpkg.codegen.parts.in_parts import in_parts
from jitpkg.codegen.parts.stages import in_stages
from jitpkg.internals import aot


def aot_eager(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Make the graph functional, differentiate it, and run both graphs op by op."""
    cut = in_parts("aot_eager", gm, example_inputs, aot_eager)
    if cut is not None:
        return cut
    return in_stages(gm, example_inputs, partial(through_aot, "aot_eager", compile_=_compile))


def _compile(
    gm: fx.GraphModule, fakes: list[torch.Tensor], compiled: Compiled
) -> Callable[..., Any]:
    def op_by_op(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        compiled.note(gm)
        compiled.halves.runs_forward(gm, gm.forward)
        return boxed(gm.forward)

    def backward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return compiled.halves.runs(gm, lambda part: boxed(part.forward))

    function: Callable[..., Any] = aot.MODULE.get()(
        gm,
        fakes,
        fw_compiler=op_by_op,
        bw_compiler=backward,
        partition_fn=aot.PARTITION.get(),
        keep_inference_input_mutations=False,
    )
    return function
