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
    Statement,
    Take,
    Write,
)
from jitpkg.codegen.fusion.statements import statements
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.ir.nodes import Apply, Load, Node, operands
from jitpkg.dataclass import dataclass

DEAR = 12
"""What is worth a store and a load, in units of `ops.cost`."""

LONGEST = 1 << 18
"""Bytes of all rows of values; they lie on the stack, and should stay in the second cache."""


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
        for k, later in enumerate(loops):
            for earlier in loops[:k]:
                alike = earlier.axis is later.axis and earlier.kind == later.kind
                if alike and same(earlier.extent, later.extent):
                    self._look_for(earlier, later)

    def _look_for(self, earlier: Loop, later: Loop) -> None:
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
            if later.extent * (self.width + more) <= LONGEST:
                taken.add(node)
                self.kept.setdefault(earlier, set()).add(node)
                self.nodes.add(node)
                self.width += more

    def written(self, statement: Statement) -> Statement:
        """A statement with what is kept and taken in it."""
        if not isinstance(statement, Loop):
            return statement
        kept, taken = self.kept.get(statement, set()), self.taken.get(statement, set())
        body: list[Statement] = []
        for each in statement.body:
            if isinstance(each, Compute):
                body.extend(parted(each.nodes, kept, taken))
            else:
                body.append(self.written(each))
        return replace(statement, body=tuple(body))


def parted(nodes: Sequence[Node], kept: set[Node], taken: set[Node]) -> Iterator[Statement]:
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
        yield Take(node) if node in taken else Keep(node)
    if here:
        yield Compute(tuple(here))


def _computed(loop: Loop) -> Iterator[Node]:
    for statement in loop.body:
        if isinstance(statement, Compute):
            yield from (node for node in statement.nodes if isinstance(node, Apply | Load))
