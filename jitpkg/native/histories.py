"""Where a tensor says in memory that it is a leaf, found by trying on tensors of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from jitpkg.internals import tensors
from jitpkg.internals.usual import zeros
from jitpkg.native.memory import place, words_at

_TENSOR = 24
_KNOWN = 20
"""Words that are looked at: each version of PyTorch has as many."""


@dataclass(frozen=True, slots=True)
class Histories:
    """Where what autograd knows of a tensor lies, in bytes."""

    plain: int
    """The C++ class of what autograd knows of a tensor that is no view, as a word."""
    known_at: int
    """In a tensor's C++ object: the address of what autograd knows of it, which begins with its
    class; 0 where that is nothing."""
    node_at: int
    """In what autograd knows: the node of the backward pass that made the tensor; 0 of a leaf."""
    dtype_at: tuple[int, int]
    """Also there: two bytes that are 0 of a leaf that takes gradients of its own dtype."""
    hooks_at: tuple[int, int]
    """In a tensor's Python object: its hooks; 0 where there are none."""


def look() -> Histories | None:
    """Where it is in this process; None where that cannot be told."""
    needed = (tensors.ADDRESS, tensors.BASE, tensors.HOOKS, tensors.HOOKS_BEHIND)
    if any(row.found() is None for row in needed):
        return None
    try:
        with torch.enable_grad():
            return _found()
    except ValueError:
        return None


def _found() -> Histories:
    leaf = zeros(2)
    before = _of_tensor(leaf)
    after = _of_tensor(leaf.requires_grad_())
    known_at = 8 * _only(k for k in range(_TENSOR) if before[k] != after[k])
    first, second = torch.aminmax(leaf)  # one node makes both
    known = [words_at(_known(x, known_at), _KNOWN) for x in (leaf, first, second, leaf * 2)]
    node_at = 8 * min(
        k
        for k, (of_leaf, one, same, another) in enumerate(zip(*known, strict=True))
        if of_leaf == 0 and one == same and len({one, another, 0}) == 3
    )
    return Histories(known[0][0], known_at, node_at, _dtype_at(known_at, node_at), _hooks_at())


def _dtype_at(known_at: int, node_at: int) -> tuple[int, int]:
    """What changes where a leaf is to take gradients of another dtype, or of any."""
    if not hasattr(torch.Tensor, "grad_dtype"):
        return node_at, node_at
    found = []
    for dtype in (torch.float64, None):
        leaf: Any = zeros(2).requires_grad_()
        before = _bytes(_known(leaf, known_at))
        leaf.grad_dtype = dtype
        after = _bytes(_known(leaf, known_at))
        flags = (k for k, was in enumerate(before) if (was, after[k]) == (0, 1))
        found.append(_only(flags))
    return found[0], found[1]


def _hooks_at() -> tuple[int, int]:
    leaf: Any = zeros(2).requires_grad_()
    leaf.register_hook(lambda grad: None)
    leaf.register_post_accumulate_grad_hook(lambda leaf: None)
    first, second = tensors.HOOKS.get()(leaf), tensors.HOOKS_BEHIND.get()(leaf)
    return place(first, leaf), place(second, leaf)


def _of_tensor(tensor: torch.Tensor) -> list[int]:
    return words_at(tensors.ADDRESS.get()(tensor), _TENSOR)


def _known(tensor: torch.Tensor, known_at: int) -> int:
    return words_at(tensors.ADDRESS.get()(tensor) + known_at, 1)[0]


def _bytes(address: int) -> bytes:
    return ctypes.string_at(address, 8 * _KNOWN)


def _only(places: Iterable[int]) -> int:
    (one,) = places
    return one
