"""What several loops over the same whole tile compute is computed once, and stays in registers."""

from __future__ import annotations

from dataclasses import replace

from jitpkg.codegen.fusion.kernel import Compute, Keep, Loop, Schedule, Statement, Take, Tile
from jitpkg.codegen.ir.nodes import Node


def keep_tiles(schedule: Schedule) -> Schedule:
    """The schedule with all values of whole tiles kept, and taken by later loops over the same one.
    What nobody uses `live_only` drops."""
    return replace(schedule, body=_block(schedule.body, {}))


def _block(body: tuple[Statement, ...], known: dict[Node, Tile]) -> tuple[Statement, ...]:
    """Part of a program. `known` is what is in registers, and becomes what is behind it."""
    return tuple(
        replace(each, body=_inside(each, known)) if isinstance(each, Loop) else each
        for each in body
    )


def _inside(loop: Loop, known: dict[Node, Tile]) -> tuple[Statement, ...]:
    match loop.kind:
        case Tile(whole=True) as tile:
            made: list[Statement] = []
            for each in loop.body:
                if isinstance(each, Compute):
                    made.extend(_kept(each, tile, known))
                else:
                    made.extend(_block((each,), known))
            return tuple(made)
        case _:  # what becomes known in an iteration is not known behind the loop
            before = {n: tile for n, tile in known.items() if loop.axis not in n.axes}
            return _block(loop.body, before)


def _kept(compute: Compute, tile: Tile, known: dict[Node, Tile]) -> list[Statement]:
    """What computes the rest of these values. Those of one statement are taken before it and kept
    behind it, so that it stays in one piece."""
    taken = [node for node in compute.nodes if known.get(node) == tile]
    rest = tuple(node for node in compute.nodes if node not in taken)
    known.update(dict.fromkeys(rest, tile))
    made: list[Statement] = [Take(node) for node in taken]
    return [*made, Compute(rest), *map(Keep, rest)] if rest else made
