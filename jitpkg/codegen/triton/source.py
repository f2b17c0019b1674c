"""A kernel as Triton source: what the printer makes, and what compiles, launches or interprets."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch

from jitpkg.codegen.ir.nodes import Extent
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of blocks, and what goes with them. Any config of a source computes the same."""

    blocks: tuple[tuple[str, int], ...]
    """The values of the kernel's `tl.constexpr` parameters, by name: powers of two."""
    warps: int
    stages: int = 1


@dataclass(frozen=True, slots=True)
class Source:
    """A Python module with one kernel, `@triton.jit def name(...)`.

    Its parameters are pointers to the kernel's inputs and then to its outputs, numbers that vary,
    and the blocks of its configs.
    """

    name: str
    text: str
    pointers: tuple[torch.dtype, ...]
    """What the pointers point to."""
    numbers: tuple[Extent, ...]
    """Sizes and strides that vary; parameters `n0`, `n1`, ... behind the pointers."""
    wide: bool
    """Whether numbers and indices have 64 bits; 32 otherwise."""
    grid: tuple[str, ...]
    """How many programs run along each dim, one to three: Python expressions of `n0`, ..., of the
    names of blocks, and of `cdiv(a, b)`."""
    configs: tuple[Config, ...]
    """The first is the one that should be fastest."""
    constants: tuple[tuple[str, int], ...] = ()
    """`tl.constexpr` parameters behind the blocks that are the same in all configs."""

    @classmethod
    def of(cls, *values: Any) -> Source:
        """The source of which `astuple` made these values."""
        source = cls(*values)
        return replace(source, configs=tuple(Config(*each) for each in values[_CONFIGS]))

    @property
    def asserts(self) -> bool:
        """Whether it checks indices that come from the data; it is compiled with `debug` then."""
        return "jl.checked(" in self.text or "device_assert" in self.text


_CONFIGS = [field.name for field in fields(Source)].index("configs")
