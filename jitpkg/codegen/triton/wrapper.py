"""The Python function of a kernel: makes its outputs and temporary tensors, and runs its sources.

def run_softmax(in0, s0):
    out0 = empty((s0, 37), (37, 1), dtype=float32, device=device)
    launch(in0, out0, s0)
    return out0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from jitpkg import listing
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.ir.extents import Symbolic, symbols_of
from jitpkg.codegen.ir.nodes import Buffer


@dataclass(frozen=True, slots=True)
class Step:
    """A source that is run."""

    run: Callable[..., None]
    """Of tensors and then numbers."""
    buffers: tuple[Buffer, ...]
    """What its pointers point to: lines of memory that the kernel is given, or temporary ones."""
    numbers: tuple[int, ...]


def wrapped(
    name: str, normal: Normal, given: int, steps: Sequence[Step], device: torch.device
) -> tuple[FunctionType, tuple[int, ...]]:
    """A function of the kernel's inputs, of the first `given` of its outputs, and of the numbers
    that it says."""
    return _Text(name, normal, given, steps, device).function()


class _Text:
    def __init__(
        self, name: str, normal: Normal, given: int, steps: Sequence[Step], device: torch.device
    ) -> None:
        self._name = name
        self._kernel: Kernel = normal.kernel
        self._given = given
        self._fresh = normal.outputs[given:]
        self._steps = steps
        self._held: dict[str, Any] = {"empty": torch.empty_strided, "device": device}
        self._symbols = symbols_of(self._lengths())
        self._names: Mapping[str, str] = {
            str(symbol): f"s{k}" for k, symbol in enumerate(self._symbols)
        }

    def _lengths(self) -> Iterable[int]:
        for buffer in self._fresh:
            yield from (*buffer.sizes, *buffer.strides)
        for step in self._steps:
            yield from step.numbers
            for buffer in step.buffers:
                yield from buffer.sizes

    def function(self) -> tuple[FunctionType, tuple[int, ...]]:
        inputs = [f"in{k}" for k in range(len(self._kernel.inputs))]
        outputs = [f"out{k}" for k in range(len(self._kernel.outputs))]
        names = dict(zip(self._kernel.inputs, inputs, strict=True))
        names |= dict(zip(self._kernel.outputs, outputs, strict=True))
        fresh = outputs[self._given :]
        lines = [
            f"{name} = {self._made(buffer)}"
            for name, buffer in zip(fresh, self._fresh, strict=True)
        ]
        for k, step in enumerate(self._steps):
            for buffer in step.buffers:
                if buffer not in names:
                    names[buffer] = f"t{len(names)}"
                    lines.append(f"{names[buffer]} = {self._made(buffer)}")
            run = f"launch{k or ''}"
            self._held[run] = step.run
            args = [names[b] for b in step.buffers] + [self._text(n) for n in step.numbers]
            lines.append(f"{run}({', '.join(args)})")
        if fresh:
            lines.append(f"return {', '.join(fresh)}")
        body = "\n".join(f"    {line}" for line in lines or ["pass"])
        given = [*inputs, *outputs[: self._given], *self._names.values()]
        parameters = ", ".join([*given, *(f"{name}={name}" for name in self._held)])
        source = f"def run_{self._name}({parameters}):\n{body}\n"
        namespace = dict(self._held)
        exec(compile(source, listing.file_name(f"{self._name}.launch"), "exec"), namespace)
        function: FunctionType = namespace[f"run_{self._name}"]
        listing.keep(function, source)
        function.__qualname__ = function.__name__ = self._name
        return function, self._symbols

    def _made(self, buffer: Buffer) -> str:
        dtype = str(buffer.dtype).removeprefix("torch.")
        self._held[dtype] = buffer.dtype
        sizes, strides = map(self._tuple, (buffer.sizes, buffer.strides))
        return f"empty({sizes}, {strides}, dtype={dtype}, device=device)"

    def _tuple(self, lengths: Sequence[int]) -> str:
        return f"({''.join(f'{self._text(each)}, ' for each in lengths)})"

    def _text(self, length: Any) -> str:
        if not isinstance(length, Symbolic):
            return repr(length)
        return f"({length.size.text(dict(self._names))})"
