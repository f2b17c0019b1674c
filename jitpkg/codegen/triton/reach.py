"""Along which axes the memory of a kernel is contiguous, and how much it computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from math import prod

from jitpkg.codegen.fusion.kernel import Compute, Statement, Write
from jitpkg.codegen.fusion.statements import offset, statements, typical
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.ir.nodes import Apply, Axis, Buffer, Load, Store
from jitpkg.codegen.ir.ranges import Linear

_CALLING = frozenset({"sin", "cos", "tan"})
"""Ops that libdevice calls a function for where arguments are large."""

_ROW_BESIDE = 16
"""How many times as many elements as another one a tensor has that counts alone."""


class Reach:
    """Of what stands in some loops, each as often as it stands there."""

    def __init__(self, body: Sequence[Statement]) -> None:
        self.loads: list[tuple[Load, Linear]] = []
        self.stores: list[tuple[Store, Linear]] = []
        self.nodes = 0
        self.calls = 0
        """Of functions that are not inlined, each for one element of a thread."""
        for statement in statements(body):
            match statement:
                case Compute(nodes=nodes):
                    self.nodes += sum(isinstance(node, Apply | Load) for node in nodes)
                    for node in nodes:
                        if isinstance(node, Apply) and node.op in _CALLING:
                            self.calls += 1
                        if isinstance(node, Load):
                            self.loads.append((node, offset(node.buffer, node.index)))
                case Write(store=store):
                    self.stores.append((store, offset(store.buffer, store.index)))

    def accesses(self) -> list[tuple[Buffer, Linear]]:
        return [(load.buffer, at) for load, at in self.loads] + [
            (store.buffer, at) for store, at in self.stores
        ]

    @cached_property
    def _large(self) -> list[tuple[Buffer, Linear]]:
        every = [(access, _positions(access[1])) for access in self.accesses()]
        most = max((positions for _, positions in every), default=0)
        return [access for access, positions in every if positions * _ROW_BESIDE > most]

    def along(self, axis: Axis, among: Sequence[Axis] = ()) -> int:
        """Bytes of an element of all that lies contiguously along an axis, of what depends on one
        of some other axes. A row beside a matrix does not count."""
        return sum(
            buffer.dtype.itemsize
            for buffer, at in self._large
            if same(at.factor(axis), 1)
            and (not among or any(not same(at.factor(each), 0) for each in among))
        )

    def kept(self, axes: Sequence[Axis]) -> int:
        """How many different values of each of these positions are read more than once."""
        reads = Counter(load for load, _ in self.loads if not load.axes.isdisjoint(axes))
        return sum(times > 1 for times in reads.values())

    def itemsize(self) -> int:
        """The widest."""
        return max((buffer.dtype.itemsize for buffer, _ in self.accesses()), default=4)


def _positions(at: Linear) -> int:
    """How many elements there are, at most, by the axes that they lie along."""
    axes = frozenset[Axis]().union(*(atom.axes for atom, _ in at.terms))
    return prod(typical(axis.extent) for axis in axes)
