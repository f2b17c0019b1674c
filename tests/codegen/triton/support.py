"""Kernels for tests: from definitions through fusion and the printer, to Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest
import torch

from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import value_of
from jitpkg.codegen.triton import blocks, configs, tiles
from jitpkg.codegen.triton.interpreted import interpreted
from jitpkg.codegen.triton.printer import printed
from jitpkg.codegen.triton.source import Source
from jitpkg.codegen.triton.target import H200, Target
from tests.codegen import compared

SMALL = replace(H200, processors=2)
"""A GPU that few programs fill: the interpreter takes a millisecond for a line of each of them."""


@contextmanager
def of_short_rows() -> Iterator[None]:
    """As if hardly anything fitted into registers. Loops go round more than once then in kernels
    that are small enough for the interpreter."""
    with (
        mock.patch.multiple(tiles, PERSISTENT=20, ACROSS=4, SHORT=2),
        mock.patch.object(blocks, "ROW", 64),
        mock.patch.object(configs, "LOOPED", 32),
    ):
        yield


needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="Triton's interpreter is not there",
)


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
    chosen = source.configs[min(config, len(source.configs) - 1)]
    with np.errstate(all="ignore"):
        interpreted(source, chosen)(tensors, numbers)


def run(
    kernel: Kernel,
    builder: Builder,
    tensors: Sequence[torch.Tensor],
    on: Target | None = None,
    config: int = 0,
    short_rows: bool = False,
) -> int:
    """The status of a call with tensors for the kernel's inputs and outputs."""
    with of_short_rows() if short_rows else nullcontext():
        source = printed(schedule(kernel, builder), on or SMALL)
    try:
        launch(source, tensors, config=config)
    except IndexError:
        return 1
    return 0


computed = partial(compared.computed, run)
check = partial(compared.check, run)
