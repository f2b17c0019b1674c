"""Hypothesis strategies for what functions are called with, and for whole programs.

    @given(tensors(), structures())
    def test_mine(x, arguments):
        assert_same(mine, x, arguments)

Sizes include 0 and 1; tensors may be strided, be views, share memory, require grad. Values are
small whole numbers, halves and, where asked for, the odd ones: that is where kernels agree bit for
bit, and where an error shows.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from jitpkg.testing.programs.choices import Drawn
from jitpkg.testing.programs.grammar import Grammar
from jitpkg.testing.programs.program import Program
from jitpkg.testing.programs.writing import GRAMMAR, written

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DTYPES = (*FLOATS, *INTEGERS, torch.bool, torch.complex64)


def dtypes(among: Sequence[torch.dtype] = DTYPES) -> SearchStrategy[torch.dtype]:
    """A dtype; the first of them is the simplest."""
    return st.sampled_from(among)


def shapes(
    *, min_dims: int = 0, max_dims: int = 3, min_size: int = 0, max_size: int = 4
) -> SearchStrategy[tuple[int, ...]]:
    """The sizes of a tensor, with 0 and 1 among them."""
    sizes = st.integers(min_size, max_size) | st.sampled_from([max(1, min_size), min_size])
    return st.lists(sizes, min_size=min_dims, max_size=max_dims).map(tuple)


@st.composite
def layouts(draw: DrawFn, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Strides for a shape, and an offset: any order of dimensions, with gaps, or expanded."""
    order = draw(st.permutations(range(len(shape))))
    strides, step = [0] * len(shape), 1
    for dim in order:
        gap = draw(st.sampled_from([1, 1, 1, 2]))
        strides[dim] = step * gap
        step *= max(shape[dim], 1) * gap
    for dim, size in enumerate(shape):
        if size > 1 and draw(st.integers(0, 9)) == 9:
            strides[dim] = 0
    return tuple(strides), draw(st.sampled_from([0, 0, 0, 1, 2]))


@st.composite
def tensors(
    draw: DrawFn,
    /,
    *,
    dtype: SearchStrategy[torch.dtype] | torch.dtype | None = None,
    shape: SearchStrategy[tuple[int, ...]] | tuple[int, ...] | None = None,
    requires_grad: bool | None = None,
    contiguous: bool = False,
    odd_values: bool = False,
    device: torch.device | str | None = None,
) -> torch.Tensor:
    """A tensor.

    Args:
        dtype: one, or a strategy of them; all of `DTYPES` by default.
        shape: one, or a strategy of them; `shapes()` by default.
        requires_grad: by default, of some tensors that can.
        contiguous: without other strides than these.
        odd_values: infinities, NaN and -0.0 among the values, and the largest and least integers.
        device: the default device by default.
    """
    of: torch.dtype = _drawn(draw, dtypes() if dtype is None else dtype)
    sizes: tuple[int, ...] = _drawn(draw, shapes() if shape is None else shape)
    dense = st.just((_dense(sizes), 0))
    strides, offset = draw(dense if contiguous else dense | layouts(sizes))
    needed = offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if n)
    memory = _memory(draw(st.integers(0, 999)), needed, of, odd_values=odd_values).to(device)
    tensor = torch.empty(0, dtype=of, device=memory.device)
    tensor.set_(memory.untyped_storage(), offset, sizes, strides)
    tensor = tensor.data  # which was never written to
    can = of.is_floating_point or of.is_complex
    if can and (draw(st.booleans()) if requires_grad is None else requires_grad):
        tensor.requires_grad_()
    return tensor


def _drawn(draw: DrawFn, value: Any) -> Any:
    return draw(value) if isinstance(value, SearchStrategy) else value


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = itertools.accumulate((max(n, 1) for n in reversed(shape)), int.__mul__, initial=1)
    return tuple(steps)[: len(shape)][::-1]


_ODD = (float("nan"), float("inf"), float("-inf"), -0.0)


def _memory(seed: int, count: int, dtype: torch.dtype, *, odd_values: bool) -> torch.Tensor:
    """So many values, the same for the same seed; no random stream is touched."""
    numbers = [((seed + 1) * (k * k + 3 * k + 7) * 2654435761 >> 7) % 17 - 8 for k in range(count)]
    if dtype == torch.bool:
        return torch.tensor([n % 2 == 0 for n in numbers])
    if not (dtype.is_floating_point or dtype.is_complex):
        low = 0 if dtype == torch.uint8 else -8
        found = [max(n, low) for n in numbers]
        if odd_values and seed % 3 == 0:
            found[seed % count] = torch.iinfo(dtype).max if seed % 2 else torch.iinfo(dtype).min
        return torch.tensor(found, dtype=dtype)
    values = [n / 2 for n in numbers]
    if odd_values and seed % 3 == 0:
        values[seed % count] = _ODD[seed % len(_ODD)]
    return torch.tensor(values, dtype=dtype)


@st.composite
def views(draw: DrawFn, base: torch.Tensor) -> torch.Tensor:
    """A view of a tensor: a part of it, turned, expanded or seen with other sizes; or itself."""
    kinds = ["itself", "detached", "flat"]
    if base.dim():
        kinds += ["part", "step", "item", "turned"]
    match draw(st.sampled_from(kinds)):
        case "part":
            dim = draw(st.integers(0, base.dim() - 1))
            start = draw(st.integers(0, base.shape[dim]))
            return base.narrow(dim, start, draw(st.integers(0, base.shape[dim] - start)))
        case "step":
            return base[::2]
        case "item" if base.shape[0]:
            return base[draw(st.integers(0, base.shape[0] - 1))]
        case "turned":
            return base.transpose(0, base.dim() - 1)
        case "flat" if base.is_contiguous():
            return base.view(-1)
        case "detached":
            return base.detach()
    return base


@st.composite
def aliasing_tensors(
    draw: DrawFn, /, *, min_size: int = 2, max_size: int = 4, **settings: Any
) -> list[torch.Tensor]:
    """Tensors of which some are views of others, or the same object.

    Args:
        settings: as of `tensors`.
    """
    found = [draw(tensors(**settings))]
    while len(found) < min_size or (len(found) < max_size and draw(st.booleans())):
        again = draw(st.booleans())
        if again:
            found.append(draw(views(draw(st.sampled_from(found)))))
        else:
            found.append(draw(tensors(**settings)))
    return draw(st.permutations(found))


# Structures


class Pair(NamedTuple):
    """A named tuple of two."""

    first: Any
    second: Any


@dataclasses.dataclass
class Record:
    """A dataclass that can be changed."""

    value: Any
    rest: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    """A dataclass that cannot."""

    value: Any
    name: str = "name"


def atoms() -> SearchStrategy[Any]:
    """Plain values: None, switches, small numbers, short strings."""
    return (
        st.integers(-3, 9)
        | st.none()
        | st.booleans()
        | st.sampled_from([0.0, 1.0, 0.5, -2.5, -0.0])
        | st.sampled_from(["", "a", "mean", "key"])
    )


_KEYS = st.sampled_from(["a", "b", "weight", 0, 1, (1, "x")])


def structures(
    leaves: SearchStrategy[Any] | None = None, *, max_leaves: int = 6
) -> SearchStrategy[Any]:
    """Leaves in lists, tuples, dicts, named tuples and dataclasses, nested.

    Args:
        leaves: tensors and atoms by default.
        max_leaves: how many there are at most.
    """
    if leaves is None:
        leaves = tensors() | atoms()
    return st.recursive(leaves, _containers, max_leaves=max_leaves)


def _containers(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(_KEYS, inner, max_size=3),
        st.dictionaries(_KEYS, inner, max_size=2).map(collections.OrderedDict),
        st.builds(Pair, inner, inner),
        st.builds(Record, inner, inner),
        st.builds(Frozen, inner),
    )


@st.composite
def shared_structures(draw: DrawFn, /, **settings: Any) -> Any:
    """As `structures`, with tensors that share memory, and lists and tensors that occur twice.

    Args:
        settings: as of `tensors`.
    """
    pool: list[Any] = draw(aliasing_tensors(**settings))
    pool.append([draw(st.sampled_from(pool)), draw(atoms())])
    return draw(structures(st.sampled_from(pool) | atoms()))


# Programs


@st.composite
def programs(draw: DrawFn, grammar: Grammar = GRAMMAR) -> Program:
    """A function with classes, helpers and calls; it shrinks to what is needed.

    Args:
        grammar: what it is written of.
    """
    return written(Drawn(lambda n: draw(st.integers(0, n - 1))), grammar)
