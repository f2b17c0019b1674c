"""The slow, obvious meaning of definitions: every node as a whole tensor over its axes.

The oracle of lowerings, of fusion and of every printer. Each axis is a dim of its own, so a matrix
product takes the memory of a cube.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import value_of
from jitpkg.codegen.ir.nodes import (
    Apply,
    Axis,
    Buffer,
    Checked,
    Const,
    Definition,
    Extent,
    Given,
    Load,
    Node,
    Reduce,
    Scan,
    Store,
    below,
)


def evaluate(definition: Definition, memory: Mapping[Buffer, torch.Tensor]) -> torch.Tensor:
    """The tensor, from those that it loads.

    Raises:
        IndexError: an index out of data lies outside of its extent.
    """
    run = _Evaluation(memory)
    value = run.of(definition.value)
    return run.laid_out(value, definition.axes).contiguous()


def run_stores(
    stores: Sequence[Store],
    axes: Sequence[Axis],
    memory: Mapping[Buffer, torch.Tensor],
    symbols: Mapping[str, int] | None = None,
) -> None:
    """Do writes inside of loops over `axes`, in the order of the stores, into `memory`.

    Args:
        symbols: their values, where sizes vary.
    """
    for store in stores:
        run = _Evaluation(memory, symbols)
        along = [a for a in axes if any(a in n.axes for n in (store.value, *store.index))]
        value = run.laid_out(run.of(store.value), along).reshape(-1)
        target = memory[store.buffer]
        flat = torch.zeros(value.numel(), dtype=torch.int64)
        for at, size in zip(store.index, store.buffer.sizes, strict=True):
            flat = flat * run.number(size) + run.laid_out(run.of(at), along).reshape(-1)
        whole = target.contiguous().view(-1).clone()
        if store.combine is None:
            whole[flat] = value
        else:
            combine = ops.OPS[ops.REDUCTIONS[store.combine].combine or ""].reference
            for position, each in zip(flat.tolist(), value, strict=True):
                whole[position] = combine(whole[position], each)
        target.copy_(whole.view(target.shape))


class _Evaluation:
    def __init__(
        self, memory: Mapping[Buffer, torch.Tensor], symbols: Mapping[str, int] | None = None
    ) -> None:
        self._memory = memory
        self._symbols = symbols or {}
        self._known: dict[Node, torch.Tensor] = {}
        self._dims: dict[Axis, int] = {}

    def number(self, extent: Extent) -> int:
        """An extent in this call."""
        return value_of(extent, self._symbols)

    def of(self, root: Node) -> torch.Tensor:
        """Dims: one for each axis seen so far; 1 where the value does not depend on it."""
        for node in below(root):
            if isinstance(node, Axis):
                self._dims.setdefault(node, len(self._dims))
            if isinstance(node, Reduce):
                for axis in node.over:
                    self._dims.setdefault(axis, len(self._dims))
            if isinstance(node, Scan):
                self._dims.setdefault(node.along, len(self._dims))
        self._known = {}  # the number of dims may have grown
        for node in below(root):
            self._known[node] = self._value(node)
        return self._known[root]

    def laid_out(self, value: torch.Tensor, axes: Sequence[Axis]) -> torch.Tensor:
        """With these axes as dims, in this order."""
        for axis in axes:
            if axis not in self._dims:
                self._dims[axis] = len(self._dims)
        rank = len(self._dims)
        value = value.reshape((*value.shape, *(1,) * (rank - value.dim())))
        order = [self._dims[axis] for axis in axes]
        rest = [dim for dim in range(rank) if dim not in order]
        moved = value.permute((*order, *rest))
        shown = moved.reshape(moved.shape[: len(axes)])
        return shown.expand([self.number(axis.extent) for axis in axes])

    def _value(self, node: Node) -> torch.Tensor:
        rank = len(self._dims)
        match node:
            case Axis(extent=extent):
                shape = [1] * rank
                shape[self._dims[node]] = self.number(extent)
                return torch.arange(self.number(extent)).reshape(shape)
            case Const(value=value):
                return torch.tensor(value, dtype=node.dtype).reshape([1] * rank)
            case Given(value=value):
                return torch.tensor(self.number(value)).reshape([1] * rank)
            case Load():
                return self._loaded(node)
            case Apply(op=ops.CAST, args=(value,)):
                return self._known[value].to(node.dtype)
            case Apply(op=op, args=args):
                given: Any = ops.OPS[op].reference(*(self._known[arg] for arg in args))
                return torch.as_tensor(given)
            case Checked(index=index, extent=extent):
                at = self._known[index]
                extent = self.number(extent)
                at = torch.where(at < 0, at + extent, at)
                if bool(((at < 0) | (at >= extent)).any()):
                    raise IndexError(f"an index is out of range for {extent} elements")
                return at
            case Reduce():
                return self._reduced(node)
            case Scan():
                return self._scanned(node)
            case _:
                raise AssertionError(node)

    def _loaded(self, node: Load) -> torch.Tensor:
        memory = self._memory[node.buffer]
        rank = len(self._dims)
        index = [self._known[at] for at in node.index]
        if node.mask is None:
            return memory[tuple(index)] if index else memory.reshape([1] * rank)
        mask = self._known[node.mask]
        if memory.numel() == 0:
            return torch.zeros_like(mask, dtype=memory.dtype)
        index = [torch.where(mask, at, 0) for at in index]
        found = memory[tuple(index)] if index else memory.reshape([1] * rank)
        return torch.where(mask, found, torch.zeros((), dtype=memory.dtype))

    def _whole(self, node: Node, axes: Sequence[Axis]) -> torch.Tensor:
        """A value, repeated along axes that it does not depend on."""
        value = self._known[node]
        shape = list(value.shape)
        for axis in axes:
            shape[self._dims[axis]] = self.number(axis.extent)
        return value.expand(shape)

    def _reduced(self, node: Reduce) -> torch.Tensor:
        value = self._whole(node.value, node.over)
        return reduced(node.op, value, [self._dims[axis] for axis in node.over], node.dtype)

    def _scanned(self, node: Scan) -> torch.Tensor:
        value = self._whole(node.value, [node.along])
        dim = self._dims[node.along]
        match node.op:
            case "sum":
                return value.cumsum(dim, dtype=node.dtype)
            case "prod":
                return value.cumprod(dim, dtype=node.dtype)
            case "max":
                return value.cummax(dim).values
            case _:
                return value.cummin(dim).values


def reduced(op: str, value: torch.Tensor, dims: list[int], dtype: torch.dtype) -> torch.Tensor:
    """What a reduction by this name makes of a tensor; the dims stay, with one element."""
    match op:
        case "sum" if dtype.is_floating_point:
            return value.double().sum(dims, keepdim=True).to(dtype)
        case "sum":
            return value.sum(dims, keepdim=True, dtype=dtype)
        case "prod":
            for dim in dims:
                value = value.prod(dim, keepdim=True, dtype=dtype)
            return value
        case "max" | "min":
            return (torch.amax if op == "max" else torch.amin)(value, dims, keepdim=True)
        case "any" | "all":
            test = torch.any if op == "any" else torch.all
            for dim in dims:
                value = test(value, dim, keepdim=True)
            return value
        case _:
            find = torch.argmax if op == "argmax" else torch.argmin
            if value.dtype is torch.bool:
                value = value.to(torch.uint8)
            return find(value, dims[0], keepdim=True)
