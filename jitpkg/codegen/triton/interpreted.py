"""Kernels by Triton's interpreter, on CPU tensors: slow, and needs no GPU.

The environment variable TRITON_INTERPRET has to be 1 before Triton is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from jitpkg import forks
from jitpkg.codegen.triton.module import grid_of, is_empty, kernel_of
from jitpkg.codegen.triton.source import Config, Source
from jitpkg.config import current
from jitpkg.errors import BackendError
from jitpkg.interrupts import from_outside

Launch = Callable[[Sequence[torch.Tensor], Sequence[int]], None]
"""Runs a kernel on tensors, and numbers that vary."""

_ONE = forks.lock()
"""The interpreter replaces functions of Triton's while it runs."""


def interpret() -> str | None:
    """Let Triton interpret; or why it cannot."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        return None
    if "triton" in sys.modules:
        return "Triton interprets only if TRITON_INTERPRET=1 was set before it was imported"
    os.environ["TRITON_INTERPRET"] = "1"
    return None


def interpreted(source: Source, config: Config | None = None) -> Launch:
    """A function that interprets a kernel.

    Args:
        config: one of the source's, or one with smaller blocks; the first if there is none.
    """
    chosen = config or source.configs[0]
    blocks = {**dict(chosen.blocks), **dict(source.constants)}
    names = [f"n{k}" for k in range(len(source.numbers))]

    def run(tensors: Sequence[torch.Tensor], numbers: Sequence[int] = ()) -> None:
        grid = grid_of(source, chosen, dict(zip(names, numbers, strict=True)))
        if is_empty(grid):
            return
        with _ONE, _mended():
            try:
                kernel_of(source)[grid](*tensors, *numbers, **blocks)
            except Exception as error:
                if from_outside(error):
                    raise
                cause = _cause(error)
                if isinstance(cause, IndexError) or not current().raises:
                    raise cause from error
                raise BackendError(f"the kernel {source.name} cannot be interpreted") from cause

    return run


@contextmanager
def _mended() -> Iterator[None]:
    """Triton drops assertions, unless it compiles for debugging. And where one element is repeated,
    its interpreter takes the outcome of a comparison for a number of the dtype that was compared.
    """
    from triton.runtime import interpreter  # not everybody has it

    builder = interpreter.interpreter_builder
    before = builder.options

    def splat(to: Any, one: Any) -> Any:
        found = interpreter.np.full(to.shape, one.data.reshape(-1)[0], dtype=one.data.dtype)
        return interpreter.TensorHandle(found, one.dtype.scalar)

    builder.options = replace(before, debug=True, sanitize_overflow=False)
    builder.create_splat = splat
    try:
        yield
    finally:
        builder.options = before
        del builder.create_splat


def _cause(error: BaseException) -> BaseException:
    """What was raised in a kernel; a failed assertion is about an index."""
    while error.__cause__ is not None and type(error).__name__ == "InterpreterError":
        error = error.__cause__
    return IndexError(*_said(error)) if isinstance(error, AssertionError) else error


def _said(error: BaseException) -> tuple[Any, ...]:
    return error.args or ("index out of range",)
