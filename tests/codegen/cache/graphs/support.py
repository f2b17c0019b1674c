"""What a new process does with a cache of this one."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

import jitpkg
from jitpkg.codegen import backend as own
from jitpkg.codegen import cache


class Process:
    """Runs functions as one process after the other would, on one cache."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.made: list[str] = []
        """The graphs that were not found."""
        monkeypatch.setenv("JITPKG_CACHE_DIR", str(place))
        for name in ("prepare", "_through_aot"):
            monkeypatch.setattr(own, name, self._noting(getattr(own, name)))

    def _noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(gm: fx.GraphModule, *rest: Any, **named: Any) -> Any:
            self.made.append(type(gm).__name__)
            return function(gm, *rest, **named)

        return noting

    def begins(self) -> None:
        cache.kernels.cache_clear()
        self.made.clear()

    def compiled(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """The function as a new process compiles it."""
        self.begins()
        return jitpkg.compile(function, backend="jitpkg", **options)


def filled(*size: int) -> torch.Tensor:
    """The same numbers each time."""
    count = torch.Size(size).numel()
    return torch.linspace(-2, 2, count).reshape(size) if count else torch.zeros(size)


def same(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Tensors are close, and all else is equal."""
    for one, other in zip(found, wanted, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other)
        else:
            assert one == other
