"""Where a tensor says in memory that it is a leaf, found by trying on tensors of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from jitpkg.dataclass import dataclass
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
    known_at = 8 * _always(_changed_by_a_history)
    node_at = 8 * _always(partial(_nodes, known_at))
    flags = (node_at, node_at)
    if hasattr(torch.Tensor, "grad_dtype"):
        of_another, of_any = (partial(_flags, known_at, each) for each in (torch.float64, None))
        flags = (_always(of_another), _always(of_any))
    leaf = _leaf()
    (plain,) = words_at(_known(leaf, known_at), 1)
    return Histories(plain, known_at, node_at, flags, _hooks_at())


_TRIALS = 8


def _always(places: Callable[[list[torch.Tensor]], set[int]]) -> int:
    """The one place that is found each time: what nobody has written to yet, such as the end of a
    text, may look like anything. The tensors live on, so that others lie elsewhere.

    What counts those who hold a node may be next to it.

    Raises:
        ValueError: there are several, or none.
    """
    alive: list[torch.Tensor] = []
    found = set.intersection(*(places(alive) for _ in range(_TRIALS)))
    (one,) = (k for k in found if k - 1 not in found)
    return one


def _leaf() -> torch.Tensor:
    return zeros(2).requires_grad_()


def _changed_by_a_history(alive: list[torch.Tensor]) -> set[int]:
    leaf = zeros(2)
    alive.append(leaf)
    before = _of_tensor(leaf)
    after = _of_tensor(leaf.requires_grad_())
    return {k for k in range(_TENSOR) if before[k] == 0 != after[k]}


def _nodes(known_at: int, alive: list[torch.Tensor]) -> set[int]:
    leaf = _leaf()
    first, second = torch.aminmax(leaf)  # one node makes both
    alive += [leaf, first, second, leaf * 2]
    known = [words_at(_known(x, known_at), _KNOWN) for x in alive[-4:]]
    return {
        k
        for k, (of_leaf, one, same, another) in enumerate(zip(*known, strict=True))
        if of_leaf == 0 and one == same and len({one, another, 0}) == 3
    }


def _flags(known_at: int, dtype: torch.dtype | None, alive: list[torch.Tensor]) -> set[int]:
    """What changes where a leaf is to take gradients of another dtype, or of any."""
    leaf: Any = _leaf()
    alive.append(leaf)
    before = _bytes(_known(leaf, known_at))
    leaf.grad_dtype = dtype
    after = _bytes(_known(leaf, known_at))
    return {k for k, was in enumerate(before) if (was, after[k]) == (0, 1)}


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
