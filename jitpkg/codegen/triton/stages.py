"""From the loops of a kernel to those that are printed, pass by pass."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from jitpkg import events
from jitpkg.codegen.fusion.kernel import Schedule
from jitpkg.codegen.fusion.passes.keep_tiles import keep_tiles
from jitpkg.codegen.fusion.passes.live import live_only
from jitpkg.codegen.fusion.passes.one_pass import in_one_pass
from jitpkg.codegen.fusion.text import text_of_schedule
from jitpkg.codegen.triton.again import read_again
from jitpkg.codegen.triton.blocks import blocks
from jitpkg.codegen.triton.grid import grid
from jitpkg.codegen.triton.tiles import tiles

PASSES = (grid, tiles, blocks, in_one_pass, keep_tiles, live_only, read_again)
"""In this order. What they choose depends on sizes and layouts, and on no GPU."""


def stages(schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
    """The name of each pass, and what it has made. Each stage computes the same."""
    for each in PASSES:
        schedule = each(schedule)
        yield each.__name__, schedule


def scheduled(schedule: Schedule) -> Schedule:
    """The last stage."""
    for name, made in stages(schedule):
        schedule = made
        write = partial(text_of_schedule, made)
        events.STREAM.emit(events.Scheduled(made.kernel.name, name, write))
    return schedule
