"""From the loops of a kernel to those that are printed, pass by pass."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from jitpkg import events
from jitpkg.codegen.cpu.chunks import chunks
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.lanes import vectorise
from jitpkg.codegen.fusion.kernel import Schedule
from jitpkg.codegen.fusion.passes.hoist_rows import hoist_rows
from jitpkg.codegen.fusion.passes.keep_rows import keep_rows
from jitpkg.codegen.fusion.passes.live import live_only
from jitpkg.codegen.fusion.text import text_of_schedule


def stages(schedule: Schedule, host: Host) -> Iterator[tuple[str, Schedule]]:
    """The name of each pass, and what it has made. Each stage computes the same."""
    schedule = live_only(schedule)
    yield "live_only", schedule
    schedule = vectorise(schedule, host)
    yield "vectorise", schedule
    # What is cut becomes functions of their own, which find nothing that another one has kept.
    is_whole = chunks(schedule, host) is None
    if is_whole:
        schedule = hoist_rows(schedule)
        yield "hoist_rows", schedule
    schedule = keep_rows(schedule, outermost=is_whole)
    yield "keep_rows", schedule
    schedule = live_only(schedule)
    yield "live_only", schedule


def scheduled(schedule: Schedule, host: Host) -> Schedule:
    """The last stage."""
    for name, made in stages(schedule, host):
        schedule = made
        write = partial(text_of_schedule, made)
        events.STREAM.emit(events.Scheduled(made.kernel.name, name, write))
    return schedule
