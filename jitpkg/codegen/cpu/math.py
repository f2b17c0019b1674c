"""Functions of floats: polynomials of our own for float32, and Sleef's for the others.

Every function is within 2 ulp of the correctly rounded result, and right at NaN, infinities, zeros
of both signs and subnormals. No instruction has flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from jitpkg.codegen.cpu.angles import ANGLES
from jitpkg.codegen.cpu.arithmetic import Arithmetic
from jitpkg.codegen.cpu.exponentials import EXPONENTIALS
from jitpkg.codegen.cpu.logarithms import LOGARITHMS
from jitpkg.codegen.cpu.quotients import QUOTIENTS
from jitpkg.codegen.cpu.sleef import SLEEF, sleef
from jitpkg.codegen.cpu.wide import WIDE

OWN: Mapping[str, Callable[..., str]] = MappingProxyType(
    EXPONENTIALS | LOGARITHMS | ANGLES | QUOTIENTS | WIDE
)
"""For float32."""

FUNCTIONS = frozenset(SLEEF)


def is_own(name: str, dtype: torch.dtype) -> bool:
    """Whether a function is printed where it is used, and not called."""
    return dtype is torch.float32 and name in OWN


def call(f: Arithmetic, name: str, *args: str) -> str:
    """One of `FUNCTIONS`."""
    return OWN[name](f, *args) if is_own(name, f.dtype) else sleef(f, name, *args)
