"""The values of a kernel: scalar expressions over integer axes, and the tensors they define.

A tensor is given by its element at an index: `t[i, j] = exp(a[i, j]) * b[j]`. Definitions are pure,
so a load of `t` may be replaced by its definition at the load's index anywhere: that is fusion.

Nodes are made by a `Builder` only, which makes equal nodes one object.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from jitpkg.codegen.ir.extents import same
from jitpkg.dataclass import dataclass

Extent = int
"""How often an axis runs; how long a dim is. May vary: see `extents`."""


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """Memory that a tensor lies in, as kernels see it."""

    name: str
    dtype: torch.dtype
    sizes: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    """In elements; the first element is where the pointer points."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """What all kinds have."""

    dtype: torch.dtype
    serial: int
    """In the order of making: operands have smaller ones."""
    axes: frozenset[Axis]
    """Those that the value depends on."""


@dataclass(frozen=True, eq=False, slots=True)
class Axis(Node):
    """An integer that runs from 0 to below its extent."""

    extent: Extent


@dataclass(frozen=True, eq=False, slots=True)
class Const(Node):
    """A number; floats are exact for their dtype, NaN and infinities included."""

    value: bool | int | float


@dataclass(frozen=True, eq=False, slots=True)
class Given(Node):
    """An int64 that the kernel is given: a size or a stride that varies, or made of such."""

    value: Extent


@dataclass(frozen=True, eq=False, slots=True)
class Load(Node):
    """An element of a buffer; zero where the mask is false, and then nothing is read."""

    buffer: Buffer
    index: tuple[Node, ...]
    mask: Node | None


@dataclass(frozen=True, eq=False, slots=True)
class Apply(Node):
    """A scalar op of the table in `ops`. `dtype` says what a cast casts to."""

    op: str
    args: tuple[Node, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Checked(Node):
    """An index that comes from data: negative ones count from the end. What lies outside makes the
    kernel fail with an index error, before anybody sees its results."""

    index: Node
    extent: Extent


@dataclass(frozen=True, eq=False, slots=True)
class Reduce(Node):
    """A fold of `value` over axes that are bound here. See `ops.REDUCTIONS`."""

    op: str
    value: Node
    over: tuple[Axis, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Scan(Node):
    """A running fold of `value` along one of its axes, up to that axis' own position."""

    op: str
    value: Node
    along: Axis


Value = Axis | Const | Given | Load | Apply | Checked | Reduce | Scan
"""The closed union."""


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """A tensor: for each index its element."""

    buffer: Buffer
    axes: tuple[Axis, ...]
    """One for each dim."""
    value: Node

    @property
    def sizes(self) -> tuple[Extent, ...]:
        return self.buffer.sizes

    @property
    def dtype(self) -> torch.dtype:
        return self.buffer.dtype


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """A write of one element for each position of the axes of `index` and `value`."""

    buffer: Buffer
    index: tuple[Node, ...]
    value: Node
    combine: str | None = None
    """None writes; the name of a reduction combines with what is there (a scatter)."""


def operands(node: Node) -> tuple[Node, ...]:
    """The nodes that a node is made of."""
    match node:
        case Apply(args=args):
            return args
        case Load(index=index, mask=mask):
            return index if mask is None else (*index, mask)
        case Checked(index=index):
            return (index,)
        case Reduce(value=value) | Scan(value=value):
            return (value,)
        case _:
            return ()


def below(*roots: Node) -> list[Node]:
    """All nodes that these are made of and themselves, operands first."""
    found: dict[Node, None] = {}
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node in found:
            continue
        missing = [each for each in operands(node) if each not in found]
        if missing:
            stack.append(node)
            stack.extend(missing)
        else:
            found[node] = None
    return list(found)


def loads(*roots: Node) -> list[Load]:
    return [node for node in below(*roots) if isinstance(node, Load)]


def checks(*roots: Node) -> set[Checked]:
    """The tests of indices that computing these does: a dim of stride 0 is not looked at."""
    found: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        if isinstance(node, Load):
            places = zip(node.index, node.buffer.strides, strict=True)
            stack.extend(at for at, step in places if not same(step, 0))
            stack.extend([] if node.mask is None else [node.mask])
        else:
            stack.extend(operands(node))
    return {node for node in found if isinstance(node, Checked)}


def written(stores: Iterable[Store]) -> list[Node]:
    """The values that stores write, and the places: a kernel computes what is below these."""
    return [node for store in stores for node in (*store.index, store.value)]
