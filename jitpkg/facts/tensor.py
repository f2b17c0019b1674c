"""What is known of a tensor while tracing, and nothing of its data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, cast

import torch

from jitpkg.dataclass import dataclass
from jitpkg.facts import sizes
from jitpkg.facts.sizes import Length, Size, plain
from jitpkg.internals import tensors

NONE: Mapping[int, Length] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """Everything about a plain strided tensor that ops on it depend on, but its values."""

    cls: type[torch.Tensor]
    """`torch.Tensor` or `torch.nn.Parameter`."""
    dtype: torch.dtype
    device: torch.device
    size: tuple[Length, ...]
    stride: tuple[Length, ...]
    requires_grad: bool
    is_leaf: bool
    is_inference: bool = False

    @property
    def is_symbolic(self) -> bool:
        """Whether a size or a stride is another one on each call."""
        return any(isinstance(length, Size) for length in (*self.size, *self.stride))

    def __str__(self) -> str:
        name = str(self.dtype).removeprefix("torch.")
        grad = ", requires grad" if self.requires_grad else ""
        where = "" if self.device.type == "cpu" else f" on {self.device}"
        strides = "" if self.stride == contiguous_stride(self.size) else f", stride {self.stride}"
        return f"{name}[{', '.join(map(str, self.size))}]{strides}{where}{grad}"


def size_of(facts: TensorFacts) -> tuple[int, ...]:
    """The sizes of a tensor of which none varies."""
    return cast(tuple[int, ...], facts.size)


def stride_of(facts: TensorFacts) -> tuple[int, ...]:
    """The strides of a tensor of which none varies."""
    return cast(tuple[int, ...], facts.stride)


def some_floats(values: Iterable[Any]) -> bool:
    """Whether one of the values is a tensor of floats."""
    return any(isinstance(x, TensorFacts) and x.dtype.is_floating_point for x in values)


def contiguous_stride(size: tuple[Any, ...]) -> tuple[Any, ...]:
    """Strides of a contiguous tensor, in elements."""
    strides: list[Any] = []
    step: Any = 1
    for length in reversed(size):
        strides.append(step)
        step = step * (length if isinstance(length, Size) else max(length, 1))
    return tuple(plain(s) if isinstance(s, Size) else s for s in reversed(strides))


def strides_in_terms_of(
    facts: TensorFacts, size: Sequence[Length], own: Mapping[int, Length] = NONE
) -> tuple[Length, ...]:
    """The strides of a tensor of numbers where its sizes are expressions.

    Each stride is what lies inside of it in memory, where it is so now.

    Args:
        own: strides that do not follow from sizes, by their dim.
    """
    stride: list[Length] = list(facts.stride)
    ends: dict[int, Length] = {1: 1}
    """By a number of elements: the expression of the extent that is as long."""
    for dim in inner_first(stride_of(facts)):
        step, length = stride_of(facts)[dim], size_of(facts)[dim]
        stride[dim] = own[dim] if dim in own else ends.get(step, step)
        if length != 1 and step:
            ends.setdefault(step * length, plain(sizes.of(stride[dim]) * size[dim]))
    return tuple(stride)


def inner_first(stride: Sequence[int]) -> list[int]:
    """The dims, in the order in which each lies inside of the next."""
    return sorted(range(len(stride)), key=lambda dim: (stride[dim], -dim))


def is_idle(size: Sequence[Length], dim: int) -> bool:
    """Whether a dim's stride says nothing: there is one element, or the tensor has none."""
    return size[dim] == 1 or 0 in size


@cache
def plain_classes() -> frozenset[type]:
    """Tensor classes that behave as `torch.Tensor` itself."""
    return frozenset({torch.Tensor, torch.nn.Parameter})


def why_not_plain(t: torch.Tensor) -> str | None:
    """Why a tensor cannot be described by `TensorFacts`, or None where it can."""
    if type(t) not in plain_classes():
        return f"a tensor subclass, {type(t).__qualname__}"
    why = why_no_strides(t)
    if why is not None:
        return why
    if t.is_conj() or t.is_neg():
        return "a lazily conjugated or negated tensor"
    if tensors.IS_TRANSFORMED.get()(t):
        return "a tensor wrapped by a function transform"
    return why_no_history(t)


def why_no_strides(t: torch.Tensor) -> str | None:
    """Why a tensor, real or fake, is no rectangle of numbers in memory; None where it is one."""
    if t.layout is not torch.strided:
        return f"a {t.layout} tensor"
    if t.is_nested or t.is_quantized:
        return "a nested or quantised tensor"
    return None


def why_no_history(t: torch.Tensor) -> str | None:
    """Why torch cannot say whether a tensor, real or fake, is a leaf; None where it can."""
    try:
        tensors.is_leaf(t)
    except RuntimeError:
        return (
            "a view taken under no_grad of what was written to later: it has no history to ask for"
        )
    return None


def data_of(t: torch.Tensor) -> bytes:
    """The elements of a tensor, in order. Where there are none, `contiguous` keeps strides."""
    in_order = t.detach().clone(memory_format=torch.contiguous_format).view(-1)
    return bytes(in_order.view(torch.uint8).tolist())


def facts_of(t: torch.Tensor) -> TensorFacts:
    """The facts of a tensor, real or fake; `why_not_plain` must be None."""
    return TensorFacts(
        cls=type(t),
        dtype=t.dtype,
        device=t.device,
        size=tuple(t.shape),
        stride=t.stride(),
        requires_grad=t.requires_grad,
        is_leaf=tensors.is_leaf(t),
        is_inference=t.is_inference(),
    )
