"""What earlier traces of a region were built for: what differs from it now is made to vary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from types import CodeType

import torch

from jitpkg.dataclass import dataclass
from jitpkg.facts import sizes
from jitpkg.facts.sizes import Length
from jitpkg.facts.tensor import (
    TensorFacts,
    inner_first,
    is_idle,
    size_of,
    stride_of,
    strides_in_terms_of,
)
from jitpkg.guards.sources import Input, Source
from jitpkg.marks import DYNAMIC_DIMS, STATIC_DIMS, Dims

Sizes = tuple[int, ...]


@dataclass
class _Seen:
    """The last tensor of one kind on a path, and the dims in which it was not what that made
    expect."""

    size: Sizes
    stride: Sizes
    varying: set[int] = field(default_factory=set)


@dataclass
class History:
    """Sizes, strides and numbers by their path, and which of them have been seen to vary.

    `dynamic` is as torch.compile's: True makes everything vary at once, False nothing ever. Unless
    `automatic`, only what a tensor is marked with varies by itself.
    """

    dynamic: bool | None = None
    automatic: bool = True
    is_new: bool = True
    """Whether no call has been looked at yet, or traced."""
    named: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    """Dims of arguments that vary from the first call on, by name; None for a number."""
    missed: set[tuple[CodeType, int]] = field(default_factory=set)
    """Branches on data for which a wrong guess was made too often: see `guesses`."""
    usual: dict[tuple[CodeType, int], bool] = field(default_factory=dict)
    """The truths that have decided such branches again and again."""
    _sizes: dict[Source, _Seen] = field(default_factory=dict)
    _strides: dict[tuple[Source, Sizes], _Seen] = field(default_factory=dict)
    """By path and by which dims have 0 or 1 elements: there strides mean something else."""
    _numbers: dict[Source, int | float] = field(default_factory=dict)
    _varying: set[Source] = field(default_factory=set)
    _begins: dict[Source, int] = field(default_factory=dict)
    _identities: dict[Source, set[int]] = field(default_factory=dict)

    def dims(self, source: Source, tensor: torch.Tensor, facts: TensorFacts) -> Dims:
        """In which dims a tensor varies; a parameter does not."""
        marked = frozenset(getattr(tensor, DYNAMIC_DIMS, ()))
        static: frozenset[int] = getattr(tensor, STATIC_DIMS, frozenset())
        if isinstance(tensor, torch.nn.Parameter):
            return Dims(marked)
        if self.dynamic is False:
            return Dims(marked - static)
        size = size_of(facts)
        seen = self._sizes.setdefault(source, _Seen(size, ()))
        if self.automatic and len(seen.size) == len(size):
            seen.varying.update(k for k, n in enumerate(size) if n != seen.size[k])
        seen.size = size
        found = range(len(size)) if self.dynamic else seen.varying | (self._named(source) or set())
        vary = ({*found, *marked} - static) & {k for k, n in enumerate(size) if n not in (0, 1)}
        return Dims(frozenset(vary), self._own_strides(source, facts))

    def _own_strides(self, source: Source, facts: TensorFacts) -> frozenset[int]:
        """The dims of which the stride varies, and does not follow from the sizes.

        A stride of 0 or 1 is taken as it is, like such a size, unless it says nothing.
        """
        size, stride = size_of(facts), stride_of(facts)
        key = source, tuple(min(n, 2) for n in size)
        seen = self._strides.setdefault(key, _Seen(size, stride))
        before = {f"n{k}": n for k, n in enumerate(seen.size)}
        before |= {f"s{k}": step for k, step in enumerate(seen.stride)}
        lengths = [sizes.symbol(f"n{k}") if n > 1 else n for k, n in enumerate(size)]
        own: dict[int, Length] = {}
        for dim in inner_first(stride):
            follows = sizes.of(strides_in_terms_of(facts, lengths, own)[dim])
            if self.automatic and follows.value(before) != seen.stride[dim]:
                seen.varying.add(dim)
            varies = dim in seen.varying or (self.dynamic and follows.constant not in _PLAIN)
            if varies and (is_idle(size, dim) or stride[dim] not in (0, 1)):
                own[dim] = sizes.symbol(f"s{dim}")
        seen.size, seen.stride = size, stride
        return frozenset(own)

    def varies(self, source: Source, number: int | float) -> bool:
        """Whether a number is another one on each call."""
        before = self._numbers.get(source)
        self._numbers[source] = number
        usual = abs(number) < _LARGE if isinstance(number, int) else math.isfinite(number)
        if self.dynamic is False or not usual:
            return False
        if self.automatic and type(before) is type(number) and before != number:
            self._varying.add(source)
        if source in self._varying:
            return True
        is_marked = self.dynamic is True or self._named(source) is None
        return is_marked and number not in (0, 1)  # which may be a yes or no

    def begins(self, source: Source, position: int) -> bool:
        """Whether an iterator that is found there stands where it always did."""
        return self._begins.setdefault(source, position) == position

    def is_one_of_few(self, source: Source, obj: object) -> bool:
        """Whether what is found there is one of a few objects, and not another one each time."""
        seen = self._identities.setdefault(source, set())
        if len(seen) < _FEW:
            seen.add(id(obj))
        return id(obj) in seen

    def _named(self, source: Source) -> frozenset[int] | None:
        return self.named.get(source.name, _NO_DIMS) if isinstance(source, Input) else _NO_DIMS


_NO_DIMS: frozenset[int] = frozenset()

_PLAIN = (None, 0, 1)
"""A stride that is made of sizes, or one that is taken as it is."""

_FEW = 4

_LARGE = 1 << 31
"""Numbers from here on are no sizes, and are taken as they are."""
