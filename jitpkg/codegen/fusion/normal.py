"""The normal form of a kernel: flat memory, as few axes as possible, names by position.

Kernels that do the same, as those of equal layers do, become the same nodes; one is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import same, surely
from jitpkg.codegen.ir.nodes import (
    Apply,
    Axis,
    Buffer,
    Const,
    Definition,
    Given,
    Load,
    Node,
    Reduce,
    Scan,
    Store,
    below,
    operands,
    written,
)
from jitpkg.codegen.ir.ops import NARROW
from jitpkg.codegen.ir.ranges import Linear
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Normal:
    """A kernel in normal form, and what it is called with."""

    kernel: Kernel
    inputs: tuple[Buffer, ...]
    """What is given for `kernel.inputs`."""
    outputs: tuple[Buffer, ...]
    """And for `kernel.outputs`."""


class Normaliser:
    """Makes normal forms; kernels that are alike get the same nodes from it."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._buffers: dict[tuple[object, ...], Buffer] = {}
        self._axes: dict[tuple[object, ...], Axis] = {}

    def normal(self, kernel: Kernel) -> Normal:
        flat = self._flat(kernel)
        stores = self._written_flat(kernel, flat)
        axes = kernel.axes
        stores, axes = self._without_single(stores, axes)
        stores, axes = self._split(stores, axes)
        stores, axes = self._merged(stores, axes)
        stores, axes = self._named(stores, axes)
        made = replace(
            kernel,
            axes=axes,
            stores=stores,
            inputs=tuple(flat[buffer] for buffer in kernel.inputs),
            outputs=tuple(flat[buffer] for buffer in kernel.outputs),
        )
        return Normal(made, kernel.inputs, kernel.outputs)

    # Flat memory

    def _flat(self, kernel: Kernel) -> dict[Buffer, Buffer]:
        made = {}
        for kind, buffers in (("in", kernel.inputs), ("out", kernel.outputs)):
            for k, buffer in enumerate(buffers):
                span = sum(
                    (n - 1) * step for n, step in zip(buffer.sizes, buffer.strides, strict=True)
                )
                span = 0 if 0 in buffer.sizes else span + 1
                key = (kind, k, buffer.dtype, span)
                if key not in self._buffers:
                    self._buffers[key] = Buffer(f"{kind}{k}", buffer.dtype, (span,), (1,))
                made[buffer] = self._buffers[key]
        return made

    def _written_flat(self, kernel: Kernel, flat: Mapping[Buffer, Buffer]) -> tuple[Store, ...]:
        """Loads and stores at one offset instead of an index for each dim."""
        k = self._builder
        definitions = {}
        for buffer, line in flat.items():
            axes = tuple(k.axis(n) for n in buffer.sizes)
            value = k.load(line, [self._offset(axes, buffer)])
            definitions[buffer] = Definition(buffer, axes, value)
        values = written(kernel.stores)
        new = iter(k.substituted(values, {}, definitions))
        stores = []
        for store in kernel.stores:
            index = [next(new) for _ in store.index]
            at, value = self._offset(index, store.buffer), next(new)
            idle = _axes_of(store) - at.axes - value.axes
            if store.combine is not None and idle:  # of memory that is expanded
                wide = torch.float32 if value.dtype in NARROW else value.dtype
                over = [axis for axis in kernel.axes if axis in idle]
                value = k.cast(k.reduce(store.combine, k.cast(value, wide), over), value.dtype)
            stores.append(Store(flat[store.buffer], (at,), value, store.combine))
        return tuple(stores)

    def _offset(self, index: Sequence[Node], buffer: Buffer) -> Node:
        whole = Linear((), 0)
        for at, stride in zip(index, buffer.strides, strict=True):
            whole = whole.plus(Linear.of(at).times(stride))
        return self._builder.of_linear(whole)

    # Axes

    def _without_single(
        self, stores: tuple[Store, ...], axes: tuple[Axis, ...]
    ) -> tuple[tuple[Store, ...], tuple[Axis, ...]]:
        once = {axis: self._builder.index(0) for axis in axes if same(axis.extent, 1)}
        return self._rewritten(stores, once), tuple(axis for axis in axes if axis not in once)

    def _split(
        self, stores: tuple[Store, ...], axes: tuple[Axis, ...]
    ) -> tuple[tuple[Store, ...], tuple[Axis, ...]]:
        """Two axes for one of which quotient and remainder are asked: then nobody divides.

        An axis stays one where a store that combines would depend on one of the two only: what is
        combined counts for each position of both.
        """
        k = self._builder
        whole: set[tuple[Axis, int]] = set()
        while True:
            found = next((f for f in _divided(stores, axes) if f not in whole), None)
            if found is None:
                return stores, axes
            axis, by = found
            high, low = k.axis(axis.extent // by), k.axis(by)
            both = k.of_linear(Linear(((high, by), (low, 1))))
            rewritten = self._rewritten(stores, {axis: both})
            if any(
                _loses(axis, *pair, {high, low}) for pair in zip(stores, rewritten, strict=True)
            ):
                whole.add(found)
                continue
            stores = rewritten
            at = axes.index(axis)
            axes = (*axes[:at], high, low, *axes[at + 1 :])

    def _merged(
        self, stores: tuple[Store, ...], axes: tuple[Axis, ...]
    ) -> tuple[tuple[Store, ...], tuple[Axis, ...]]:
        """One axis for two that lie one behind the other in all memory that is touched."""
        k = self._builder
        while True:
            offsets, inside = _offsets(stores)
            pairs: list[tuple[Axis, Axis, bool]] = [
                (a, b, False) for a in axes for b in axes if a is not b
            ]
            folds = [n for n in _nodes(stores) if isinstance(n, Reduce)]
            overs = {fold.over for fold in folds}
            for over in overs:
                together = all(other == over or not set(other) & set(over) for other in overs)
                if together:
                    pairs += [(a, b, True) for a in over for b in over if a is not b]
            found = next(
                (
                    (a, b, folded)
                    for a, b, folded in pairs
                    if a not in inside
                    and b not in inside
                    and all(same(o.factor(a), o.factor(b) * b.extent) for o in offsets)
                ),
                None,
            )
            if found is None:
                return stores, axes
            outer, inner, folded = found
            merged = k.axis(outer.extent * inner.extent)
            stores = self._rewritten(stores, {outer: k.index(0), inner: merged})
            if not folded:
                axes = tuple(
                    merged if axis is inner else axis for axis in axes if axis is not outer
                )

    def _named(
        self, stores: tuple[Store, ...], axes: tuple[Axis, ...]
    ) -> tuple[tuple[Store, ...], tuple[Axis, ...]]:
        """Axes by their place, those of folds by how deep the fold lies."""
        renamed: dict[Axis, Node] = {}
        for k, axis in enumerate(axes):
            renamed[axis] = self._axis(("loop", k, axis.extent), axis.extent)
        depth: dict[Node, int] = {}
        for node in _nodes(stores):
            depth[node] = max((depth[each] for each in operands(node)), default=0)
            if isinstance(node, Reduce):
                depth[node] += 1
                extents = tuple(axis.extent for axis in node.over)
                for k, axis in enumerate(node.over):
                    key = ("fold", depth[node], k, extents)
                    renamed.setdefault(axis, self._axis(key, axis.extent))
        named = tuple(renamed[axis] for axis in axes)
        return self._rewritten(stores, renamed), tuple(a for a in named if isinstance(a, Axis))

    def _axis(self, key: tuple[object, ...], extent: int) -> Axis:
        if key not in self._axes:
            self._axes[key] = self._builder.axis(extent)
        return self._axes[key]

    def _rewritten(self, stores: tuple[Store, ...], axes: Mapping[Axis, Node]) -> tuple[Store, ...]:
        if not axes:
            return stores
        values = written(stores)
        new = iter(self._builder.substituted(values, axes))
        return tuple(
            Store(s.buffer, tuple(next(new) for _ in s.index), next(new), s.combine) for s in stores
        )


def _axes_of(store: Store) -> frozenset[Axis]:
    return store.value.axes.union(*(at.axes for at in store.index))


def _loses(axis: Axis, store: Store, rewritten: Store, new: set[Axis]) -> bool:
    """Whether a store that combines depends on an axis, and not on all that are put for it."""
    combines = store.combine is not None
    return combines and axis in _axes_of(store) and not new <= _axes_of(rewritten)


def _nodes(stores: Iterable[Store]) -> list[Node]:
    return below(*written(stores))


def _divided(stores: tuple[Store, ...], axes: tuple[Axis, ...]) -> Iterator[tuple[Axis, int]]:
    nodes = _nodes(stores)
    along = {node.along for node in nodes if isinstance(node, Scan)}
    for node in nodes:
        match node:
            case Apply(op="floordiv" | "mod", args=(Axis() as axis, Const(value=by))):
                even = by > 1 and surely(">", axis.extent, int(by))
                if axis in axes and axis not in along and even and same(axis.extent % int(by), 0):
                    yield axis, int(by)
            case Apply(op="floordiv" | "mod", args=(Axis() as axis, Given(value=by))):
                even = same(axis.extent % by, 0) and not same(axis.extent, by)
                if axis in axes and axis not in along and even:
                    yield axis, by


def _offsets(stores: tuple[Store, ...]) -> tuple[list[Linear], set[Axis]]:
    """Where memory is touched, and the axes that stand anywhere else than as a term of that."""
    offsets: list[Linear] = []
    inside: set[Axis] = set()
    seen: set[Node] = set()
    stack: list[Node] = [store.value for store in stores]
    places = [at for store in stores for at in store.index]
    while stack or places:
        while places:
            offset = Linear.of(places.pop())
            offsets.append(offset)
            stack.extend(atom for atom, _ in offset.terms if not isinstance(atom, Axis))
        if not stack:
            break
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        match node:
            case Axis():
                inside.add(node)
            case Load(index=index, mask=mask):
                places.extend(index)
                if mask is not None:
                    stack.append(mask)
            case Scan(value=value, along=along):
                inside.add(along)
                stack.append(value)
            case Reduce(op="argmax" | "argmin", value=value, over=over):
                inside.update(over)
                stack.append(value)
            case Apply(op="add" | "mul", dtype=torch.int64) if _is_linear(node):
                places.append(node)  # as positions are that are computed with
            case _:
                stack.extend(operands(node))
    return offsets, inside


def _is_linear(node: Node) -> bool:
    """Whether a value is made of others by multiples and sums."""
    return Linear.of(node).terms != ((node, 1),)
