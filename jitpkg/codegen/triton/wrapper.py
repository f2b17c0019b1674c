"""The Python function of a kernel: makes its outputs and temporary tensors, and runs its sources.

def run_softmax(in0, s0):
    out0 = empty((s0, 37), (37, 1), dtype=float32, device=device)
    launch(in0, out0, s0)
    return out0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from jitpkg import listing
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.ir.extents import Symbolic, symbols_of
from jitpkg.codegen.ir.nodes import Buffer
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """A source that is run, of tensors and then numbers."""

    buffers: tuple[Buffer, ...]
    """What its pointers point to: lines of memory that the kernel is given, or temporary ones."""
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The text of a kernel's function."""

    name: str
    text: str
    dtypes: tuple[torch.dtype, ...]
    """Those that it names."""

    def function(self, device: torch.device, runs: Sequence[Callable[..., None]]) -> FunctionType:
        """
        Args:
            runs: run the sources.
        """
        held: dict[str, Any] = {"empty": torch.empty_strided, "device": device}
        held |= {_name_of(dtype): dtype for dtype in self.dtypes}
        held |= {_launch(k): run for k, run in enumerate(runs)}
        exec(compile(self.text, listing.file_name(f"{self.name}.launch"), "exec"), held)
        function: FunctionType = held[f"run_{self.name}"]
        listing.keep(function, self.text)
        function.__qualname__ = function.__name__ = self.name
        return function


def wrapped(
    name: str, normal: Normal, given: int, steps: Sequence[Step]
) -> tuple[Wrapper, tuple[int, ...]]:
    """A function of the kernel's inputs, of the first `given` of its outputs, and of the numbers
    that it says."""
    return _Text(name, normal, given, steps).wrapper()


def _launch(k: int) -> str:
    return f"launch{k or ''}"


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class _Text:
    def __init__(self, name: str, normal: Normal, given: int, steps: Sequence[Step]) -> None:
        self._name = name
        self._kernel: Kernel = normal.kernel
        self._given = given
        self._fresh = normal.outputs[given:]
        self._steps = steps
        self._dtypes: dict[torch.dtype, None] = {}
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

    def wrapper(self) -> tuple[Wrapper, tuple[int, ...]]:
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
            args = [names[b] for b in step.buffers] + [self._text(n) for n in step.numbers]
            lines.append(f"{_launch(k)}({', '.join(args)})")
        if fresh:
            lines.append(f"return {', '.join(fresh)}")
        body = "\n".join(f"    {line}" for line in lines or ["pass"])
        given = [*inputs, *outputs[: self._given], *self._names.values()]
        held = ["empty", "device", *map(_name_of, self._dtypes)]
        held += map(_launch, range(len(self._steps)))
        parameters = ", ".join([*given, *(f"{name}={name}" for name in held)])
        text = f"def run_{self._name}({parameters}):\n{body}\n"
        return Wrapper(self._name, text, tuple(self._dtypes)), self._symbols

    def _made(self, buffer: Buffer) -> str:
        self._dtypes[buffer.dtype] = None
        sizes, strides = map(self._tuple, (buffer.sizes, buffer.strides))
        return f"empty({sizes}, {strides}, dtype={_name_of(buffer.dtype)}, device=device)"

    def _tuple(self, lengths: Sequence[int]) -> str:
        return f"({''.join(f'{self._text(each)}, ' for each in lengths)})"

    def _text(self, length: Any) -> str:
        if not isinstance(length, Symbolic):
            return repr(length)
        return f"({length.size.text(dict(self._names))})"
