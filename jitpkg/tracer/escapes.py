"""How an exception that an op raises at run time leaves the traced program.

Where something has been written by then, the original code cannot begin again. If all handlers on
the exception's way only let it pass (a `finally` or an `__exit__` that puts something back), they
are traced here, and what they do is replayed when the op has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

import torch

from jitpkg.code.dialect import Program
from jitpkg.dataclass import dataclass
from jitpkg.facts.thread_state import setters, snapshot
from jitpkg.guards.metadata import TensorIs
from jitpkg.internals import modes
from jitpkg.tracer import exceptions, handlers, reasons
from jitpkg.tracer.effects import effect_operands
from jitpkg.tracer.frames import Frame
from jitpkg.tracer.lookahead import lookahead
from jitpkg.tracer.values import Kept, Object, Tensor
from jitpkg.tracer.vm import VM, Escape, Raised, Stopped


def of_op(vm: VM, name: str, *, is_last: bool, by_program: bool) -> Escape:
    """See `VM.escape`."""
    escape = _of_op(vm, name, is_last=is_last, by_program=by_program)
    if (vm.effects or escape.effects) and vm.int_values() and _is_reshaped(vm):
        vm.stop(reasons.UNSUPPORTED, f"{name} after the sizes of a tensor were changed in place")
    return escape


def _is_reshaped(vm: VM) -> bool:
    """Whether an existing tensor has other sizes than the guards say: where a graph has failed,
    what they were is not found any more."""
    now = {t.source: vm.facts(t) for t in vm.reshaped if t.source is not None}
    if not now:
        return False  # without a look at all guards for each op
    before = {g.at: g.facts for g in vm.guards if isinstance(g, TensorIs) and g.at in now}
    return any(
        (before[at].size, before[at].stride) != (facts.size, facts.stride)
        for at, facts in now.items()
        if at in before
    )


def _of_op(vm: VM, name: str, *, is_last: bool, by_program: bool) -> Escape:
    past = _is_past(vm)
    is_caught = past and not vm.around.passes
    if is_last and not all(isinstance(e, Kept) for frame in vm.frames for e in frame.handled):
        _stop(vm, name)  # it would be the __context__ of what the op raises
    handled = [handlers.handles_op(vm, frame, by_program=by_program) for frame in vm.frames]
    if not is_caught and not any(handled) and not vm.sets_modes:
        return Escape(past)
    if not is_last:
        vm.rewinds = True
        return Escape(past)
    # A handler that covers the region's begin is Python's business, with the locals of then.
    by_python = bool(vm.around.covering) and not past
    if is_caught or (by_python and handled[0]):
        _stop(vm, name)
    frames = vm.frames[by_python:]
    standing = (by_program, *_standing(vm, frames))
    known = vm.escaped
    known_again = known is not None and _is_as_then(vm, known, standing)
    escape = known.escape if known_again else _traced(vm, name, frames, by_program=by_program)
    vm.escaped = Escaped(standing, _modes(vm), vm.heap.mark(), escape)
    return replace(escape, past=past)


@dataclass(frozen=True, slots=True)
class Escaped:
    """How an op's exception has left the program, and where that was: ops in a row leave alike."""

    standing: tuple[object, ...]
    """What of the frames handlers can see, and the frames."""
    modes: tuple[object, ...]
    mark: int
    """The heap's."""
    escape: Escape


def _standing(vm: VM, frames: Sequence[Frame]) -> tuple[object, ...]:
    """The frames in which something covers the op, with what is in them."""
    found: list[object] = []
    for frame in frames:
        if frame.program.handler(frame.program.ops[frame.at - 1]) is not None:
            found += (frame, frame.at, *frame.locals, *frame.stack, *frame.handled)
    return tuple(found)


def _modes(vm: VM) -> tuple[object, ...]:
    return len(vm.effects), vm.sets_modes, torch.is_grad_enabled()


def _is_as_then(vm: VM, known: Escaped, standing: tuple[object, ...]) -> bool:
    """Whether handlers find what they found then: nothing has changed but what lies
    in tensors."""
    if modes.ANY_AUTOCAST.get()() or known.modes != _modes(vm):
        return False
    if len(standing) != len(known.standing) or vm.heap.mark() < known.mark:
        return False
    alike = all(
        a is b or (type(a) is int and a == b) for a, b in zip(standing, known.standing, strict=True)
    )
    written = vm.heap.since(known.mark)
    return alike and all(isinstance(v, Tensor) and slot != "attributes" for v, slot in written)


def covering(program: Program, index: int) -> tuple[int, ...]:
    """The instructions at which the handlers begin that an exception at one comes to, one after
    the other. The one may be no operation of the dialect: a `pass` at the end of a `try`."""
    found: list[int] = []
    covered = program.decoded.instructions[index].covered
    while covered is not None and covered.handler not in found:
        found.append(covered.handler)
        covered = program.decoded.instructions[covered.handler].covered
    return tuple(found)


def _is_past(vm: VM) -> bool:
    """See `Escape.past`."""
    last = vm.around.covering
    if not last:
        return False
    outermost = vm.frames[0]
    own = covering(outermost.program, outermost.program.ops[outermost.at - 1].index)
    return own[-len(last) :] != last


def _stop(vm: VM, name: str) -> NoReturn:
    vm.stop(reasons.HANDLED_FAILURE, f"{name} behind a mutation")


def _traced(vm: VM, name: str, frames: Sequence[Frame], *, by_program: bool) -> Escape:
    """What the handlers of these frames do to an exception of which nothing is known."""
    passes = False
    escape = Escape()
    with suppress(Stopped), lookahead(vm) as before:
        passes = _pass(vm, frames, by_program=by_program)
        leave = snapshot(nested=False) if vm.sets_modes else None
        effects = tuple(vm.effects[before.effects :])
        operands = [operand for effect in effects for operand in effect_operands(effect)]
        passes = passes and vm.around.replay(vm.heap, operands)
        escape = Escape(states=vm.heap.since(before.heap), effects=effects, leave=leave)
    if not passes:
        _stop(vm, name)
    return escape


def _pass(vm: VM, frames: Sequence[Frame], *, by_program: bool) -> bool:
    """Let an exception through the frames, from the innermost on."""
    error = exceptions.of_op(vm, by_program=by_program)
    standing, began = vm.frames, vm.graph.mark()
    for frame in reversed(frames):
        vm.frames = standing[: standing.index(frame)]
        if not _raises(vm, _copy(frame), error):
            return False
    inputs, _ = vm.graph.mark()
    return inputs == began[0] and vm.graph.targets_since(began) <= setters()


def _raises(vm: VM, frame: Frame, error: Object) -> bool:
    try:
        vm.resume_frame(frame, raising=error)
    except Raised as raised:
        return raised.value is error
    return False


def _copy(frame: Frame) -> Frame:
    locals_, stack, handled = frame.locals.copy(), frame.stack.copy(), frame.handled.copy()
    return replace(frame, locals=locals_, stack=stack, handled=handled, direct=False)
