"""A source as a module: its kernel, as Triton's decorator makes it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

from jitpkg.codegen.triton.loading import loaded
from jitpkg.codegen.triton.source import Config, Source


def kernel_of(source: Source) -> Any:
    """What `@triton.jit` made of the kernel."""
    return _kernel_of(plain(source))


@lru_cache(maxsize=1024)
def _kernel_of(source: Source) -> Any:
    return loaded(source)


def plain(source: Source) -> Source:
    """The same for all numbers: those that vary must not be compared, which is noted."""
    return replace(source, numbers=(0,) * len(source.numbers))


def grid_of(source: Source, config: Config, numbers: dict[str, int]) -> tuple[int, ...]:
    """How many programs run along each dim; `numbers` by the names of parameters."""
    names = {**numbers, **dict(config.blocks), **dict(source.constants), "cdiv": cdiv}
    code = _grid_code(source.grid)
    grid: tuple[int, ...] = eval(code, {"__builtins__": {}, **names})
    return grid


@lru_cache(maxsize=1024)
def _grid_code(grid: tuple[str, ...]) -> Any:
    return compile(f"({''.join(f'{each}, ' for each in grid)})", "<grid>", "eval")


def is_empty(grid: tuple[int, ...]) -> bool:
    return prod(grid) == 0


def cdiv(a: int, b: int) -> int:
    """The quotient, rounded up."""
    return -(-a // b)
