"""Ops that read what they write to: eager code may refuse them, functional ops cannot tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from jitpkg.facts.layout import is_dense
from jitpkg.internals import trees
from jitpkg.internals.ops import OpOverload, op_name, schema
from jitpkg.internals.tensors import memory

_BY_INDEX = ("index_", "scatter", "put", "masked_scatter")
"""How the names of ops begin that may not even read just what they write."""


def may_be_refused(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an op writes to a tensor and reads another that lies there, too.

    Eager code refuses that where both are without gaps and are not the same elements in the same
    order: with gaps it cannot tell, and does what it does.

    Args:
        args: of the op, with tensors that need no data.
    """
    if not schema(op).is_mutable:
        return False
    written, read = _operands(op, args, kwargs)
    return any(
        one is not other and _meet(one, other) and not (_alike(one, other) and _takes_alike(op))
        for one in written
        for other in read
    )


def _operands(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The tensors that an op writes to, and all of its tensors."""
    written: list[torch.Tensor] = []
    every: list[torch.Tensor] = []
    for k, argument in enumerate(schema(op).arguments):
        given = args[k] if k < len(args) else kwargs.get(argument.name)
        found = list(_tensors(given))
        every += found
        if argument.alias_info is not None and argument.alias_info.is_write:
            written += found
    return written, every


def _tensors(given: Any) -> Iterator[torch.Tensor]:
    if isinstance(given, torch.Tensor | list | tuple):
        yield from (x for x in trees.leaves_of(given) if isinstance(x, torch.Tensor))


def _meet(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both are without gaps, and lie in part in the same memory."""
    if memory(one) != memory(other) or not one.numel() or not other.numel():
        return False
    (begin, end), (other_begin, other_end) = _bytes(one), _bytes(other)
    if end <= other_begin or other_end <= begin:
        return False
    return all(is_dense(tuple(x.shape), x.stride()) for x in (one, other))


def _bytes(x: torch.Tensor) -> tuple[Any, Any]:
    begin = x.storage_offset() * x.element_size()
    return begin, begin + x.numel() * x.element_size()


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        one.storage_offset() == other.storage_offset()
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.dtype is other.dtype
    )


def _takes_alike(op: OpOverload) -> bool:
    """Whether an op may read the elements that it writes."""
    name = op_name(op).rpartition("::")[2].lstrip("_")
    if name.startswith(_BY_INDEX):
        return False
    given = schema(op).arguments
    return not any(each.name == "out" for each in given) or torch.Tag.pointwise in op.tags
