"""Random numbers inside of kernels, for those who ask for them: eager code's stream is another.

They are rows as all others, with a `Stream` besides; calls with a generator of their own, and those
that ATen refuses, are left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.codegen.aten.writes import draw
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import INDEX
from jitpkg.codegen.lowering.calls import Lowered, bound, result_of
from jitpkg.codegen.lowering.creation import asked_dtype
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.philox import Stream, Words, exponential, happens, normal, uniform
from jitpkg.codegen.lowering.table import Lowering, NotLowered, Row, Tensor, named, require
from jitpkg.internals.ops import OpOverload

aten = torch.ops.aten

Element = Callable[[Words, torch.dtype], Expr]
"""Of the words of its position, and the dtype of the tensor."""


def lower_random(
    k: Lowering,
    stream: Stream,
    target: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    facts: Any,
) -> Lowered:
    """The results of a call that draws random numbers, as definitions.

    Raises:
        NotLowered: the call is to be left to ATen.
    """
    if target is draw:
        name, size, _, dtype, *rest = args
        op, distribution = _METHODS.get(name, (None, None))
        if op is None or distribution is None:
            raise NotLowered(f"{name} has no lowering")
        (_, *numbers), by_name = _bound(op, (None, *rest), kwargs)
        element = distribution(*numbers)
        return result_of(lambda: _filled(k, stream, size, dtype, element), target, facts)
    row = _row_of(target) if isinstance(target, OpOverload) else None
    if row is None or not isinstance(target, OpOverload):
        raise NotLowered(f"{target} has no lowering")
    positional, by_name = _bound(target, args, kwargs)
    return result_of(lambda: row(k, stream, *positional, **by_name), target, facts)


def _row_of(target: OpOverload) -> Row | None:
    namespace, _, name = str(target).partition(".")
    return ROWS.get(name.removesuffix(".default")) if namespace == "aten" else None


def _bound(
    target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    positional, by_name = bound(target, args, kwargs)
    require(by_name.pop("generator", None) is None, "a generator of one's own")
    by_name.pop("memory_format", None)
    return positional, by_name


def _filled(
    k: Lowering, stream: Stream, sizes: Sequence[int], dtype: torch.dtype, element: Element
) -> Tensor:
    sizes = tuple(sizes)
    require(dtype in ops.EVERY, f"{dtype} is left to ATen")
    return k.define(sizes, dtype, lambda *at: element(stream.words(sizes, at), dtype))


# Distributions: an element by its words


def _require_float(dtype: torch.dtype) -> None:
    require(dtype.is_floating_point, "random numbers of integers")


def _uniform(start: float = 0.0, end: float = 1.0) -> Element:
    def element(words: Words, dtype: torch.dtype) -> Expr:
        _require_float(dtype)
        require(0 <= end - start <= torch.finfo(dtype).max, "no such range")
        made = uniform(words, dtype)
        return made if (start, end) == (0, 1) else made * (end - start) + start

    return element


def _normal(mean: float = 0.0, deviation: float = 1.0) -> Element:
    require(deviation >= 0, "a negative deviation")

    def element(words: Words, dtype: torch.dtype) -> Expr:
        _require_float(dtype)
        made = normal(words, dtype)
        return made if (mean, deviation) == (0, 1) else made * deviation + mean

    return element


def _exponential(rate: float = 1.0) -> Element:
    require(rate > 0, "a rate that is not positive")

    def element(words: Words, dtype: torch.dtype) -> Expr:
        _require_float(dtype)
        return exponential(words, dtype) / rate

    return element


def _bernoulli(chance: float = 0.5) -> Element:
    require(0 <= chance <= 1, "a chance that is none")
    return lambda words, dtype: happens(words, chance)


_METHODS: Mapping[str, tuple[OpOverload, Callable[..., Element]]] = MappingProxyType(
    {
        "bernoulli_": (aten.bernoulli_.float, _bernoulli),
        "uniform_": (aten.uniform_.default, _uniform),
        "normal_": (aten.normal_.default, _normal),
        "exponential_": (aten.exponential_.default, _exponential),
    }
)
"""What fills a tensor: the op whose arguments it takes, and the distribution of these."""


# Rows


def _of_sizes(distribution: Callable[[], Element]) -> Row:
    def row(k: Lowering, stream: Stream, sizes: Sequence[int], **given: Any) -> Tensor:
        dtype = asked_dtype(k, given, torch.get_default_dtype())
        return _filled(k, stream, sizes, dtype, distribution())

    return row


def _like(distribution: Callable[[], Element]) -> Row:
    def row(k: Lowering, stream: Stream, x: Tensor, **given: Any) -> Tensor:
        return _filled(k, stream, x.sizes, asked_dtype(k, given, x.dtype), distribution())

    return row


def _in_place_of(distribution: Callable[..., Element]) -> Row:
    def row(k: Lowering, stream: Stream, x: Tensor, *numbers: float) -> Tensor:
        return _filled(k, stream, x.sizes, x.dtype, distribution(*numbers))

    return row


def _normal_of_numbers(
    k: Lowering, stream: Stream, mean: float, deviation: float, sizes: Sequence[int], **given: Any
) -> Tensor:
    dtype = asked_dtype(k, given, torch.get_default_dtype())
    return _filled(k, stream, sizes, dtype, _normal(mean, deviation))


def _integers(
    k: Lowering, stream: Stream, start: int, end: int, sizes: Sequence[int], **given: Any
) -> Tensor:
    """The upper bits of a product: each within `2**-32` of being as likely as the others."""
    if not isinstance(given["dtype"], torch.dtype):  # the schema has a number for int64
        given["dtype"] = INDEX
    dtype = asked_dtype(k, given, INDEX)
    require(start < end and end - start <= 1 << 24, "a large range")
    ends = torch.iinfo(dtype) if dtype in ops.INTEGERS else None
    require(ends is not None and ends.min <= start and end - 1 <= ends.max, f"{dtype}")

    def element(words: Words, _: torch.dtype) -> Expr:
        return (words[0] * (end - start)).apply("shr", 32) + start

    return _filled(k, stream, sizes, dtype, element)


def _dropout(
    k: Lowering, stream: Stream, x: Tensor, p: float, train: bool | None
) -> tuple[Tensor, Tensor]:
    require(train is not False and 0 < p < 1 and x.dtype.is_floating_point, "nothing to draw")
    mask = _filled(k, stream, x.sizes, torch.bool, _bernoulli(1 - p))
    scaled = k.pointwise(lambda a, m: a * m, [x, mask], x.dtype)
    return k.pointwise(lambda a: a * (1 / (1 - p)), [scaled], x.dtype), mask


ROWS: Mapping[str, Row] = named(
    {
        "rand": _of_sizes(_uniform),
        "rand_like": _like(_uniform),
        "randn": _of_sizes(_normal),
        "randn_like": _like(_normal),
        "bernoulli.p": _in_place_of(_bernoulli),
        "uniform": _in_place_of(_uniform),
        "normal_functional": _in_place_of(_normal),
        "exponential": _in_place_of(_exponential),
        "normal.float_float": _normal_of_numbers,
        "randint": lambda k, stream, end, *rest, **given: _integers(
            k, stream, 0, end, *rest, **given
        ),
        "randint.low": _integers,
        "native_dropout": _dropout,
    }
)
"""By the name of an overload."""
