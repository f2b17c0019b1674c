"""Which definitions become one kernel.

Definitions are pure, so to put one's value in place of a load of it is right everywhere. What is
decided here is only what that costs: what is computed twice, and what need not go through memory.

1. A view is always read through. What is cheap, or is read once, is computed where it is read.
2. What is left (a *root*) joins the kernel of what it reads, or of what reads the same, if both run
   over the same axes, and if the folds of all can be done row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from jitpkg.codegen.fusion.items import (
    Item,
    Opaque,
    Scattered,
    has_any,
    is_single,
    perhaps_without_positions,
    reads_of,
    reads_once,
    reads_wholly,
    running_axes,
    values_of,
)
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.rows import (
    deep,
    folded_along,
    folded_inside,
    folds_of,
    is_row_by_row,
    most_folded,
    renaming,
    runs,
)
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import Builder, IllegalNode
from jitpkg.codegen.ir.extents import example, same
from jitpkg.codegen.ir.nodes import (
    Apply,
    Axis,
    Buffer,
    Checked,
    Definition,
    Load,
    Node,
    Reduce,
    Scan,
    Store,
    below,
    checks,
    loads,
    written,
)
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Where fusion ends. Compile time and registers grow with a kernel's size."""

    nodes: int = 400
    """Values in one kernel."""
    most: int = 2000
    """The same where several would have to be stored for what comes later: backward graphs compute
    forward values first, and read them in the opposite order. A chain of 200 ops at 1024 x 1024
    takes half of the time that it takes in 13 kernels, and no longer to compile."""
    twice: int = 6
    """Cost (see `ops.cost`) up to which a value with several readers is computed again for each."""
    reads: int = 8
    """Tensors that a value is made of, and is computed where it is read all the same: a gradient is
    a sum of many, and all of them would have to be kept until its end."""
    stores: int = 8
    """Tensors that a kernel is sure to store."""
    again: int = 1 << 12
    """Elements that are folded twice, in two loops of a kernel, sooner than that the result is
    stored for a kernel of its own."""
    deep: int = 4
    """Folds of which each needs the one before. What a fold takes is written out once more for each
    that is inside of it: 50 softmaxes in one kernel take 9 seconds to compile. Nor does it run
    faster: 12 batch norms of 1024 x 1024 take 4.3 ms by twos, 3.8 by fours, 7.5 by twelves."""


@dataclass(eq=False, slots=True)
class _Group:
    """A kernel to be, or an opaque call."""

    number: int
    members: list[Definition] = field(default_factory=list)
    opaque: Opaque | Scattered | None = None
    before: int = 0
    """The groups that must have run, as a set of bits."""
    axes: frozenset[Axis] = frozenset()
    size: int = 0
    reads: set[Buffer] = field(default_factory=set)
    folded: dict[Buffer, tuple[Load, Reduce]] = field(default_factory=dict)
    """A fold of each tensor that is read in folds which depend on no other ones."""
    deep: dict[Buffer, int] = field(default_factory=dict)
    """How many folds an element of each member needs one after another."""
    along: dict[Buffer, dict[int, int]] = field(default_factory=dict)
    """Of each member, on which dims its folds depend."""
    has_folds: bool = False
    """Whether there are folds or running folds."""

    def add(self, item: Definition) -> None:
        self.members.append(item)
        nodes = below(item.value)
        self.size += len(nodes)
        self.has_folds |= has_any(nodes, Reduce, Scan)
        self.axes |= running_axes(item)
        self.reads.update(reads_of(item))
        self.folded = {**folds_of(item.value), **self.folded}
        self.deep[item.buffer] = deep(item.value, self.deep)
        if self.has_folds:
            self.along[item.buffer] = folded_along(item, self.along)

    def remove(self, item: Definition) -> None:
        others = [each for each in self.members if each is not item]
        self.members, self.size, self.axes = [], 0, frozenset()
        self.reads, self.folded, self.deep, self.has_folds = set(), {}, {}, False
        self.along = {}
        for each in others:
            self.add(each)


def fuse(
    items: Sequence[Item], kept: Iterable[Buffer], builder: Builder, limits: Limits | None = None
) -> list[Kernel | Opaque]:
    """Kernels and calls, in an order in which they can run.

    Args:
        items: in the order in which they depend on each other.
        kept: buffers that must be in memory at the end.
    """
    return _Fusion(items, kept, builder, limits or Limits()).run()


class _Fusion:
    def __init__(
        self, items: Sequence[Item], kept: Iterable[Buffer], builder: Builder, limits: Limits
    ) -> None:
        self.items = items
        self.builder = builder
        self.limits = limits
        self.needed = set(kept)
        """What must lie in memory, whatever is fused."""
        self.readers: dict[Buffer, list[Item]] = {}
        self.inlined: dict[Buffer, Definition] = {}
        """What is computed where it is read; values without loads of other inlined ones."""
        self.sizes: dict[Buffer, int] = {}
        self.groups: list[_Group] = []
        self.before = 0
        """The numbers of all groups that another one comes after."""
        self.maker: dict[Buffer, _Group] = {}
        self.last_in_order: _Group | None = None
        self.last_single: _Group | None = None
        """The last kernel that computes single elements, without loops."""
        self.places: dict[Buffer, int] = {}
        """Where a tensor's item stands among all."""
        self.last_read: dict[Buffer, int] = {}
        """And the last one that reads it, or what is made of it on the way."""
        for place, item in enumerate(items):
            if isinstance(item, Definition):
                self.places[item.buffer] = place
            for buffer in reads_of(item):
                self.readers.setdefault(buffer, []).append(item)
                self.last_read[buffer] = place
        for item in reversed(items):
            if isinstance(item, Definition) and len(self.readers.get(item.buffer, ())) == 1:
                last = self.last_read[item.buffer]
                for buffer in reads_of(item):
                    self.last_read[buffer] = max(self.last_read[buffer], last)
            if isinstance(item, Opaque):
                self.needed.update(item.reads)

    def run(self) -> list[Kernel | Opaque]:
        for item in self.items:
            match item:
                case Definition():
                    self._define(item)
                case _:
                    self._call(item)
        return self._ordered()

    # 1. What is computed where it is read

    def _define(self, item: Definition) -> None:
        buffer = item.buffer
        expanded = self._expanded(item)
        nodes = below(expanded.value)
        if self._may_fail_unseen(expanded, nodes):
            self.needed.add(buffer)
        if not self.readers.get(buffer) and buffer not in self.needed:
            return  # nobody wants it
        through = buffer not in self.needed and self._is_read_through(expanded, nodes)
        if through and not self._hides_checks(expanded):
            self.inlined[buffer] = expanded
            return
        self._root(expanded)

    def _may_fail_unseen(self, item: Definition, nodes: Sequence[Node]) -> bool:
        """Whether the tensor has elements with indices out of data that no reader computes."""
        return has_any(nodes, Checked) and not any(
            isinstance(reader, Definition) and reads_wholly(reader, item.buffer)
            for reader in self.readers.get(item.buffer, ())
        )

    def _hides_checks(self, item: Definition) -> bool:
        """Whether a reader's index out of data would not be looked at: along that dim, all elements
        are the same."""
        return any(
            load.buffer is item.buffer
            and (looked_at := checks(*load.index))
            and not looked_at <= checks(self.builder.at(item, load.index))
            for reader in self.readers.get(item.buffer, ())
            for load in loads(*values_of(reader))
        )

    def _expanded(self, item: Definition) -> Definition:
        """With the values of inlined tensors, if that does not become too large."""
        used = [load.buffer for load in loads(item.value) if load.buffer in self.inlined]
        own = len(below(item.value))
        size = 1 + own + sum(self.sizes[buffer] for buffer in used)
        if size > self.limits.nodes:
            size = 1 + own + self._cut(own, used)
        value = self.builder.substitute(item.value, {}, self.inlined) if used else item.value
        self.sizes[item.buffer] = size
        return Definition(item.buffer, item.axes, value)

    def _cut(self, own: int, used: Sequence[Buffer]) -> int:
        """Put the largest of what is read into memory until the rest is small; the rest's size."""
        left = sorted(dict.fromkeys(used), key=lambda buffer: self.sizes[buffer])
        while left and own + sum(self.sizes[buffer] for buffer in left) > self.limits.nodes:
            buffer = left.pop()
            definition = self.inlined.pop(buffer)
            if isinstance(definition.value, Load):
                self.inlined[buffer] = definition  # a view: to store it would gain nothing
                break
            self._root(definition)
        return sum(self.sizes[buffer] for buffer in left)

    def _is_read_through(self, item: Definition, nodes: Sequence[Node]) -> bool:
        if has_any(nodes, Scan):
            return False
        if isinstance(item.value, Load) or not has_any(nodes, Load):
            return True  # a view, or made of nothing
        if has_any(nodes, Reduce):
            return False
        if len(self.readers[item.buffer]) == 1:
            read = {n.buffer for n in nodes if isinstance(n, Load) and n.mask is None}
            return len(read) <= self.limits.reads
        return _cost(nodes) <= self.limits.twice

    # 2. Which roots share a kernel

    def _root(self, item: Definition) -> None:
        item = self._with_rows_inside(item)
        nodes = below(item.value)
        reads = {node.buffer for node in nodes if isinstance(node, Load)}
        size = len(nodes)
        found = self._joinable(item, reads, size)
        if found is None:
            group = _Group(len(self.groups))
            self.groups.append(group)
        else:
            group, item = found
        group.add(item)
        if is_single(item) and not group.axes:
            self.last_single = group
        self._add_before(group, reads)
        self.maker[item.buffer] = group

    def _call(self, item: Opaque | Scattered) -> None:
        group = _Group(len(self.groups), opaque=item)
        self.groups.append(group)
        if isinstance(item, Scattered):
            group.opaque = item = self._scattered(item)
        group.reads.update(reads_of(item))
        self._add_before(group, group.reads)
        if isinstance(item, Opaque) and item.in_order:
            if self.last_in_order is not None:
                group.before |= self.last_in_order.before | 1 << self.last_in_order.number
                self.before |= group.before
            self.last_in_order = group
        for buffer in item.writes if isinstance(item, Opaque) else (item.buffer,):
            self.maker[buffer] = group

    def _scattered(self, item: Scattered) -> Scattered:
        """With what it reads computed on the way, where that is small."""
        values = self.builder.substituted((*item.store.index, item.store.value), {}, self.inlined)
        index, value = values[:-1], values[-1]
        combine = item.store.combine
        if combine is not None:
            value = self.builder.folded_over_idle(combine, value, index, item.axes)
        store = Store(item.buffer, index, value, combine)
        start = self.builder.substitute(item.start.value, {}, self.inlined)
        return Scattered(
            item.buffer, Definition(item.buffer, item.start.axes, start), store, item.axes
        )

    def _add_before(self, group: _Group, reads: Iterable[Buffer]) -> None:
        before = 0
        for buffer in reads:
            maker = self.maker.get(buffer)
            if maker is not None and maker is not group:
                before |= maker.before | 1 << maker.number
        if before | group.before == group.before:
            return
        group.before |= before
        self.before |= before
        bit = 1 << group.number
        if not self.before & bit:
            return  # no group comes after it: it is new, mostly
        for other in self.groups:
            if other.before & bit:
                other.before |= group.before

    def _with_rows_inside(self, item: Definition) -> Definition:
        """With the values of roots that nobody else reads, where each of their folds is done no
        more often than before: of a row of which one element is wanted, no other is stored."""
        for buffer in reads_of(item):
            group = self.maker.get(buffer)
            if group is None or group.opaque is not None or not self._is_only_reader(item, buffer):
                continue
            (member,) = (each for each in group.members if each.buffer is buffer)
            reads_own = any(self.maker.get(each) is group for each in reads_of(member))
            if (
                reads_own
                or has_any(below(member.value), Scan, Checked)
                or self._hides_checks(member)
            ):
                continue
            value = self.builder.substitute(item.value, {}, {buffer: member})
            nodes = below(value)
            if (
                len(nodes) <= self.limits.nodes
                and deep(value, {}) <= self.limits.deep
                and is_row_by_row([value])
                and most_folded(nodes) <= max(most_folded(below(member.value)), runs(item.axes))
                and reads_once(item, buffer)
            ):
                item = Definition(item.buffer, item.axes, value)
                group.remove(member)
                del self.maker[buffer]
        return item

    def _is_only_reader(self, item: Definition, buffer: Buffer) -> bool:
        """Whether a buffer is read for this definition only, on whatever way."""
        while buffer is not item.buffer:
            readers = self.readers.get(buffer, [])
            if buffer in self.needed or len(readers) != 1:
                return False
            (reader,) = readers
            if not isinstance(reader, Definition):
                return False
            buffer = reader.buffer
            if buffer is not item.buffer and buffer not in self.inlined:
                return False
        return True

    def _joinable(
        self, item: Definition, reads: set[Buffer], size: int
    ) -> tuple[_Group, Definition] | None:
        makers = {
            group.number: group
            for buffer in reads
            if (group := self.maker.get(buffer)) is not None and group.opaque is None
        }
        for group in sorted(makers.values(), key=lambda group: -group.number):
            along = self._along(item, group)
            if self._may_join(along, group, reads, size, vertical=True):
                return group, along
        for group in reversed(self.groups[-_NEAR:]):
            shares = group.opaque is None and not reads.isdisjoint(group.reads)
            if not shares:
                continue
            if self._may_join(item, group, reads, size, vertical=False):
                return group, item
            renamed = self._of_the_same_rows(item, group)
            if renamed is not None and self._may_join(renamed, group, reads, size, vertical=True):
                return group, renamed
        single = self.last_single if is_single(item) else None
        if single and self._may_join(item, single, reads, size, vertical=False):
            return single, item
        return None

    def _of_the_same_rows(self, item: Definition, group: _Group) -> Definition | None:
        """The definition over the axes of a group, if a fold of each is of the same rows of a
        tensor: a norm, and statistics of the same data."""
        for buffer, (load, fold) in folds_of(item.value).items():
            other = group.folded.get(buffer)
            renamed = None if other is None else renaming(load, fold, *other)
            if renamed is None:
                continue
            taken = set(renamed.values())
            for axis in item.axes:
                if axis in taken and axis not in renamed:
                    renamed[axis] = self.builder.axis(axis.extent)
            axes = tuple(renamed.get(axis, axis) for axis in item.axes)
            return Definition(item.buffer, axes, self.builder.substitute(item.value, renamed))
        return None

    def _along(self, item: Definition, group: _Group) -> Definition:
        """The definition over the axes of a group that it reads from, where it names them else."""
        renamed: dict[Axis, Axis] = {}
        members = {member.buffer: member for member in group.members}
        for load in loads(item.value):
            member = members.get(load.buffer)
            if member is None:
                continue
            for at, own in zip(load.index, member.axes, strict=True):
                is_same = isinstance(at, Axis) and at in item.axes and same(at.extent, own.extent)
                if isinstance(at, Axis) and is_same and renamed.setdefault(at, own) is not own:
                    return item
        axes = tuple(renamed.get(axis, axis) for axis in item.axes)
        if len(set(axes)) < len(axes) or axes == item.axes:
            return item
        value = self.builder.substitute(item.value, renamed)
        return Definition(item.buffer, axes, value)

    def _is_live(self, group: _Group, item: Definition) -> bool:
        """Whether several of a group's tensors are read here or later, and not kept anyway."""
        here = self.places.get(item.buffer, 0)
        later = (
            each.buffer not in self.needed and self.last_read.get(each.buffer, -1) >= here
            for each in group.members
        )
        return sum(later) > 1

    def _may_join(
        self, item: Definition, group: _Group, reads: set[Buffer], size: int, *, vertical: bool
    ) -> bool:
        if not group.members:
            return False
        if group.size + size > self.limits.nodes and not (
            vertical and group.size + size <= self.limits.most and self._is_live(group, item)
        ):
            return False
        if deep(item.value, group.deep) > self.limits.deep:
            return False
        stores = sum(each.buffer in self.needed for each in (*group.members, item))
        if stores > self.limits.stores:
            return False
        bit = 1 << group.number
        for buffer in reads:
            maker = self.maker.get(buffer)
            if maker is not None and maker is not group and maker.before & bit:
                return False  # something between the two needs the group, and is needed
        running = running_axes(item)
        if perhaps_without_positions(running) != perhaps_without_positions(group.axes):
            return False  # in loops over nothing, nothing is written
        if vertical:
            if not (running <= group.axes or running >= group.axes):
                return False
        elif running != group.axes:
            return False
        inside = {d.buffer: d for d in group.members if d.buffer in reads}
        for load in loads(item.value):
            if load.buffer in inside and not _is_aligned(load, inside[load.buffer], item):
                return False
        if not (group.has_folds or has_any(below(item.value), Reduce, Scan)):
            return True
        if self._folds_again(item, group):
            return False
        value = self.builder.substitute(item.value, {}, inside)
        values = [value, *(member.value for member in group.members)]
        return is_row_by_row(values) and not has_any(below(*values), Scan)

    def _folds_again(self, item: Definition, group: _Group) -> bool:
        """Whether what members fold would be folded once for a fold of the item, and once more."""
        read = [load for load in loads(item.value) if load.buffer in group.along]
        return any(
            folded_inside(load, item, group.along[load.buffer]) > self.limits.again
            and not (
                sum(each.buffer is load.buffer for each in read) == 1
                and self._is_only_reader(item, load.buffer)
            )
            for load in read
        )

    # 3. Kernels

    def _ordered(self) -> list[Kernel | Opaque]:
        found: list[Kernel | Opaque] = []
        done = 0
        left = list(self.groups)
        while left:
            group = next(group for group in left if group.before & ~done == 0)
            left.remove(group)
            done |= 1 << group.number
            found.extend(self._made(group))
        return found

    def _made(self, group: _Group) -> list[Kernel | Opaque]:
        match group.opaque:
            case Opaque():
                return [group.opaque]
            case Scattered():
                return _kernels_of_scatter(group.opaque, group.number)
            case None:
                return [self._kernel(group)] if group.members else []

    def _kernel(self, group: _Group) -> Kernel:
        inside: dict[Buffer, Definition] = {}
        stores = []
        for member in group.members:
            value = self.builder.substitute(member.value, {}, inside)
            member = Definition(member.buffer, member.axes, value)
            inside[member.buffer] = member
            if member.buffer in self.needed or self._is_read_outside(member.buffer, group):
                stores.append(Store(member.buffer, member.axes, value))
        names = "_".join(store.buffer.name for store in stores)
        return kernel_of(f"fused_{names}"[:_LONGEST_NAME], stores)

    def _is_read_outside(self, buffer: Buffer, group: _Group) -> bool:
        return any(buffer in other.reads for other in self.groups if other is not group)


_LONGEST_NAME = 60

_NEAR = 8
"""How many of the last kernels are looked at for one that reads the same."""


def kernel_of(name: str, stores: Sequence[Store]) -> Kernel:
    """A kernel of these writes: loops over all their axes, those of folds outermost.

    Raises:
        IllegalNode: one of them would not be done where there is nothing of another.
    """
    values = written(stores)
    every: dict[Axis, None] = {}
    for store in stores:
        free = store.value.axes.union(*(at.axes for at in store.index))
        every.update(dict.fromkeys(sorted(free, key=lambda axis: axis.serial)))
    nothing = perhaps_without_positions(every)
    if not all(nothing <= frozenset().union(*(at.axes for at in s.index)) for s in stores):
        raise IllegalNode(f"{name} writes inside of a loop over nothing")
    position = _positions(stores)
    # Inside of a loop that it does not depend on, a fold would be done again and again.
    folds = (node for node in below(*values) if isinstance(node, Reduce))
    rows = sorted(dict.fromkeys(fold.axes & frozenset(every) for fold in folds), key=len)
    level = {axis: k for k, axes in reversed(list(enumerate(rows))) for axis in axes}
    order = sorted(every, key=lambda axis: (level.get(axis, len(rows)), position.get(axis, 0)))
    outputs = tuple(dict.fromkeys(store.buffer for store in stores))
    inputs = dict.fromkeys(load.buffer for load in loads(*values) if load.buffer not in outputs)
    return Kernel(name, tuple(order), tuple(stores), tuple(inputs), outputs)


def _positions(stores: Sequence[Store]) -> Mapping[Axis, int]:
    """By strides of the largest tensor that is written: the axis with the longest comes first."""
    largest = max(stores, key=lambda store: len(store.index), default=None)
    if largest is None:
        return {}
    found: dict[Axis, int] = {}
    for at, stride in zip(largest.index, largest.buffer.strides, strict=True):
        if isinstance(at, Axis):
            found[at] = -example(stride)
    return found


def _kernels_of_scatter(item: Scattered, number: int) -> list[Kernel | Opaque]:
    start = Store(item.buffer, item.start.axes, item.start.value)
    first = kernel_of(f"kernel{number}_start", [start])
    return [first, kernel_of(f"kernel{number}", [item.store])]


def _cost(nodes: Sequence[Node]) -> int:
    """What an element takes. To add up an address costs nothing that a load does not."""
    addresses = set(below(*(at for n in nodes if isinstance(n, Load) for at in n.index)))
    free = {n for n in addresses if isinstance(n, Apply) and n.op in ("add", "sub", "mul")}
    return sum(
        ops.cost(node.op) if isinstance(node, Apply) else 2 if isinstance(node, Load) else 0
        for node in nodes
        if node not in free
    )


def _is_aligned(load: Load, member: Definition, item: Definition) -> bool:
    """Whether an element of a kernel's own tensor is read at the position where it is computed, or
    all along a fold: then nothing is computed that is not wanted anyway."""
    bound: set[Node] = set()
    for at, own in zip(load.index, member.axes, strict=True):
        if same(own.extent, 1) or at is own:
            continue
        if not isinstance(at, Axis) or at in item.axes or at in bound:
            return False
        if not same(at.extent, own.extent):
            return False
        bound.add(at)
    return load.mask is None
