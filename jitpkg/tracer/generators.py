"""Generators that the trace has made: their frames are traced from yield to yield."""

from __future__ import annotations

from typing import NoReturn

from jitpkg.tracer import handlers, reasons
from jitpkg.tracer.exceptions import raise_, raise_from
from jitpkg.tracer.frames import Frame, Return
from jitpkg.tracer.values import NONE, Generator, Object, Value
from jitpkg.tracer.vm import VM, Raised

SUSPENDED = 1
"""The position of a generator that waits at a `yield`."""
MUST_FINISH = 2
"""The same, inside a `try` or `with`: to be dropped here would run the program's code."""


def resume(
    vm: VM, generator: Generator, sent: Value, raising: Object | None = None
) -> tuple[Value | None, Value | None]:
    """Run a generator to its next yield: (what it yielded, None), or (None, what it returned).

    `raising` is raised where it waits.
    """
    frame = vm.heap.read(generator, "frame")
    if not isinstance(frame, Frame):
        if raising is not None:
            raise Raised(raising)
        return None, NONE
    if frame in vm.frames:
        vm.raise_new(ValueError, "generator already executing")
    started = vm.heap.read(generator, "position") is not None
    if raising is not None and (not started or _delegates(frame)):
        if started:
            vm.stop(reasons.UNSUPPORTED, "throw() through yield from")
        vm.heap.write(generator, "frame", "finished")
        raise Raised(raising)
    vm.heap.write(generator, "position", SUSPENDED)
    if started and raising is None:
        frame.push(sent)
    elif raising is None and not vm.same(sent, NONE):
        vm.raise_new(TypeError, "can't send non-None value to a just-started generator")
    vm.heap.write(generator, "frame", "running")
    try:
        finished = vm.resume_frame(frame, raising)
    except Raised as raised:
        vm.heap.write(generator, "frame", "finished")
        if issubclass(raised.value.cls, StopIteration):
            raise_from(vm, RuntimeError, "generator raised StopIteration", raised.value)
        raise
    if isinstance(finished, Return):
        vm.heap.write(generator, "frame", "finished")
        return None, finished.value
    vm.heap.write(generator, "frame", frame)
    if handlers.handles_exit(frame):
        vm.heap.write(generator, "position", MUST_FINISH)
    return finished.value, None


def _delegates(frame: Frame) -> bool:
    """Whether a generator waits in a `yield from`."""
    return frame.program.ops[frame.at].name == "JUMP"


def must_finish(vm: VM) -> bool:
    """Whether a generator waits where dropping it would run the program's code."""
    return any(
        vm.heap.read(generator, "position") == MUST_FINISH
        and vm.heap.read(generator, "frame") != "finished"
        for generator in vm.generators
    )


def throw(vm: VM, generator: Generator, exception: Object) -> Value:
    """`generator.throw(exception)`"""
    yielded, result = resume(vm, generator, NONE, exception)
    if yielded is None:
        assert result is not None
        stop_iteration(vm, result)
    return yielded


def stop_iteration(vm: VM, result: Value) -> NoReturn:
    """Raise StopIteration with what a generator returned."""
    args = () if vm.same(result, NONE) else (result,)
    raise_(vm, vm.look(vm.call(vm.trusted(StopIteration), args)))


def close(vm: VM, generator: Generator) -> None:
    """`generator.close()`"""
    if vm.heap.read(generator, "position") is None:
        vm.heap.write(generator, "frame", "finished")
    if not isinstance(vm.heap.read(generator, "frame"), Frame):
        return
    exception = vm.look(vm.call(vm.trusted(GeneratorExit), ()))
    assert isinstance(exception, Object)
    try:
        yielded, result = resume(vm, generator, NONE, exception)
    except Raised as raised:
        if issubclass(raised.value.cls, GeneratorExit):
            return
        raise
    if yielded is not None:
        vm.raise_new(RuntimeError, "generator ignored GeneratorExit")
    if result is not None and not vm.same(result, NONE):
        vm.stop(reasons.UNSUPPORTED, "close() of a generator that returns a value")


def delegate(vm: VM, iterator: Value, sent: Value) -> tuple[Value | None, Value | None]:
    """One step of `yield from`: (what came, None), or (None, the result)."""
    iterator = vm.look(iterator)
    if isinstance(iterator, Generator):
        return resume(vm, iterator, sent)
    if not vm.same(sent, NONE):
        vm.stop(reasons.UNSUPPORTED, "send() through yield from into something else")
    item = vm.advance(iterator)
    return (None, NONE) if item is None else (item, None)
