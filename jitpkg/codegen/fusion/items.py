"""What fusion is given: definitions, calls, and writes to places that come out of data."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from jitpkg.codegen.fusion.rows import runs
from jitpkg.codegen.ir.extents import example, less, same
from jitpkg.codegen.ir.nodes import (
    Axis,
    Buffer,
    Definition,
    Node,
    Reduce,
    Scan,
    Store,
    below,
    loads,
)
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Opaque:
    """A call that is not ours: it reads and fills memory."""

    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    call: object
    """What the caller knows it by."""
    in_order: bool = False
    """Whether it runs behind all others of these that stand before it."""


@dataclass(frozen=True, eq=False, slots=True)
class Scattered:
    """A tensor that is another one, with elements written to places that come out of data."""

    buffer: Buffer
    start: Definition
    """What it is before the writes, of the same sizes."""
    store: Store
    """Into `buffer`."""
    axes: tuple[Axis, ...]
    """Over which the writes go."""


Item = Definition | Scattered | Opaque


def values_of(item: Item) -> tuple[Node, ...]:
    """The nodes that it computes."""
    match item:
        case Definition(value=value):
            return (value,)
        case Scattered(start=start, store=store):
            return start.value, *store.index, store.value
        case Opaque():
            return ()


def reads_of(item: Item) -> tuple[Buffer, ...]:
    """The tensors that it reads, each once."""
    if isinstance(item, Opaque):
        return tuple(dict.fromkeys(item.reads))
    return tuple(dict.fromkeys(load.buffer for load in loads(*values_of(item))))


def running_axes(item: Definition) -> frozenset[Axis]:
    """Those with more than one position."""
    return frozenset(axis for axis in item.axes if not same(axis.extent, 1))


def perhaps_without_positions(axes: Iterable[Axis]) -> frozenset[Axis]:
    """Those of no extent, or of one that varies and may be 0."""
    return frozenset(axis for axis in axes if not less(0, axis.extent))


def is_single(item: Definition) -> bool:
    """Whether it is one element, computed without a loop."""
    return not running_axes(item) and not has_any(below(item.value), Reduce, Scan)


def reads_wholly(item: Definition, buffer: Buffer) -> bool:
    """Whether a load of a buffer goes over all of its elements."""
    for load in loads(item.value):
        places = list(zip(load.index, load.buffer.sizes, strict=True))
        axes = [at for at, size in places if not same(size, 1)]
        sizes = [size for size in load.buffer.sizes if not same(size, 1)]
        if (
            load.buffer is buffer
            and load.mask is None
            and len(set(axes)) == len(axes)
            and all(
                isinstance(a, Axis) and same(a.extent, n) for a, n in zip(axes, sizes, strict=True)
            )
        ):
            return True
    return False


def reads_once(item: Definition, buffer: Buffer) -> bool:
    """Whether there is one load of a buffer, done no more often than the buffer has elements."""
    found = [load for load in loads(item.value) if load.buffer is buffer]
    return len(found) == 1 and runs(found[0].axes) <= prod(map(example, buffer.sizes))


def has_any(nodes: Iterable[Node], *kinds: type[Node]) -> bool:
    """Whether there is a node of one of these kinds."""
    return any(isinstance(node, kinds) for node in nodes)
