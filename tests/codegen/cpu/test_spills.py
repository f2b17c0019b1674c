"""Registers that a kernel puts aside lie in one cache line each.

A 64-byte register that is stored across two lines is read back twenty cycles later: a loop that
calls Sleef for float64 took 1.6 times as long, or not, by where the caller's stack was.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg.native import llvm
from tests.native.support import needs_llvm

pytestmark = needs_llvm

Function = Callable[[Tensor], Tensor]


def many(x: Tensor) -> Tensor:
    """More values at once than there are registers."""
    values = [x * (k + 0.5) for k in range(40)]
    made = values[0].sin()
    for k in range(1, 40):
        made = made + values[k] * values[-k] - values[k - 1]
    for each in values:
        made = made * each
    return made


FUNCTIONS: dict[str, Function] = {
    "many values": many,
    "softmax": lambda x: torch.softmax(x.sin(), -1),
    "sum of rows": lambda x: (x.sin() * x.cos().exp()).sum(-1),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x.tan(), x.shape[-1:]),
    "pow": lambda x: torch.pow(x.abs(), x),
} | {
    name: getattr(torch, name)
    for name in (
        *("sin", "cos", "tan", "exp", "log", "log1p", "expm1", "asin", "acos", "atan", "sinh"),
        *("cosh", "tanh", "erf", "erfc", "erfinv", "lgamma", "digamma", "sigmoid"),
    )
}

_SPILL = re.compile(r"^\s+v?movup[sd]\s+%[yz]mm\d+, -?\d*\(%r[sb]p\)$", re.MULTILINE)
"""A store of a register to the stack for which nothing need be aligned."""


def assembly(text: str) -> str:
    """That of a kernel's IR."""
    using = llvm.llvm()
    module = using.binding.parse_assembly(text)
    module.triple = using.triple
    module.data_layout = str(using.machine.target_data)
    return str(using.machine.emit_assembly(module))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it reads x86's assembly")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("size", [64, 512])
def test_no_spill_lies_across_cache_lines(name: str, dtype: torch.dtype, size: int) -> None:
    x = torch.linspace(0.1, 0.9, size * size).reshape(size, size).to(dtype)
    compiled = jitpkg.explain(FUNCTIONS[name], backend="jitpkg", fullgraph=True)(x)
    for text in compiled.kernel_sources.values():
        assert not _SPILL.findall(assembly(text))
