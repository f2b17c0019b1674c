"""What earlier traces of a region were built for: what differs from it now is made to vary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from jitpkg.guards.sources import Attr, Input, Source
from jitpkg.marks import DYNAMIC_DIMS, STATIC_DIMS


@dataclass
class History:
    """Sizes and numbers by their path, and which of them have been seen to vary.

    `dynamic` is as torch.compile's: True makes everything vary at once, False nothing ever. Unless
    `automatic`, only what a tensor is marked with varies by itself.
    """

    dynamic: bool | None = None
    automatic: bool = True
    named: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    """Dims of arguments that vary from the first call on, by name; None for a number."""
    _sizes: dict[Source, tuple[int, ...]] = field(default_factory=dict)
    _varying_dims: dict[Source, set[int]] = field(default_factory=dict)
    _numbers: dict[Source, int | float] = field(default_factory=dict)
    _varying: set[Source] = field(default_factory=set)

    def dims(self, source: Source, tensor: torch.Tensor) -> frozenset[int]:
        """The dims of a tensor whose sizes vary; those of parameters never do."""
        size = tuple(tensor.shape)
        marked: frozenset[int] = getattr(tensor, DYNAMIC_DIMS, frozenset())
        static: frozenset[int] = getattr(tensor, STATIC_DIMS, frozenset())
        if isinstance(tensor, torch.nn.Parameter):
            return frozenset(marked)
        if self.dynamic is False:
            return frozenset(marked - static)
        before = self._sizes.setdefault(source, size)
        varying = self._varying_dims.setdefault(source, set())
        if self.automatic and len(before) == len(size):
            varying.update(k for k, n in enumerate(size) if n != before[k])
        self._sizes[source] = size
        found = range(len(size)) if self.dynamic else varying | (self._named(source) or set())
        return frozenset(
            k for k in {*found, *marked} - static if k < len(size) and size[k] not in (0, 1)
        )

    def varies(self, source: Source, number: int | float) -> bool:
        """Whether a number is another one on each call: 0 and 1 are always taken as they are."""
        if self.dynamic is False or (isinstance(source, Attr) and source.name == "cell_contents"):
            return False
        if isinstance(number, int):
            before = self._numbers.setdefault(source, number)
            if self.automatic and type(before) is int and before != number:
                self._varying.add(source)
            self._numbers[source] = number
            if number in (0, 1) or abs(number) >= _LARGE:
                return False
            return source in self._varying or self.dynamic is True or self._named(source) is None
        before = self._numbers.setdefault(source, number)
        if self.automatic and type(before) is float and before != number:
            self._varying.add(source)
        self._numbers[source] = number
        return math.isfinite(number) and source in self._varying

    def _named(self, source: Source) -> frozenset[int] | None:
        return self.named.get(source.name, _NO_DIMS) if isinstance(source, Input) else _NO_DIMS


_NO_DIMS: frozenset[int] = frozenset()

_LARGE = 1 << 31
"""Numbers from here on are no sizes, and are taken as they are."""
