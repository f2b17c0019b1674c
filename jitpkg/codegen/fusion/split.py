"""Long folds in parts: kernels that many programs of a device can work on, instead of one.

The sum of a whole tensor is one number, so a kernel that has a program for each number that it
makes has one program. Here it becomes a kernel that makes the sums of parts, in memory of its own,
and one that adds them up. By substitution: where a fold stood, there stands a load of the result,
or the fold of a load over the parts.

Folds that need each other's results are done one after the other, but for the pairs in `online`,
whose parts can be put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import count
from math import prod

import torch

from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.online import Distances, Pair, Powers, pairs
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import example, same, varies
from jitpkg.codegen.ir.nodes import (
    Axis,
    Buffer,
    Const,
    Node,
    Reduce,
    Scan,
    Store,
    below,
    loads,
    operands,
    written,
)
from jitpkg.codegen.ir.ranges import Linear
from jitpkg.dataclass import dataclass

PIECE = 1 << 13
"""Elements that are worth a program: fewer take less time than to start one more kernel."""

_LEAST = 4
"""Parts that are worth the kernel that puts them together."""

_ABREAST = 32
"""Positions that one program folds side by side, where they lie side by side in memory."""

_ROUND = 16
"""What long parts that leave a rest are a multiple of, so that each begins as the first does."""


def split(
    kernel: Kernel, builder: Builder, wanted: int, *, piece: int = PIECE
) -> tuple[Kernel, ...]:
    """Kernels that do the same, one after the other.

    They write what the kernel writes, and buffers of their own, which the later ones read: those
    that the kernel itself does not have. What is not worth it, or cannot be split, stays as it is.

    Args:
        wanted: how many programs keep the device busy.
        piece: elements that are worth a program.
    """
    values = written(kernel.stores)
    reads = {load.buffer for load in loads(*values)}
    if not reads.isdisjoint(kernel.outputs):
        return (kernel,)
    return _Split(kernel, builder, wanted, piece).run()


@dataclass(frozen=True, eq=False, slots=True)
class _Inside:
    """A fold's place in one part."""

    at: tuple[Node, ...]
    """For each of the fold's axes."""
    axes: tuple[Axis, ...]
    """What is folded in a part."""
    mask: Node
    """False behind the end of an axis."""


@dataclass(eq=False, slots=True)
class _Cut:
    """How folds at the same positions, over axes of the same lengths, are cut."""

    positions: tuple[Axis, ...]
    parts: tuple[Axis, ...]
    """The axes of the kernel that makes the parts, behind or before the positions."""
    steps: tuple[tuple[int, int], ...]
    """For each of the fold's axes, in how many parts it is, and how long those are."""
    across: bool
    """Whether positions lie side by side in memory."""
    inside: Sequence[_Inside]
    """For the first of a pair of folds, and for the second: they have axes of their own."""
    stores: list[Store] = field(default_factory=list)
    """Into the buffers of the parts."""
    known: dict[Node, Buffer] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return prod(number for number, _ in self.steps)


class _Split:
    def __init__(self, kernel: Kernel, builder: Builder, wanted: int, piece: int) -> None:
        self._kernel = kernel
        self._builder = builder
        self._wanted = wanted
        self._piece = piece
        self._made: list[Kernel] = []
        self._numbers = count()
        self._of_parts: set[Axis] = set()
        """Axes that run over parts: what is folded over them is not cut again."""

    def run(self) -> tuple[Kernel, ...]:
        stores = self._kernel.stores
        while True:
            cut = self._cuts(stores)
            if not cut:
                break
            stores = self._stage(stores, cut)
        if not self._made:
            return (self._kernel,)
        last = self._of(self._kernel.name, self._kernel.axes, stores)
        return (*self._made, replace(last, outputs=self._kernel.outputs))

    def _stage(self, stores: Sequence[Store], cut: Mapping[Reduce, _Cut]) -> tuple[Store, ...]:
        """Without the folds that need no others: these are loads now."""
        values = written(stores)
        whole: dict[Node, Node] = {}
        paired = {pair.second: pair for pair in pairs(values)}
        for fold, way in cut.items():
            pair = paired.get(fold)
            if pair is not None and pair.first in cut and _can_be_joined(pair, way):
                whole[pair.first], whole[fold] = self._joined(pair, way, whole)
        for fold, way in cut.items():
            if fold not in whole:
                whole[fold] = self._put_together(fold, way)
        ways = list(dict.fromkeys(cut.values()))
        for way in ways:
            axes = (*way.parts, *way.positions) if way.across else (*way.positions, *way.parts)
            self._made.append(self._of(f"{self._kernel.name}_parts", axes, way.stores))
        if not self._is_last(stores, whole):
            whole = self._in_memory(whole, ways, cut)
        new = iter(self._builder.replaced(values, whole))
        return tuple(
            Store(s.buffer, tuple(next(new) for _ in s.index), next(new), s.combine) for s in stores
        )

    def _is_last(self, stores: Sequence[Store], folds: Mapping[Node, Node]) -> bool:
        """Whether all the rest stands at the positions of the folds: then it is done in the kernel
        that puts the parts together."""
        positions = {fold.axes for fold in folds}
        inner = {
            node
            for each in below(*written(stores))
            if isinstance(each, Reduce | Scan)
            for node in below(each.value)
            if each not in folds
        }
        return (
            len(positions) == 1
            and not any(fold in inner for fold in folds)
            and all(store.value.axes.union(*_axes(store.index)) in positions for store in stores)
        )

    def _in_memory(
        self, whole: Mapping[Node, Node], ways: Iterable[_Cut], cut: Mapping[Reduce, _Cut]
    ) -> dict[Node, Node]:
        """Loads of the folds, which a kernel of their own puts together."""
        found: dict[Node, Node] = {}
        for positions in dict.fromkeys(way.positions for way in ways):
            folds = [fold for fold, way in cut.items() if way.positions == positions]
            at, size = self._flat(positions)
            stores = []
            for fold in folds:
                buffer = self._buffer(fold, size)
                stores.append(Store(buffer, (at,), whole[fold]))
                found[fold] = self._builder.load(buffer, (at,))
            self._made.append(self._of(f"{self._kernel.name}_whole", positions, stores))
        return found

    def _of(self, name: str, axes: tuple[Axis, ...], stores: Sequence[Store]) -> Kernel:
        outputs = tuple(dict.fromkeys(store.buffer for store in stores))
        reads = dict.fromkeys(load.buffer for load in loads(*written(stores)))
        given = [buffer for buffer in self._kernel.inputs if buffer in reads]
        own = [buffer for buffer in reads if buffer not in given]
        return replace(
            self._kernel,
            name=name,
            axes=axes,
            stores=tuple(stores),
            inputs=(*given, *own),
            outputs=outputs,
        )

    # Which folds are cut, and where

    def _cuts(self, stores: Sequence[Store]) -> dict[Reduce, _Cut]:
        """Of the long folds those that need no other one, and the seconds of their pairs."""
        values = written(stores)
        nodes = below(*values)
        cuts: dict[object, _Cut | None] = {}
        found: dict[Reduce, _Cut] = {}
        deep: set[Node] = set()
        """What needs a fold that is cut."""
        firsts = {pair.second: pair.first for pair in pairs(values)}
        for node in nodes:
            below_it = deep.intersection(operands(node))
            if isinstance(node, Reduce):
                way = self._cut(node, cuts)
                first = firsts.get(node)
                if way is not None and (
                    not below_it or (first is not None and found.get(first) is way)
                ):
                    found[node] = way
                    deep.add(node)
                    continue
            if below_it:
                deep.add(node)
        return found

    def _cut(self, fold: Reduce, known: dict[object, _Cut | None]) -> _Cut | None:
        bound = frozenset(fold.over)
        inner = 1
        """The elements that are folded for one that this fold takes."""
        for node in below(fold.value):
            if isinstance(node, Scan):
                return None
            if isinstance(node, Reduce) and not bound.isdisjoint(node.over):
                return None
            if isinstance(node, Reduce) and not bound.isdisjoint(node.axes):
                inner = max(inner, prod(example(axis.extent) for axis in node.over))
        if not self._of_parts.isdisjoint(bound):
            return None
        extents = tuple(axis.extent for axis in fold.over)
        if ops.REDUCTIONS[fold.op].combine is None and any(map(varies, extents)):
            return None  # a part may be empty, and an extreme of nothing has no place
        key = (fold.axes, *extents, inner)
        if key not in known:
            known[key] = self._new_cut(fold, inner)
        return known[key]

    def _new_cut(self, fold: Reduce, inner: int) -> _Cut | None:
        place = {axis: k for k, axis in enumerate(self._kernel.axes)}
        positions = sorted(fold.axes, key=lambda a: (place.get(a, len(place)), a.serial))
        many = prod(example(axis.extent) for axis in positions)
        long = prod(example(axis.extent) for axis in fold.over)
        across = _is_across(fold)
        abreast = min(_ABREAST, many) if across else 1
        if many == 0:
            return None
        programs = -(-many // abreast)
        left = min(self._wanted // programs, long * inner * abreast // self._piece)
        if left < _LEAST:
            return None
        steps = []
        for axis in fold.over:
            number, length = _divided(axis.extent, left)
            steps.append((number, length))
            left = -(-left // number)
        parts = tuple(self._builder.axis(number) for number, _ in steps if number > 1)
        inside = [self._inside(fold, steps, parts) for _ in range(2)]
        return _Cut(tuple(positions), parts, tuple(steps), across, inside)

    def _inside(
        self, fold: Reduce, steps: Sequence[tuple[int, int]], parts: Sequence[Axis]
    ) -> _Inside:
        b = self._builder
        place: list[Node] = []
        axes = []
        mask: Node = b.const(True, torch.bool)
        part = iter(parts)
        for axis, (number, length) in zip(fold.over, steps, strict=True):
            at = Linear((), 0)
            if number > 1:
                at = at.plus(Linear.of(next(part)).times(length))
            if not same(length, 1):
                axes.append(b.axis(length))
                at = at.plus(Linear.of(axes[-1]))
            place.append(b.of_linear(at))
            mask = b.apply("and", mask, b.apply("lt", place[-1], b.index(axis.extent)))
        return _Inside(tuple(place), tuple(axes), mask)

    # Parts, and what puts them together

    def _put_together(self, fold: Reduce, way: _Cut) -> Node:
        b = self._builder
        row = ops.REDUCTIONS[fold.op]
        inside = way.inside[0]
        over = self._axis_of_parts(way)
        if row.combine is not None:
            part = b.reduce(fold.op, self._value(fold.value, fold, inside, fold.op), inside.axes)
            return b.reduce(fold.op, self._stored(part, way, over), [over])
        # Where the first extreme of each part stands, and what it is: one of these is the whole's.
        op = fold.op.removeprefix("arg")
        value = self._value(fold.value, fold, inside, op)
        most = self._stored(b.reduce(op, value, inside.axes), way, over)
        found = b.reduce(fold.op, value, inside.axes) if inside.axes else b.index(0)
        (at,) = inside.at
        within = b.substitute(at, dict.fromkeys(inside.axes, found))
        first = b.reduce(fold.op, most, [over])
        return b.substitute(self._stored(within, way, over), {over: first})

    def _joined(self, pair: Pair, way: _Cut, known: Mapping[Node, Node]) -> tuple[Node, Node]:
        match pair:
            case Powers():
                return self._joined_powers(pair, way, known)
            case Distances():
                return self._joined_distances(pair, way, known)

    def _joined_powers(
        self, pair: Powers, way: _Cut, known: Mapping[Node, Node]
    ) -> tuple[Node, Node]:
        b = self._builder
        one, two = way.inside
        over = self._axis_of_parts(way)
        most = b.reduce("max", self._value(pair.first.value, pair.first, one, "max"), one.axes)
        zero, large = b.const(0, most.dtype), b.const(float("inf"), most.dtype)
        shift = b.where(b.apply("eq", b.apply("abs", most), large), zero, most)
        value = self._value(pair.value, pair.second, two, "max")  # exp of its identity is 0
        total = b.reduce("sum", b.apply("exp", b.apply("sub", value, shift)), two.axes)
        whole = self._whole(pair.first, most, way, known)
        (shift,) = b.replaced([pair.shift], {pair.first: whole})
        grown = b.apply("exp", b.apply("sub", self._stored(most, way, over), shift))
        return whole, b.reduce("sum", b.apply("mul", self._stored(total, way, over), grown), [over])

    def _joined_distances(
        self, pair: Distances, way: _Cut, known: Mapping[Node, Node]
    ) -> tuple[Node, Node]:
        b = self._builder
        one, two = way.inside
        over = self._axis_of_parts(way)
        total = b.reduce("sum", self._value(pair.first.value, pair.first, one, "sum"), one.axes)
        number = self._count(way, pair.second, total)
        mean = b.apply("div", total, number)
        far = b.apply("sub", self._value(pair.value, pair.second, two, "sum"), mean)
        squares = self._masked(b.apply("mul", far, far), two.mask, "sum")
        squares = b.reduce("sum", squares, two.axes)
        whole = self._whole(pair.first, total, way, known)
        (middle,) = b.replaced([pair.mean], {pair.first: whole})
        far = b.apply("sub", self._stored(mean, way, over), middle)
        weight = number if isinstance(number, Const) else self._stored(number, way, over)
        far = b.apply("mul", weight, b.apply("mul", far, far))
        return whole, b.reduce("sum", b.apply("add", self._stored(squares, way, over), far), [over])

    def _whole(self, fold: Reduce, part: Node, way: _Cut, known: Mapping[Node, Node]) -> Node:
        """The first of a pair of folds, of what the parts make of it."""
        if fold in known:
            return known[fold]
        over = self._axis_of_parts(way)
        return self._builder.reduce(fold.op, self._stored(part, way, over), [over])

    def _count(self, way: _Cut, fold: Reduce, like: Node) -> Node:
        """How many elements are in a part."""
        b = self._builder
        total: Node = b.index(1)
        part = iter(way.parts)
        for axis, (number, length) in zip(fold.over, way.steps, strict=True):
            here = b.index(length)
            if number > 1:
                at = next(part)
                if number * length != axis.extent:
                    left = Linear.of(at).times(-length).plus(Linear((), axis.extent))
                    here = b.apply("minimum", here, b.of_linear(left))
            total = b.apply("mul", total, here)
        return b.cast(total, like.dtype)

    def _value(self, value: Node, fold: Reduce, inside: _Inside, op: str) -> Node:
        """What is folded, in a part; what changes nothing, behind the end."""
        b = self._builder
        value = b.substitute(value, dict(zip(fold.over, inside.at, strict=True)))
        if not isinstance(inside.mask, Const):
            value = b.masked(value, inside.mask, inside.mask.axes)
        return self._masked(value, inside.mask, op)

    def _masked(self, value: Node, mask: Node, op: str) -> Node:
        identity = ops.REDUCTIONS[op].identity
        assert identity is not None
        return self._builder.where(
            mask, value, self._builder.const(identity(value.dtype), value.dtype)
        )

    def _axis_of_parts(self, way: _Cut) -> Axis:
        axis = self._builder.axis(way.count)
        self._of_parts.add(axis)
        return axis

    def _stored(self, value: Node, way: _Cut, at: Node) -> Node:
        """A load of what the kernel of the parts writes, for one part."""
        position, size = self._flat(way.positions)
        buffer = way.known.get(value)
        if buffer is None:
            buffer = way.known[value] = self._buffer(value, size * way.count)
            part, _ = self._flat(way.parts)
            index = self._place(way, position, size, part)
            way.stores.append(Store(buffer, (index,), value))
        return self._builder.load(buffer, (self._place(way, position, size, at),))

    def _place(self, way: _Cut, position: Node, size: int, part: Node) -> Node:
        if way.across:
            return self._builder.of_linear(Linear.of(part).times(size).plus(Linear.of(position)))
        return self._builder.of_linear(Linear.of(position).times(way.count).plus(Linear.of(part)))

    def _flat(self, axes: Sequence[Axis]) -> tuple[Node, int]:
        """Where an element of a tensor with these axes stands, and how many there are."""
        whole, size = Linear((), 0), 1
        for axis in reversed(axes):
            whole = whole.plus(Linear.of(axis).times(size))
            size = size * axis.extent
        return self._builder.of_linear(whole), size

    def _buffer(self, value: Node, size: int) -> Buffer:
        return Buffer(f"part{next(self._numbers)}", value.dtype, (size,), (1,))


def _divided(extent: int, wanted: int) -> tuple[int, int]:
    """In how many parts, and how long these are: without a rest, where that can be."""
    if varies(extent):
        return wanted, (extent + (wanted - 1)) // wanted
    if wanted >= extent:
        return extent, 1
    for number in range(wanted, wanted // 2, -1):
        if extent % number == 0:
            return number, extent // number
    length = -(-extent // wanted)
    if length >= 8 * _ROUND:
        length = -(-length // _ROUND) * _ROUND
    return -(-extent // length), length


def _can_be_joined(pair: Pair, way: _Cut) -> bool:
    """Where sizes vary, a part may be empty: it has no mean."""
    lengths = [length for _, length in way.steps]
    return isinstance(pair, Powers) or not any(map(varies, lengths))


def _is_across(fold: Reduce) -> bool:
    """Whether most of what is folded lies side by side for positions, and not along the fold.
    What is the same for all positions does not count."""
    sides = 0
    for load in loads(fold.value):
        if load.axes.isdisjoint(fold.axes):
            continue
        places = [Linear.of(at) for at in load.index]
        steps = load.buffer.strides
        terms = list(zip(places, steps, strict=True))

        def near(axes: Iterable[Axis], terms: list[tuple[Linear, int]] = terms) -> bool:
            return any(same(p.factor(axis) * step, 1) for axis in axes for p, step in terms)

        sides += near(fold.axes) - near(fold.over)
    return sides > 0


def _axes(nodes: Iterable[Node]) -> list[frozenset[Axis]]:
    return [node.axes for node in nodes]
