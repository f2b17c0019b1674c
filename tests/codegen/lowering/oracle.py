"""Lowers one call of an ATen op, and compares what the interpreter makes of it with ATen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch._ops import OpOverload

from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.ir import interpreter, legality
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer, Definition
from jitpkg.codegen.lowering.calls import lower
from jitpkg.codegen.lowering.table import Lowering, Scattered, Tensor
from jitpkg.facts.tensor import contiguous_stride
from tests.codegen.cpu.support import needs_llvm
from tests.codegen.printers import CPU, TRITON, Printer
from tests.codegen.triton.support import needs_triton

TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-5, 1e-5),
    torch.bfloat16: (1.6e-2, 2e-2),
    torch.float16: (2e-3, 2e-3),
}


class Call:
    """A call whose tensors lie in memory, and are buffers to the lowering."""

    def __init__(self) -> None:
        self.k = Lowering(Builder())
        self.memory: dict[Buffer, torch.Tensor] = {}
        self._known: dict[int, Tensor] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._known:
                name = f"x{len(self.memory)}"
                buffer = Buffer(name, value.dtype, tuple(value.shape), tuple(value.stride()))
                self._known[id(value)] = self.k.of_buffer(buffer)
                self.memory[buffer] = value
            return self._known[id(value)]
        if isinstance(value, list | tuple):
            return type(value)(self.of(each) for each in value)
        return value

    def value(self, made: Tensor | Scattered) -> torch.Tensor:
        """What the interpreter makes of a result."""
        buffer = Buffer("out", made.dtype, made.sizes, contiguous_stride(made.sizes))
        if isinstance(made, Tensor):
            definition = Definition(buffer, made.axes, made.value)
            legality.check(definition)
            return interpreter.evaluate(definition, self.memory)
        first, second = made.stores(buffer)
        legality.check_store(first, made.base.axes)
        legality.check_store(second, made.over)
        memory = {**self.memory, buffer: torch.empty(made.sizes, dtype=made.dtype)}
        interpreter.run_stores([first], made.base.axes, memory)
        interpreter.run_stores([second], made.over, memory)
        return memory[buffer]


Evaluate = Callable[[Call, Tensor | Scattered], torch.Tensor]


def by_printer(printer: Printer) -> Evaluate:
    """What a printer's kernels make of a result."""

    def evaluate(call: Call, made: Tensor | Scattered) -> torch.Tensor:
        buffer = Buffer("out", made.dtype, made.sizes, contiguous_stride(made.sizes))
        builder = call.k.builder
        if isinstance(made, Tensor):
            definition = Definition(buffer, made.axes, made.value)
            return printer.computed(builder, [definition], call.memory)[0]
        result = torch.full(made.sizes, 7).to(made.dtype)
        for store in made.stores(buffer):
            kernel = kernel_of("scatter", [store])
            given = [call.memory[each] for each in kernel.inputs]
            if printer.run(kernel, builder, [*given, result]):
                raise IndexError
        return result

    return evaluate


each_evaluate = pytest.mark.parametrize(
    "by",
    [
        pytest.param(Call.value, id="interpreter"),
        pytest.param(by_printer(CPU), id="cpu", marks=needs_llvm),
        pytest.param(by_printer(TRITON), id="triton", marks=needs_triton),
    ],
)
"""For tests of what the interpreter and all printers make of a lowering."""


def lowered(
    target: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    expected: Any,
    by: Evaluate = Call.value,
) -> list[torch.Tensor | None]:
    """The results of a call by its lowering.

    Args:
        by: computes what it made; the reference interpreter does if nobody else.

    Raises:
        NotLowered: it has none.
    """
    call = Call()
    given = {name: call.of(value) for name, value in kwargs.items()}
    made = lower(call.k, target, [call.of(arg) for arg in args], given, facts_of(expected))
    results = made if isinstance(made, tuple) else (made,)
    return [None if one is None else by(call, one) for one in results]


class Facts:
    def __init__(self, t: torch.Tensor) -> None:
        self.dtype, self.size = t.dtype, t.shape


def facts_of(expected: Any) -> Any:
    if isinstance(expected, torch.Tensor):
        return Facts(expected)
    return tuple(Facts(t) if isinstance(t, torch.Tensor) else None for t in expected)


def compare(target: OpOverload, *args: Any, **kwargs: Any) -> None:
    """
    Raises:
        AssertionError: the lowering returns something else than ATen.
        NotLowered: there is none.
    """
    compare_by(Call.value, target, *args, **kwargs)


def compare_by(by: Evaluate, target: OpOverload, *args: Any, **kwargs: Any) -> None:
    """The same, where somebody else computes what the lowering made."""
    expected = target(*args, **kwargs)
    same(lowered(target, args, kwargs, expected, by), expected, f"{target}{args}{kwargs}"[:600])


def same(found: Sequence[torch.Tensor | None], expected: Any, what: str) -> None:
    wanted = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    assert len(found) == len(wanted), what
    for k, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if one is None or other is None:
            continue
        rtol, atol = TOLERANCE.get(other.dtype, (0, 0))
        torch.testing.assert_close(
            one,
            other.contiguous(),
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            msg=lambda text, k=k: f"result {k} of {what}: {text}",
        )
