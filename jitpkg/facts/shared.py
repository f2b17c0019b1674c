"""Ops that read what they write to, or memory that may not be there: eager code may refuse them,
functional ops cannot tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import torch

from jitpkg.facts.outcome import HIDDEN_WRITES
from jitpkg.facts.tensor import TensorFacts
from jitpkg.internals import trees
from jitpkg.internals.ops import OpOverload, op_name, schema
from jitpkg.internals.tensors import BASE, memory

_BY_INDEX = ("index_", "scatter", "put", "masked_scatter")
"""How the names of ops begin that may not even read just what they write."""
_NORMS = ("batch_norm", "instance_norm")
"""What the names of ops have that update statistics."""


def may_be_left_half_done(name: str, args: Sequence[Any]) -> bool:
    """Whether an op that writes to a tensor may have written a part of it when it raises: places
    that come out of data are looked at one after the other; a norm updates its statistics before it
    looks at its weight.

    Args:
        name: of the function.
        args: of the call, with facts of tensors.
    """
    if name.strip("_") != "setitem":
        return name.startswith(_BY_INDEX) or any(norm in name for norm in _NORMS)
    places = (x for x in trees.leaves_of(args[1]) if isinstance(x, TensorFacts))
    return any(x.dtype is not torch.bool for x in places)


def may_be_refused(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an op writes to a tensor and reads another that lies there, too, or shows memory that
    may not be there.

    Eager code refuses that where both are without gaps and are not the same elements in the same
    order. With gaps it cannot tell, and may read what it has just written; so may an op that writes
    to several tensors, as a norm that updates its statistics before it reads its weight.

    Args:
        args: of the op, with tensors that need no data.
    """
    if op_name(op).startswith("aten::as_strided"):
        return not _lies_within(args[0], _arguments(op, args, kwargs))
    written = _written(op, args)
    if not written:
        return False
    takes_alike = len(written) == 1 and _takes_alike(op)
    operands = [
        (x, name in written)
        for name, given in _arguments(op, args, kwargs).items()
        for x in _tensors(given)
    ]
    return any(
        _meet(one, other) and not (takes_alike and _alike(one, other) and not both_written)
        for (one, is_written), (other, both_written) in permutations(operands, 2)
        if is_written
    )


def _arguments(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """An op's arguments by name; None for those that were not given."""
    names = [argument.name for argument in schema(op).arguments]
    return {name: args[k] if k < len(args) else kwargs.get(name) for k, name in enumerate(names)}


def _lies_within(x: torch.Tensor, given: Mapping[str, Any]) -> bool:
    """Whether `as_strided` shows nothing beyond the elements of `x` and what it is a view of."""
    size, offset = given["size"], given["storage_offset"]
    if 0 in size:
        return True
    first = x.storage_offset() if offset is None else offset
    last = first + sum((n - 1) * step for n, step in zip(size, given["stride"], strict=True))
    shown = BASE.get()(x)
    base = x if shown is None else shown
    begin = base.storage_offset() * base.element_size()
    end = begin + _span(base) if base.numel() else begin
    return bool(begin <= first * x.element_size() and (last + 1) * x.element_size() <= end)


def _written(op: OpOverload, args: Sequence[Any]) -> list[str]:
    """The arguments that an op writes to."""
    arguments = schema(op).arguments
    training = HIDDEN_WRITES.get(op_name(op))
    if training is not None and args[training]:
        return [argument.name for argument in arguments[3:5]]
    return [argument.name for argument in arguments if argument.is_write]


def _tensors(given: Any) -> Iterator[torch.Tensor]:
    if isinstance(given, torch.Tensor | list | tuple):
        yield from (x for x in trees.leaves_of(given) if isinstance(x, torch.Tensor))


def _meet(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both may have an element in the same memory, or are one tensor: eager code does not
    look whether that has elements."""
    if one is other:
        return True
    if memory(one) != memory(other) or not one.numel() or not other.numel():
        return False
    begin, other_begin = (x.storage_offset() * x.element_size() for x in (one, other))
    if begin + _span(one) <= other_begin or other_begin + _span(other) <= begin:
        return False
    return not any(_apart(one, other, period) for period in (*_steps(one), *_steps(other)))


def _steps(x: torch.Tensor) -> Iterator[Any]:
    """How many bytes it is from one element to the next, in each dim that has more than one."""
    steps = zip(x.shape, x.stride(), strict=True)
    return (step * x.element_size() for size, step in steps if size > 1 and step > 0)


def _span(x: torch.Tensor, period: Any = None) -> Any:
    """The bytes from its first element to the end of its last; of those within a period."""
    lengths = zip(x.shape, x.stride(), strict=True)
    within = (
        (size - 1) * step * x.element_size()
        for size, step in lengths
        if period is None or step * x.element_size() % period
    )
    return sum(within) + x.element_size()


def _apart(one: torch.Tensor, other: torch.Tensor, period: Any) -> bool:
    """Whether they lie in different parts of each period, as columns of a matrix do."""
    begin, other_begin = (x.storage_offset() * x.element_size() % period for x in (one, other))
    span, other_span = _span(one, period), _span(other, period)
    if other_begin < begin:
        begin, span, other_begin, other_span = other_begin, other_span, begin, span
    return bool(begin + span <= other_begin and other_begin + other_span <= begin + period)


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
