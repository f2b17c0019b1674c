"""What a printer's kernels make of definitions, compared with the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.normal import Normaliser
from jitpkg.codegen.ir import interpreter
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer, Definition, Store

Run = Callable[..., int]
"""A call of a kernel with a builder, tensors for its inputs and outputs, the machine that it is
printed for, and options of the printer's own; returns the call's status."""


def computed(
    run: Run,
    builder: Builder,
    definitions: Sequence[Definition],
    memory: Mapping[Buffer, torch.Tensor],
    on: Any = None,
    **options: Any,
) -> list[torch.Tensor]:
    """What one kernel makes of the definitions, `on` some machine."""
    stores = [Store(each.buffer, each.axes, each.value) for each in definitions]
    normal = Normaliser(builder).normal(kernel_of("tested", stores))
    made = {each.buffer: torch.full(each.buffer.sizes, 7).to(each.dtype) for each in definitions}
    given = [memory[each] for each in normal.inputs] + [made[each] for each in normal.outputs]
    assert run(normal.kernel, builder, given, on, **options) == 0
    return [made[each.buffer] for each in definitions]


def check(
    run: Run,
    builder: Builder,
    definitions: Sequence[Definition],
    memory: Mapping[Buffer, torch.Tensor],
    *,
    tolerance: float = 1e-5,
    **options: Any,
) -> None:
    """The kernel makes what the reference interpreter does."""
    found = computed(run, builder, definitions, memory, **options)
    for definition, each in zip(definitions, found, strict=True):
        wanted = interpreter.evaluate(definition, memory)
        exact = not each.dtype.is_floating_point
        most = 0.0 if exact else 2e-2 if each.dtype.itemsize == 2 else tolerance
        torch.testing.assert_close(each, wanted, rtol=most, atol=most, equal_nan=True)
