"""What printers ask of a schedule: where elements lie, what is computed, how long loops are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitpkg.codegen.fusion.kernel import Loop, Statement, Write
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
    Scan,
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


def needed(body: Sequence[Statement]) -> frozenset[Node]:
    """The nodes whose values something is computed from, or stored."""
    stack: list[Node] = []
    for statement in statements(body):
        if isinstance(statement, Write):
            stack.append(statement.store.value)
            stack.extend(_atoms(statement.store.buffer, statement.store.index))
        elif isinstance(statement, Loop):
            stack.extend(fold.value for fold in statement.folds)
    found: set[Node] = set()
    while stack:
        node = stack.pop()
        if node in found or isinstance(node, Const | Given):
            continue
        found.add(node)
        match node:
            case Load(buffer=buffer, index=index, mask=mask):
                stack.extend(_atoms(buffer, index))
                if mask is not None:
                    stack.append(mask)
            case Apply(args=args):
                stack.extend(args)
            case Checked(index=at):
                stack.append(at)
            case Scan(value=value):
                stack.append(value)
            case _:
                pass
    return frozenset(found)


def _atoms(buffer: Buffer, index: Sequence[Node]) -> list[Node]:
    return [atom for atom, _ in offset(buffer, index).terms if not isinstance(atom, Axis)]
