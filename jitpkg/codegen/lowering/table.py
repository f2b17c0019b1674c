"""What rows are written with, and how a call is lowered.

A row is a function of a `Lowering` and the call's own arguments, with a `Tensor` for each tensor.
It returns a `Tensor`, or a tuple of them, or raises `NotLowered`: then the call stays ATen's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Axis, Buffer, Node
from jitpkg.facts import layout


class NotLowered(Exception):
    """The call has no lowering: it is left to ATen."""


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """A tensor while a call is lowered: in memory already, or defined."""

    builder: Builder
    dtype: torch.dtype
    sizes: tuple[int, ...]
    axes: tuple[Axis, ...]
    value: Node
    """The element at `axes`."""

    def at(self, *index: Node) -> Node:
        """The element at an index, as the dtype that the tensor has."""
        if index == self.axes:
            return self.value
        return self.builder.substitute(self.value, dict(zip(self.axes, index, strict=True)))

    @property
    def rank(self) -> int:
        return len(self.sizes)


Scalar = bool | int | float
Row = Callable[..., Any]
Body = Callable[..., Node]


class Lowering:
    """Makes tensors."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def of_buffer(self, buffer: Buffer) -> Tensor:
        """A tensor that lies in memory."""
        if buffer.dtype not in ops.EVERY:
            raise NotLowered(f"{buffer.dtype} is left to ATen")
        axes = self.builder.axes(buffer.sizes)
        value = self.builder.load(buffer, axes)
        return Tensor(self.builder, buffer.dtype, buffer.sizes, axes, value)

    def tensor(
        self, sizes: Sequence[int], dtype: torch.dtype, element: Callable[..., Node]
    ) -> Tensor:
        """A tensor by `element(i, j, ...)`, cast to `dtype`."""
        sizes = tuple(sizes)
        axes = self.builder.axes(sizes)
        value = self.builder.cast(element(*axes), dtype)
        return Tensor(self.builder, dtype, sizes, axes, value)

    def broadcast(self, x: Tensor, index: Sequence[Node]) -> Node:
        """The element of `x` that stands at an index of what it is broadcast to."""
        missing = len(index) - x.rank
        zero = self.builder.index(0)
        own = (zero if n == 1 else at for n, at in zip(x.sizes, index[missing:], strict=True))
        return x.at(*own)

    def elementwise(
        self, element: Body, operands: Sequence[Tensor | Scalar], dtype: torch.dtype | None = None
    ) -> Tensor:
        """`element(a, b, ...)` of operands that are broadcast and promoted as ATen does it.

        Args:
            dtype: in which it is computed and that the result has; the common one by default.
        """
        tensors = [x for x in operands if isinstance(x, Tensor)]
        common = promoted(operands) if dtype is None else dtype
        compute = computed_in(common)
        sizes = layout.broadcast([x.sizes for x in tensors])
        if sizes is None:
            raise NotLowered("sizes that do not go together")

        def value(*index: Node) -> Node:
            given = (
                self.builder.cast(self.rounded(self.broadcast(x, index), common), compute)
                if isinstance(x, Tensor)
                else self.builder.const(x, compute)
                for x in operands
            )
            return element(*given)

        made = value(*self.builder.axes(sizes))
        result = made.dtype if made.dtype is torch.bool else common
        return self.tensor(sizes, result, lambda *_: made)

    def rounded(self, value: Node, dtype: torch.dtype) -> Node:
        return self.builder.cast(value, dtype)

    def reduce(
        self,
        op: str,
        x: Tensor,
        dims: Sequence[int],
        *,
        keepdim: bool = False,
        of: Callable[[Node], Node] | None = None,
    ) -> Tensor:
        """A fold of `of(element)` along dims, in the dtype of that."""
        k = self.builder
        bound = {dim: k.axis(x.sizes[dim]) for dim in dims}
        kept = [dim for dim in range(x.rank) if dim not in bound]
        sizes = [x.sizes[d] for d in range(x.rank) if d not in bound]
        if keepdim:
            sizes = [1 if d in bound else x.sizes[d] for d in range(x.rank)]

        def element(*index: Node) -> Node:
            at: list[Node] = [k.index(0)] * x.rank
            for position, dim in enumerate(range(x.rank) if keepdim else kept):
                at[dim] = index[position]
            for dim, axis in bound.items():
                at[dim] = axis
            value = x.at(*at)
            return k.reduce(op, of(value) if of else value, bound.values())

        made = element(*k.axes(sizes))
        return self.tensor(sizes, made.dtype, lambda *_: made)


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """In which dtype arithmetic on this one is done."""
    return torch.float32 if dtype in ops.NARROW else dtype


def promoted(operands: Sequence[Tensor | Scalar]) -> torch.dtype:
    """The common dtype of tensors and numbers, as ATen promotes them."""
    stand_ins = [
        torch.empty((0,) * min(x.rank, 1), dtype=x.dtype, device="meta")
        if isinstance(x, Tensor)
        else x
        for x in operands
    ]
    common = stand_ins[0]
    if len(stand_ins) == 1:
        return common.dtype if isinstance(common, torch.Tensor) else torch.get_default_dtype()
    state: Any = None
    for x in stand_ins:
        state = _Promotion() if state is None else state
        state.see(x)
    result: torch.dtype = state.result()
    return result


class _Promotion:
    """Categories: tensors with dims go before those without, and those before numbers."""

    def __init__(self) -> None:
        self._found: list[torch.dtype | None] = [None, None, None]

    def see(self, x: Any) -> None:
        if isinstance(x, torch.Tensor):
            place, dtype = (0 if x.dim() else 1), x.dtype
        else:
            place, dtype = 2, _of_number(x)
        known = self._found[place]
        self._found[place] = dtype if known is None else torch.promote_types(known, dtype)

    def result(self) -> torch.dtype:
        common: torch.dtype | None = None
        for dtype in self._found:
            if dtype is not None:
                common = dtype if common is None else _joined(common, dtype)
        assert common is not None
        return common


def _joined(first: torch.dtype, second: torch.dtype) -> torch.dtype:
    """A category's dtype counts only where it is of a higher kind than what goes before it."""
    return torch.promote_types(first, second) if _kind(second) > _kind(first) else first


def _kind(dtype: torch.dtype) -> int:
    return 0 if dtype is torch.bool else 2 if dtype.is_floating_point else 1


def _of_number(x: Scalar) -> torch.dtype:
    match x:
        case bool():
            return torch.bool
        case int():
            return torch.int64
        case _:
            return torch.get_default_dtype()


def rows(*groups: Mapping[str, Row]) -> Mapping[str, Row]:
    """One table of several; a name stands in one only."""
    joined: dict[str, Row] = {}
    for group in groups:
        twice = joined.keys() & group.keys()
        assert not twice, f"two rows for {sorted(twice)}"
        joined.update(group)
    return MappingProxyType(joined)
