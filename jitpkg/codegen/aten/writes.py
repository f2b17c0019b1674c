"""Ops that write to their first argument, as ops that return a new value of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.codegen.aten.traced import Declined
from jitpkg.facts.layout import broadcast, is_dense
from jitpkg.facts.outcome import HIDDEN_WRITES
from jitpkg.facts.tensor import TensorFacts, size_of, stride_of
from jitpkg.internals import Row, ops
from jitpkg.internals.ops import OpOverload, op_name, overload_name, schema
from jitpkg.native import mersenne

aten = torch.ops.aten
Op = OpOverload

Instead = tuple[Op, tuple[Any, ...], Mapping[str, Any], bool]
"""An op, its arguments, and whether its result is written whatever kind of number it is."""


def without_writing(func: Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Instead | None:
    """What gives the value that an op writes to its first argument; None if nothing is known to."""
    name = op_name(func).removeprefix("aten::")
    if "out" in kwargs or not _writes_only_to_first(func):
        return None
    if name == "copy_":
        return aten.copy.default, tuple(args[:2]), {}, True
    if name == "zero_":
        return aten.full_like.default, (args[0], 0), {}, True
    if name == "fill_":
        if isinstance(args[1], torch.Tensor):
            return aten.copy.default, (args[0], args[1]), {}, True
        return aten.full_like.default, (args[0], args[1]), {}, True
    if not name.endswith("_") or _OTHERWISE & set(func.tags):
        return None
    packet = getattr(aten, name[:-1], None)
    overload: Op | None = getattr(packet, overload_name(func), None)
    if overload is None or schema(overload).is_mutable:
        return None
    return overload, tuple(args), dict(kwargs), False


def _writes_only_to_first(func: Op) -> bool:
    first, *rest = schema(func).arguments
    return first.is_write and not any(argument.is_write for argument in rest)


_OTHERWISE = {torch.Tag.nondeterministic_seeded, torch.Tag.inplace_view}
"""Of other ops, `add_` writes what `add` returns, converted to the type of what it writes to."""


def draw(
    name: str,
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype,
    *args: Any,
    **kwargs: Any,
) -> torch.Tensor:
    """Random numbers as the method of this name writes them to a tensor of this layout.

    ATen's own functional forms draw in another order where the layout is not the usual one.
    """
    made: torch.Tensor = torch.empty_strided(size, stride, dtype=dtype)
    if name == "bernoulli_" and not kwargs and mersenne.bernoulli_(made, *args):
        return made
    getattr(made, name)(*args, **kwargs)
    return made


def drawn(func: Op, facts: TensorFacts, args: Sequence[Any]) -> tuple[Any, ...] | None:
    """Arguments of `draw` for an op that fills a tensor with random numbers; None for others."""
    name = op_name(func).removeprefix("aten::")
    if name not in _DRAWING or any(isinstance(arg, torch.Tensor) for arg in args[1:]):
        return None
    if not is_dense(size_of(facts), stride_of(facts)):
        return None
    return (name, facts.size, facts.stride, facts.dtype, *args[1:])


_DRAWING = frozenset({"bernoulli_", "uniform_", "normal_", "exponential_", "random_"})


def hidden_writes(func: Op, args: Sequence[Any]) -> tuple[Op, Sequence[int]] | None:
    """For an op that writes to arguments although its schema does not say so: the op that returns
    their new values behind its results, and which arguments these are."""
    training = HIDDEN_WRITES.get(op_name(func))
    if training is None or not args[training] or args[3] is None:
        return None
    return _FUNCTIONAL_NORM[op_name(func)].get(), STATISTICS


STATISTICS = (3, 4)
"""Where a batch norm has them among its arguments. Their new values are its last results where it
returns them."""
_FUNCTIONAL_NORM: Mapping[str, Row[Op]] = MappingProxyType(
    {"aten::native_batch_norm": ops.FUNCTIONAL_BATCH_NORM}
)


def check_copy(target: TensorFacts, source: Any) -> None:
    """
    Raises:
        Declined: `target.copy_(source)` raises or warns.
    """
    if not isinstance(source, torch.Tensor):
        raise Declined("a copy of what is no tensor")
    if broadcast([size_of(target), tuple(source.shape)]) != target.size:
        raise Declined("a copy of another size: eager code refuses it")
    if source.dtype.is_complex and not target.dtype.is_complex:
        raise Declined("a copy that warns")
