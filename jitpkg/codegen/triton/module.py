"""A source as a module: its kernel, as Triton's decorator makes it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

from jitpkg import forks, listing
from jitpkg.codegen.triton.source import Config, Source


def kernel_of(source: Source) -> Any:
    """What `@triton.jit` made of the kernel. Its text is found by tracebacks, and by Triton."""
    with _ONE:
        return _kernel_of(plain(source))


_ONE = forks.lock()
"""Two kernels of one name may come at the same time: each has a file of its own."""


@lru_cache(maxsize=1024)
def _kernel_of(source: Source) -> Any:
    file = listing.file_name(f"{source.name}.triton")
    namespace: dict[str, Any] = {"__name__": f"jitpkg.kernels.{source.name}"}
    code = compile(source.text, file, "exec")
    listing.show(file, source.text)  # the decorator reads it
    exec(code, namespace)
    kernel = namespace[source.name]
    listing.drop_with(kernel.fn, file)
    return kernel


def plain(source: Source) -> Source:
    """The same for all numbers: to compare those that vary is to rely on what comes of it."""
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
