"""The parts of the tracer, put together: the one place that knows them all."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from jitpkg.code.dialect import Op
from jitpkg.facts.tensor import plain_classes
from jitpkg.guards.kinds import Same
from jitpkg.guards.sources import Held, Source
from jitpkg.internals import Missing
from jitpkg.tracer import (
    assignments,
    attributes,
    calls,
    classes,
    containers,
    dictionaries,
    escapes,
    exceptions,
    function_modes,
    iterators,
    look,
    numbers,
    operators,
    readings,
    reasons,
    subclasses,
    tensors,
)
from jitpkg.tracer.frames import Finished, Frame
from jitpkg.tracer.opcodes import TABLE
from jitpkg.tracer.values import (
    Constant,
    Known,
    Lazy,
    Number,
    Object,
    Reading,
    String,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM, Args, Escape, Kwargs, Raised

_MAX_STEPS = 400_000
"""Operations after which a trace is given up: some seconds of tracing."""


class Machine(VM):
    """Executes the dialect on traced values."""

    # Execution

    def resume_frame(self, frame: Frame, raising: Object | None = None) -> Finished:
        self.frames.append(frame)
        try:
            if raising is not None and not _unwind(frame, frame.program.ops[frame.at - 1], raising):
                raise Raised(raising)
            return self._execute(frame)
        finally:
            popped = self.frames.pop()
            assert popped is frame

    def _execute(self, frame: Frame) -> Finished:
        ops = frame.program.ops
        watch = self.checkpoint if frame.direct or frame is self.frames[0] else None
        while True:
            op = ops[frame.at]
            if watch is not None:
                watch(frame, op)
            frame.at += 1
            self.steps += 1
            self.own_steps += not frame.trusted
            if self.steps > _MAX_STEPS:
                self.stop(reasons.TOO_LONG)
            try:
                finished = TABLE[op.name](self, frame, op)
            except Raised as raised:
                if not _unwind(frame, op, raised.value):
                    raise
                continue
            except Missing as missing:
                self.stop(reasons.MISSING_IN_TORCH, str(missing))
            if finished is not None:
                return finished

    def escape(self, name: str, *, is_last: bool, by_program: bool) -> Escape:
        return escapes.of_op(self, name, is_last=is_last, by_program=by_program)

    # What exists

    def stop_under_a_mode(self, what: str) -> None:
        if self.asked_modes:
            function_modes.stop_at(self, what)

    def look(self, value: Value) -> Value:
        if isinstance(value, Lazy):
            return look.look(self, value)
        if isinstance(value, Reading):
            readings.refuse(self, value)
        return numbers.constant(self, value) if isinstance(value, Number | String) else value

    def peek(self, value: Value) -> Value:
        if isinstance(value, Lazy):
            return numbers.existing(self, value) or look.look(self, value)
        if isinstance(value, Reading):
            readings.refuse(self, value)
        return numbers.constant(self, value) if isinstance(value, String) else value

    def identify(self, value: Value) -> Value:
        return look.identified(self, value)

    def wrap(self, obj: object, source: Source) -> Value:
        return Lazy(source, obj)

    def trusted(self, obj: object) -> Value:
        source = Held(obj)
        if isinstance(obj, look.BY_IDENTITY) or type(obj) in look.BY_VALUE:
            return Constant(obj, source)
        if type(obj) is tuple:
            return Tuple(tuple(self.trusted(item) for item in obj), tuple, source)
        if isinstance(obj, frozenset):
            known = self.seen.get(id(obj))
            return known or containers.new_set(self, [self.trusted(e) for e in obj], frozenset)
        known = self.seen.get(id(obj))
        if isinstance(known, Known):
            return known
        made = Known(obj, source)
        if known is None and isinstance(obj, types.FunctionType):  # it has attributes: one value
            self.seen[id(obj)] = made
            self.keep_alive.append(obj)
        return made

    def new_list(self, items: Sequence[Value]) -> Object:
        return containers.new_list(self, items)

    def new_dict(self, items: Sequence[tuple[Value, Value]]) -> Object:
        return containers.new_dict(self, items)

    def tensor(self, obj: torch.Tensor, source: Source) -> Value:
        if type(obj) not in plain_classes():
            found = subclasses.existing(self, obj, source)
            if found is not None:
                return found
        return tensors.existing(self, obj, source)

    # Operations of Python

    def call(self, function: Value, args: Args, kwargs: Kwargs | None = None) -> Value:
        return calls.call(self, function, args, kwargs)

    def call_directly(self, function: Value, args: Args, kwargs: Kwargs) -> Value:
        return calls.call(self, function, args, kwargs, direct=True)

    def call_object(self, function: object, *args: Value) -> Value:
        return calls.call(self, Known(function, Held(function)), args, {})

    def op(
        self, target: Callable[..., Any] | str, args: Args, kwargs: Kwargs | None = None
    ) -> Value:
        if self.asked_modes:
            found = function_modes.of_op(self, target, args, kwargs or {})
            if found is not None:
                return found
        if subclasses.may_be_among(self, args):
            found = subclasses.of_op(self, target, args, kwargs or {})
            if found is not None:
                return found
        return tensors.op(self, target, args, kwargs)

    def attribute(self, value: Value, name: str) -> Value:
        return attributes.attribute(self, value, name)

    def attribute_or_none(self, value: Value, name: str) -> Value | None:
        return attributes.attribute_or_none(self, value, name)

    def method_of_class(self, value: Value, name: str) -> Value | None:
        return attributes.method_of_class(self, value, name)

    def instance_attribute(self, value: Value, name: str) -> Value | None:
        return dictionaries.instance_attribute(self, value, name)

    def written_to_dictionary(self, value: Value) -> dict[str, Value]:
        return dictionaries.written_to_dictionary(self, value)

    def set_attribute(self, value: Value, name: str, new: Value) -> None:
        assignments.set_attribute(self, value, name, new)

    def delete_attribute(self, value: Value, name: str) -> None:
        assignments.delete_attribute(self, value, name)

    def truth(self, value: Value) -> bool:
        return operators.truth(self, value)

    def same(self, a: Value, b: Value) -> bool:
        return operators.same(self, a, b)

    def distinct(self, a: Value, b: Value) -> None:
        first, second = look.source_of(a), look.source_of(b)
        if first is not None and second is not None:
            self.guard(Same(first, second, same=False))

    def unary(self, operator: str, value: Value) -> Value:
        return operators.unary(self, operator, value)

    def binary(self, operator: str, a: Value, b: Value, *, in_place: bool = False) -> Value:
        return operators.binary(self, operator, a, b, in_place=in_place)

    def compare(self, operator: str, a: Value, b: Value) -> Value:
        return operators.compare(self, operator, a, b)

    def equal(self, a: Value, b: Value) -> bool:
        return operators.equal(self, a, b)

    def iterate(self, value: Value) -> Value:
        return iterators.iterate(self, value)

    def advance(self, iterator: Value) -> Value | None:
        return iterators.advance(self, iterator)

    def unpack(self, value: Value, *, hinted: bool = False) -> Sequence[Value]:
        return iterators.unpack(self, value, hinted=hinted)

    def class_of(self, value: Value) -> type:
        return classes.class_of(self, value)

    def raise_new(self, cls: type[BaseException], *args: object) -> NoReturn:
        exceptions.raise_new(self, cls, *args)


def _unwind(frame: Frame, op: Op, exception: Object) -> bool:
    """Go on at the handler that covers `op`, if there is one."""
    found = frame.program.handler(op)
    if found is None:
        return False
    at, covered = found
    del frame.stack[covered.depth :]
    if covered.lasti:
        frame.push(Constant(op.index))
    frame.push(exception)
    frame.at = at
    return True


__all__ = ["Machine", "Tensor"]
