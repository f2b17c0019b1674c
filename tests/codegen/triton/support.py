"""Kernels for tests: from definitions through fusion and the printer, to Triton's interpreter."""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normaliser
from jitpkg.codegen.ir import interpreter
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import value_of
from jitpkg.codegen.ir.nodes import Buffer, Definition, Store
from jitpkg.codegen.triton.printer import printed
from jitpkg.codegen.triton.source import Source
from jitpkg.codegen.triton.target import H200, Target

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="Triton's interpreter is not there",
)

_count = itertools.count()
_folder = Path(tempfile.mkdtemp(prefix="jitpkg-triton-"))


def function_of(source: Source) -> Any:
    """The kernel, for Triton's interpreter."""
    name = f"jitpkg_tested_{next(_count)}"
    path = _folder / f"{name}.py"
    path.write_text(source.text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    path.unlink() if False else None
    return getattr(module, source.name)


def launch(
    source: Source,
    tensors: Sequence[torch.Tensor],
    symbols: Mapping[str, int] | None = None,
    config: int = 0,
) -> None:
    """One call of a kernel, in one of its configs.

    Raises:
        IndexError: an index out of the data is out of range.
    """
    numbers = [value_of(number, symbols or {}) for number in source.numbers]
    blocks = dict(source.configs[config].blocks)
    names: dict[str, Any] = {f"n{k}": number for k, number in enumerate(numbers)}
    names |= {**blocks, "cdiv": lambda a, b: -(-a // b)}
    grid = tuple(eval(text, names) for text in source.grid)
    if 0 in grid:
        return
    try:
        with np.errstate(all="ignore"):
            function_of(source)[grid](*tensors, *numbers, **blocks)
    except Exception as error:
        inner: BaseException | None = error
        while inner is not None:
            if isinstance(inner, IndexError):
                raise inner from None
            inner = inner.__cause__ or inner.__context__
        raise


def run(
    kernel: Kernel,
    builder: Builder,
    tensors: Sequence[torch.Tensor],
    on: Target | None = None,
    config: int = 0,
) -> int:
    """The status of a call with tensors for the kernel's inputs and outputs."""
    source = printed(schedule(kernel, builder), on or H200)
    try:
        launch(source, tensors, config=min(config, len(source.configs) - 1))
    except IndexError:
        return 1
    return 0


def computed(
    builder: Builder,
    definitions: Sequence[Definition],
    memory: Mapping[Buffer, torch.Tensor],
    on: Target | None = None,
    config: int = 0,
) -> list[torch.Tensor]:
    """What one kernel makes of the definitions."""
    stores = [Store(each.buffer, each.axes, each.value) for each in definitions]
    normal = Normaliser(builder).normal(kernel_of("tested", stores))
    made = {each.buffer: torch.full(each.buffer.sizes, 7).to(each.dtype) for each in definitions}
    given = [memory[each] for each in normal.inputs] + [made[each] for each in normal.outputs]
    assert run(normal.kernel, builder, given, on, config) == 0
    return [made[each.buffer] for each in definitions]


def check(
    builder: Builder,
    definitions: Sequence[Definition],
    memory: Mapping[Buffer, torch.Tensor],
    *,
    tolerance: float = 1e-5,
    on: Target | None = None,
    config: int = 0,
) -> None:
    """The kernel makes what the reference interpreter does."""
    found = computed(builder, definitions, memory, on, config)
    for definition, each in zip(definitions, found, strict=True):
        wanted = interpreter.evaluate(definition, memory)
        exact = not each.dtype.is_floating_point
        most = 0.0 if exact else 2e-2 if each.dtype.itemsize == 2 else tolerance
        torch.testing.assert_close(each, wanted, rtol=most, atol=most, equal_nan=True)
