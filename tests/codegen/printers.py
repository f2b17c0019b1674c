"""The printers, for tests that hold for each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.codegen.cpu import support as cpu
from tests.codegen.triton import support as triton


@dataclass(frozen=True, eq=False)
class Printer:
    """What runs kernels; see `tests/codegen/cpu/support.py`."""

    name: str
    run: Callable[..., int]
    computed: Callable[..., Any]
    check: Callable[..., None]

    def __repr__(self) -> str:
        return self.name


CPU = Printer("cpu", cpu.run, cpu.computed, cpu.check)
TRITON = Printer("triton", triton.run, triton.computed, triton.check)

each_printer = pytest.mark.parametrize(
    "printer",
    [
        pytest.param(CPU, marks=cpu.needs_llvm),
        pytest.param(TRITON, marks=triton.needs_triton),
    ],
    ids=repr,
)
