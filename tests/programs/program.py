"""What a program is, and how the files of this directory register theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from jitpkg.testing import Call, call

__all__ = ["Call", "Program", "Programs", "call", "floats", "grid", "leaf"]

Target = TypeVar("Target", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """A function or module, and how it is called."""

    name: str
    target: Callable[..., Any]
    calls: tuple[Call, ...]
    """Made one after the other: the first compiles, later ones meet guards and entries."""
    graphs: int | None
    """How many graphs the first call compiles; None where Pythons differ."""
    breaks: int
    """How many graph breaks the first call meets; not checked where `graphs` is None."""
    watch: tuple[str, ...]
    """Names of globals that are compared, too."""
    every_break: bool
    """Whether a break is forced at each possible point in turn, not only at some."""
    ignore: tuple[str, ...]
    """Respects in which compiled and eager are known to differ."""


class Programs:
    """The programs of one file, by name. An instance is the decorator that registers them."""

    def __init__(self) -> None:
        self._by_name: dict[str, Program] = {}

    def __call__(
        self,
        *calls: Call,
        graphs: int | None = 1,
        breaks: int = 0,
        watch: str = "",
        every_break: bool = False,
        ignore: str = "",
        name: str = "",
    ) -> Callable[[Target], Target]:
        """Register a function or a module to be called with these arguments.

        Args:
            calls: see `Program`, as all others.
            watch, ignore: the names, separated by spaces.
            name: of something that has no `__name__`.
        """

        def register(target: Target) -> Target:
            known_as = name or target.__name__
            if known_as in self._by_name:
                raise ValueError(f"two programs are named {known_as}")
            self._by_name[known_as] = Program(
                known_as,
                target,
                calls,
                graphs,
                breaks,
                tuple(watch.split()),
                every_break,
                tuple(ignore.split()),
            )
            return target

        return register

    def __getitem__(self, name: str) -> Program:
        return self._by_name[name]

    def __iter__(self) -> Iterator[Program]:
        return iter(self._by_name.values())


def floats(*values: float) -> torch.Tensor:
    """A float32 tensor of these values."""
    return torch.tensor([float(x) for x in values])


def leaf(*values: float) -> torch.Tensor:
    """A float32 tensor that requires grad."""
    return floats(*values).requires_grad_()


def grid(*shape: int, start: int = 0) -> torch.Tensor:
    """A float32 tensor of a shape, filled with `start`, `start + 1`, ..."""
    count = torch.Size(shape).numel()
    return torch.arange(start, start + count, dtype=torch.float32).reshape(shape)
