"""From a call of an ATen overload to definitions: finds the row, and checks what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import torch

from jitpkg import config
from jitpkg.codegen.ir.builder import IllegalNode
from jitpkg.codegen.ir.extents import Symbolic
from jitpkg.codegen.lowering import (
    activations,
    comparison,
    creation,
    dtypes,
    indexing,
    joining,
    losses,
    normalization,
    pointwise,
    pooling,
    products,
    reductions,
    scans,
    views,
)
from jitpkg.codegen.lowering.products import PRODUCTS
from jitpkg.codegen.lowering.table import (
    Lowering,
    NotLowered,
    Result,
    Row,
    Scattered,
    Tensor,
    joined,
    require,
)
from jitpkg.errors import InternalError
from jitpkg.internals.ops import OpOverload, schema

ROWS: Mapping[str, Row] = joined(
    pointwise.ROWS,
    comparison.ROWS,
    activations.ROWS,
    reductions.ROWS,
    normalization.ROWS,
    views.ROWS,
    joining.ROWS,
    creation.ROWS,
    indexing.ROWS,
    scans.ROWS,
    pooling.ROWS,
    losses.ROWS,
    products.ROWS,
)
"""By the name of an overload (`max.dim`); a name alone is for the usual overloads."""

USUAL = frozenset({"default", "Tensor", "Scalar", "self", "int"})
"""The overloads that a row under the op's name alone is for."""

Lowered = Tensor | Scattered | tuple[Result, ...]
"""The results of a call."""


class Facts(Protocol):
    """What is known of a result."""

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def size(self) -> Sequence[Any]: ...


def lower(
    k: Lowering,
    target: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    facts: Facts | Sequence[Facts | None] | None = None,
) -> Lowered:
    """The results of a call, as definitions. Lists of tensors are returned as tuples.

    Args:
        args: the call's own, with a `Tensor` for each tensor.
        facts: what is known of the results. All of them are on `k.device`, as the operands are.

    Raises:
        NotLowered: the call is to be left to ATen.
        InternalError: a row is wrong, under `JITPKG_STRICT=1` only.
    """
    row = row_of(target)
    if row is None:
        raise NotLowered(f"{target} has no lowering")
    positional, named = bound(target, args, kwargs)
    require(all(map(_is_plain, (*positional, *named.values()))), "symbolic or complex numbers")
    dtypes.check(_name(target), positional)
    return result_of(lambda: row(k, *positional, **named), target, facts)


def result_of(call: Callable[[], Any], target: Callable[..., Any], facts: Any) -> Lowered:
    """What a row returns, if that is what the call is known to return.

    Raises:
        NotLowered: the call is to be left to ATen.
        InternalError: a row is wrong, under `JITPKG_STRICT=1` only.
    """
    try:
        made = call()
        if isinstance(made, list):
            made = tuple(made)
        if facts is not None:
            _compare(target, made, facts)
    except (IllegalNode, InternalError) as error:
        if config.strict:
            raise InternalError(f"the lowering of {target} is wrong: {error}") from error
        raise NotLowered(str(error)) from error
    return made  # type: ignore[no-any-return]


@cache
def row_of(target: OpOverload) -> Row | None:
    """The row of an overload."""
    namespace, _, name = str(target).partition(".")
    if namespace != "aten" or schema(target).is_mutable:
        return None
    if name in ROWS:
        return ROWS[name]
    name, _, overload = name.partition(".")
    return ROWS.get(name) if overload in USUAL else None


def is_lowered(target: OpOverload) -> bool:
    """Whether an overload has a row."""
    return row_of(target) is not None


def is_fused(target: object) -> bool:
    """Whether an op becomes kernels, whatever its arguments are: products do for few."""
    return isinstance(target, OpOverload) and is_lowered(target) and _name(target) not in PRODUCTS


@cache
def _name(target: OpOverload) -> str:
    return str(target).split(".")[1]


@cache
def _parameters(target: OpOverload) -> tuple[tuple[str, bool, bool, Any], ...]:
    """Name, whether by name only, whether there is a default, and that."""
    return tuple(
        (each.name, each.kwarg_only, each.has_default_value(), each.default_value)
        for each in schema(target).arguments
    )


def bound(
    target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """All arguments by the schema: those by position, and those by name only."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for place, (name, by_name, has_default, default) in enumerate(_parameters(target)):
        if not by_name and place < len(args):
            value = args[place]
        elif name in kwargs:
            value = kwargs[name]
        elif has_default:
            value = default
        else:
            raise NotLowered(f"{target} lacks {name}")
        if by_name:
            named[name] = value
        else:
            positional.append(value)
    return positional, named


_PLAIN = (Tensor, bool, int, float, str, torch.dtype, torch.device, torch.layout)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (*_PLAIN, Symbolic, torch.memory_format))


def _compare(target: Callable[..., Any], made: Any, facts: Any) -> None:
    """
    Raises:
        InternalError: the results are not what they must be.
    """
    if isinstance(made, tuple):
        known = (facts,) if hasattr(facts, "dtype") else tuple(facts)
        if len(known) != len(made):
            raise InternalError(f"{target} has {len(known)} results, and {len(made)} are made")
        pairs = list(zip(made, known, strict=True))
    else:
        pairs = [(made, facts)]
    for one, fact in pairs:
        if one is None or fact is None:
            continue
        if one.dtype is not fact.dtype or tuple(one.sizes) != tuple(fact.size):
            raise InternalError(
                f"{target} returns {fact.dtype} {list(fact.size)}, "
                f"not {one.dtype} {list(one.sizes)}"
            )
