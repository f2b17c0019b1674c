"""From the loops of a kernel to those that are printed, pass by pass."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from jitpkg import events
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.lanes import vectorise
from jitpkg.codegen.fusion.kernel import Chunks, Loop, Schedule
from jitpkg.codegen.fusion.passes.ask_ahead import ask_ahead
from jitpkg.codegen.fusion.passes.block_sums import block_sums
from jitpkg.codegen.fusion.passes.hoist_rows import hoist_rows
from jitpkg.codegen.fusion.passes.interchange import interchange
from jitpkg.codegen.fusion.passes.keep_rows import keep_rows
from jitpkg.codegen.fusion.passes.live import live_only
from jitpkg.codegen.fusion.passes.room import Room
from jitpkg.codegen.fusion.passes.rows_together import rows_together
from jitpkg.codegen.fusion.passes.share import share_chunks, share_parts
from jitpkg.codegen.fusion.passes.turn_rows import turn_rows
from jitpkg.codegen.fusion.text import text_of_schedule

ROOM = 1 << 20
"""Bytes of the stack for rows that are turned and for what columns carry: threads have a few
megabytes. It should stay in the second cache, too."""


def stages(schedule: Schedule, host: Host) -> Iterator[tuple[str, Schedule]]:
    """The name of each pass, and what it has made. Each stage computes the same."""
    schedule = live_only(schedule)
    yield "live_only", schedule
    schedule = vectorise(schedule, host)
    yield "vectorise", schedule
    schedule = rows_together(schedule, host.cache, host.bits // 32)
    yield "rows_together", schedule
    if host.parallel:
        schedule = share_chunks(schedule, host.grain)
        yield "share_chunks", schedule
    # Chunks become functions of their own, which find nothing that another one has kept.
    if not any(isinstance(x, Loop) and isinstance(x.kind, Chunks) for x in schedule.body):
        schedule = hoist_rows(schedule)
        yield "hoist_rows", schedule
    schedule = keep_rows(schedule)
    yield "keep_rows", schedule
    if host.parallel:
        schedule = share_parts(schedule)
        yield "share_parts", schedule
    room = Room(ROOM)
    schedule = interchange(schedule, room)
    yield "interchange", schedule
    schedule = turn_rows(schedule, room)
    yield "turn_rows", schedule
    schedule = block_sums(schedule)
    yield "block_sums", schedule
    schedule = live_only(schedule)
    yield "live_only", schedule
    schedule = ask_ahead(schedule)
    yield "ask_ahead", schedule


def scheduled(schedule: Schedule, host: Host) -> Schedule:
    """The last stage."""
    for name, made in stages(schedule, host):
        schedule = made
        write = partial(text_of_schedule, made)
        events.STREAM.emit(events.Scheduled(made.kernel.name, name, write))
    return schedule
