"""What loops along the same axis, one after another, compute more than once is kept in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

import torch

from jitpkg.codegen.fusion.kernel import (
    Compute,
    Keep,
    Lanes,
    Loop,
    Schedule,
    Serial,
    Statement,
    Take,
    Write,
)
from jitpkg.codegen.fusion.statements import statements
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.ir.nodes import Apply, Axis, Load, Node, operands
from jitpkg.dataclass import dataclass

DEAR = 12
"""What is worth a store and a load, in units of `ops.cost`."""

LONGEST = 1 << 18
"""Bytes of all rows of values; they lie on the stack, and should stay in the second cache."""


LARGEST = 1 << 19
"""The same of columns, of which all rows are kept."""


def keep_rows(schedule: Schedule) -> Schedule:
    """The schedule with a value kept by the first of several loops in lanes that compute it."""
    rows = _Rows()
    rows.look(schedule.body)
    return replace(schedule, body=tuple(map(rows.written, schedule.body)))


@dataclass(eq=False, slots=True)
class _Rows:
    """What is kept, and by which loops."""

    kept: dict[Loop, set[Node]] = field(default_factory=dict)
    taken: dict[Loop, set[Node]] = field(default_factory=dict)
    nodes: set[Node] = field(default_factory=set)
    width: int = 0
    """Bytes of all of them at one position."""

    def look(self, body: Sequence[Statement]) -> None:
        for statement in body:
            if isinstance(statement, Loop) and not isinstance(statement.kind, Lanes):
                self.look(statement.body)
        loops = [x for x in body if isinstance(x, Loop) and isinstance(x.kind, Lanes)]
        self._look_in(loops, 1, LONGEST)
        for each in loops:
            if type(each.extent) is int:
                columns = [x for x in each.body if isinstance(x, Loop) and _is_column(x)]
                self._look_in(columns, -(-each.extent // each.lanes) * each.lanes, LARGEST)

    def _look_in(self, loops: Sequence[Loop], times: int, most: int) -> None:
        for k, later in enumerate(loops):
            for earlier in loops[:k]:
                alike = earlier.axis is later.axis and earlier.kind == later.kind
                if alike and same(earlier.extent, later.extent):
                    self._look_for(earlier, later, times, most)

    def _look_for(self, earlier: Loop, later: Loop, times: int, most: int) -> None:
        """
        Args:
            times: how often the loops run, and keep something.
            most: bytes of all that is kept.
        """
        before = set(_computed(earlier))
        both = {node: 0.0 for node in _computed(later) if node in before}
        roots: list[Node] = [fold.value for fold in later.folds]
        for statement in statements(later.body):
            if isinstance(statement, Write):
                roots.extend((statement.store.value, *statement.store.index))
            elif isinstance(statement, Compute):
                for node in statement.nodes:
                    if node in both:
                        own = ops.cost(node.op) if isinstance(node, Apply) else 0
                        both[node] = own + sum(both.get(each, 0) for each in operands(node))
                    else:
                        roots.extend(operands(node))
        taken = self.taken.setdefault(later, set())
        for node in dict.fromkeys(roots):
            if node in taken or both.get(node, 0) < DEAR or node.dtype is torch.bool:
                continue
            more = 0 if node in self.nodes else node.dtype.itemsize
            if later.extent * times * (self.width + more) <= most:
                taken.add(node)
                self.kept.setdefault(earlier, set()).add(node)
                self.nodes.add(node)
                self.width += more

    def written(self, statement: Statement) -> Statement:
        """A statement with what is kept and taken in it."""
        if not isinstance(statement, Loop):
            return statement
        kept, taken = self.kept.get(statement, set()), self.taken.get(statement, set())
        along = None if isinstance(statement.kind, Lanes) else statement.axis
        body: list[Statement] = []
        for each in statement.body:
            if isinstance(each, Compute):
                body.extend(parted(each.nodes, kept, taken, along))
            else:
                body.append(self.written(each))
        return replace(statement, body=tuple(body))


def _is_column(loop: Loop) -> bool:
    """Whether a loop inside of one in lanes has nothing but values, and how many is known."""
    plain = all(isinstance(each, Compute | Write) for each in loop.body)
    return isinstance(loop.kind, Serial) and plain and type(loop.extent) is int


def parted(
    nodes: Sequence[Node], kept: set[Node], taken: set[Node], along: Axis | None = None
) -> Iterator[Statement]:
    """What computes these nodes, keeps some and takes others."""
    here: list[Node] = []
    for node in nodes:
        if node not in taken:
            here.append(node)
        if node not in taken and node not in kept:
            continue
        if here:
            yield Compute(tuple(here))
        here = []
        yield Take(node, along) if node in taken else Keep(node, along)
    if here:
        yield Compute(tuple(here))


def _computed(loop: Loop) -> Iterator[Node]:
    for statement in loop.body:
        if isinstance(statement, Compute):
            yield from (node for node in statement.nodes if isinstance(node, Apply | Load))
