"""Only what something is made of is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitpkg.codegen.fusion.kernel import (
    Begin,
    Compute,
    Finish,
    Gather,
    Keep,
    Loop,
    Schedule,
    Statement,
    Take,
    Turn,
    Write,
)
from jitpkg.codegen.fusion.statements import uses, uses_of_pair, uses_of_store
from jitpkg.codegen.ir.nodes import Node


def live_only(schedule: Schedule) -> Schedule:
    """The schedule without the values that are no longer used: parts of addresses, which are
    added up as a whole, and what only a value is made of that is taken from memory."""
    return replace(schedule, body=_live(schedule.body, set(), set()))


def _live(body: Sequence[Statement], live: set[Node], taken: set[Node]) -> tuple[Statement, ...]:
    """What is needed of a part of a loop. `live` is what is used behind it, and becomes what is
    used in it; `taken` is what is taken behind it."""
    found: list[Statement] = []
    for statement in reversed(body):
        match statement:
            case Compute(nodes=nodes):
                nodes = tuple(reversed([n for n in reversed(nodes) if _is_used(n, live)]))
                if not nodes:
                    continue
                statement = replace(statement, nodes=nodes)
            case Loop():
                live.update(fold.value for fold in statement.folds)
                statement = replace(statement, body=_live(statement.body, live, taken))
            case Write(store=store):
                live.update(uses_of_store(store))
            case Finish(pair=pair):
                live.update(uses_of_pair(pair))
            case Keep(node=node):
                if node not in taken:
                    continue
                live.add(node)
            case Take(node=node):
                if node not in live:
                    continue
                live.discard(node)
                taken.add(node)
            case Turn(load=load):
                live.update(uses(load))
            case Begin() | Gather():
                pass
        found.append(statement)
    return tuple(reversed(found))


def _is_used(node: Node, live: set[Node]) -> bool:
    """Whether a value is used behind where it is computed; then so is what it is made of."""
    if node not in live:
        return False
    live.discard(node)
    live.update(uses(node))
    return True
