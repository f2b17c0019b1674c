"""Tracing on for a while, to see what would happen, and back to where the trace was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitpkg.tracer.state import preserved
from jitpkg.tracer.values import Value
from jitpkg.tracer.vm import VM, Mark


@contextmanager
def lookahead(vm: VM) -> Iterator[Mark]:
    """Inside, the trace goes on. Afterwards all is as before but for the guards: what was read is
    read again, and that it was so is still assumed."""
    before, steps, own_steps = vm.mark(), vm.steps, vm.own_steps
    seen, owners, numbers = vm.seen.copy(), vm.owners.copy(), vm.number_nodes.copy()
    standing, drawn = vm.frames, vm.drawn.copy()
    watch, vm.checkpoint = vm.checkpoint, None  # nobody can leave the trace in there
    try:
        with preserved():
            yield before
    finally:
        guards = vm.guards[before.guards :]
        vm.rollback(before)
        vm.guards.extend(guards)
        vm.seen, vm.owners, vm.number_nodes = seen, owners, numbers
        vm.frames, vm.drawn, vm.checkpoint = standing, drawn, watch
        vm.steps, vm.own_steps = steps, own_steps


def changed(vm: VM, since: Mark) -> list[Value]:
    """The values that the trace had made by then of which something has changed."""
    known = vm.heap.as_of(since.heap).known()
    return [value for value, _ in vm.heap.since(since.heap) if value in known]
