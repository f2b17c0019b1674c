"""What printers ask of a schedule: where elements lie, what is computed, how long loops are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from jitpkg.codegen.fusion.kernel import Compute, Loop, Statement, Tile, Write
from jitpkg.codegen.fusion.online import Pair, Powers
from jitpkg.codegen.ir.extents import example, same, varies
from jitpkg.codegen.ir.nodes import (
    Apply,
    Axis,
    Buffer,
    Checked,
    Const,
    Extent,
    Given,
    Load,
    Node,
    Reduce,
    Scan,
    Store,
)
from jitpkg.codegen.ir.ranges import Linear

USUAL = 512
"""What is expected of an extent that varies and is less in the example."""


def typical(extent: int) -> int:
    """About how long a loop is, where that decides on speed only."""
    return max(example(extent), USUAL) if varies(extent) else extent


def span(buffer: Buffer) -> Extent:
    """How many elements its memory has."""
    far: Extent = 1
    for size, stride in zip(buffer.sizes, buffer.strides, strict=True):
        far = far + (size - 1) * stride
    return 0 if any(same(size, 0) for size in buffer.sizes) else far


def offset(buffer: Buffer, index: Sequence[Node]) -> Linear:
    """Where an element lies, in elements."""
    whole = Linear((), 0)
    for at, stride in zip(index, buffer.strides, strict=True):
        if not same(stride, 0):
            whole = whole.plus(Linear.of(at).times(stride))
    return whole


def bytes_apart(access: Load | Store, axis: Axis) -> int:
    """How far an axis moves an access in memory, about."""
    step = example(offset(access.buffer, access.index).factor(axis))
    return abs(step) * access.buffer.dtype.itemsize


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """All, those inside of loops too."""
    stack = list(reversed(body))
    while stack:
        statement = stack.pop()
        yield statement
        if isinstance(statement, Loop):
            stack.extend(reversed(statement.body))


def loops(body: Sequence[Statement]) -> Iterator[Loop]:
    """All, those inside of others too."""
    return (each for each in statements(body) if isinstance(each, Loop))


def scans(loop: Loop) -> list[Scan]:
    """Running folds that a loop carries, in the order in which they become known."""
    return [
        node
        for statement in statements(loop.body)
        if isinstance(statement, Compute)
        for node in statement.nodes
        if isinstance(node, Scan) and node.along is loop.axis
    ]


def carriers(loop: Loop, fold: Reduce) -> list[Loop]:
    """The loops that carry a fold, from this one inwards."""
    return [each for each in (loop, *loops(loop.body)) if fold in each.folds]


def is_at_once(loop: Loop, fold: Reduce) -> bool:
    """Whether the loops that carry a fold, from this one inwards, are whole tiles."""
    return all(
        isinstance(each.kind, Tile) and each.kind.whole and not same(each.extent, 0)
        for each in carriers(loop, fold)
    )


def accesses(body: Sequence[Statement]) -> Iterator[Load | Store]:
    """All that is read and written, in order."""
    for statement in statements(body):
        if isinstance(statement, Compute):
            yield from (node for node in statement.nodes if isinstance(node, Load))
        elif isinstance(statement, Write):
            yield statement.store


def needed(stores: Iterable[Store]) -> frozenset[Node]:
    """The nodes whose values something is computed from that is stored, inside of folds too."""
    stack = [node for store in stores for node in uses_of_store(store)]
    found: set[Node] = set()
    while stack:
        node = stack.pop()
        if node not in found and not isinstance(node, Const | Given):
            found.add(node)
            stack.extend([node.value] if isinstance(node, Reduce) else uses(node))
    return frozenset(found)


def uses(node: Node) -> Sequence[Node]:
    """The values that a node is computed from, inside of the loops that carry folds."""
    match node:
        case Load(buffer=buffer, index=index, mask=mask):
            atoms = _atoms(buffer, index)
            return atoms if mask is None else [*atoms, mask]
        case Apply(args=args):
            return args
        case Checked(index=at):
            return (at,)
        case Scan(value=value):
            return (value,)
        case _:
            return ()


def uses_of_store(store: Store) -> Sequence[Node]:
    """The values that a write takes."""
    return [store.value, *_atoms(store.buffer, store.index)]


def uses_of_pair(pair: Pair) -> Sequence[Node]:
    """The values that its second fold is finished with."""
    return (pair.shift,) if isinstance(pair, Powers) else (pair.mean,)


def _atoms(buffer: Buffer, index: Sequence[Node]) -> list[Node]:
    return [atom for atom, _ in offset(buffer, index).terms if not isinstance(atom, Axis)]
