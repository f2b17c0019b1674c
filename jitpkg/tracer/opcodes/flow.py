"""Jumps, loops, exceptions, `with` blocks, returns and yields."""

from __future__ import annotations

from typing import cast

from jitpkg.code.dialect import Op
from jitpkg.code.versions import SEND_KEEPS_ITERATOR
from jitpkg.tracer import exceptions, reasons
from jitpkg.tracer.frames import Frame, Return, Yield
from jitpkg.tracer.generators import delegate
from jitpkg.tracer.opcodes.table import OpTable
from jitpkg.tracer.values import NONE, Constant, Generator, Kept, Object
from jitpkg.tracer.vm import VM

OPS = OpTable()


@OPS.op("JUMP")
def jump(vm: VM, frame: Frame, op: Op) -> None:
    """--"""
    frame.jump(op)


@OPS.op("JUMP_IF")
def jump_if(vm: VM, frame: Frame, op: Op) -> None:
    """value --"""
    value = frame.pop()
    match op.arg:
        case "TRUE":
            taken = vm.truth(value)
        case "FALSE":
            taken = not vm.truth(value)
        case "NONE":
            taken = vm.same(value, NONE)
        case _:
            taken = not vm.same(value, NONE)
    if taken:
        frame.jump(op)


@OPS.op("JUMP_OR_POP")
def jump_or_pop(vm: VM, frame: Frame, op: Op) -> None:
    """value -- value where it jumps"""
    if vm.truth(frame.stack[-1]) is op.arg:
        frame.jump(op)
    else:
        frame.pop()


@OPS.op("GET_ITER")
def get_iter(vm: VM, frame: Frame, op: Op) -> None:
    """iterable -- iterator"""
    frame.push(vm.iterate(frame.pop()))


@OPS.op("FOR_ITER")
def for_iter(vm: VM, frame: Frame, op: Op) -> None:
    """iterator -- iterator item; or -- at the end"""
    item = vm.advance(frame.stack[-1])
    if item is None:
        frame.pop()
        frame.jump(op)
    else:
        frame.push(item)


@OPS.op("RETURN_VALUE")
def return_value(vm: VM, frame: Frame, op: Op) -> Return:
    """value --"""
    if isinstance(frame.stack[-1], Kept):
        vm.stop(reasons.UNSUPPORTED, "returning a value from before a finally block")
    return Return(frame.pop())


# Exceptions


@OPS.op("RAISE_VARARGS")
def raise_varargs(vm: VM, frame: Frame, op: Op) -> None:
    """[exception [cause]] --"""
    operands = frame.popn(cast(int, op.arg))
    exceptions.raise_(vm, *operands)


@OPS.op("PUSH_EXC_INFO")
def push_exc_info(vm: VM, frame: Frame, op: Op) -> None:
    """exception -- saved exception"""
    exception = frame.pop()
    frame.push(frame.handled[-1] if frame.handled else NONE)
    frame.push(exception)
    frame.handled.append(exception)


@OPS.op("POP_EXCEPT")
def pop_except(vm: VM, frame: Frame, op: Op) -> None:
    """saved --"""
    if isinstance(frame.stack[-1], Kept) or not frame.handled:
        vm.stop(reasons.RAISES, "the end of a handler that was entered before")
    frame.pop()
    frame.handled.pop()


@OPS.op("CHECK_EXC_MATCH")
def check_exc_match(vm: VM, frame: Frame, op: Op) -> None:
    """exception class -- exception bool"""
    classes = frame.pop()
    frame.push(Constant(exceptions.matches(vm, frame.stack[-1], classes)))


@OPS.op("RERAISE")
def reraise(vm: VM, frame: Frame, op: Op) -> None:
    """[lasti …] exception --"""
    exceptions.reraise(vm, frame.pop())


# with


@OPS.op("BEFORE_WITH")
def before_with(vm: VM, frame: Frame, op: Op) -> None:
    """manager -- exit entered"""
    manager = frame.pop()
    enter = vm.method_of_class(manager, "__enter__")
    exit_ = vm.method_of_class(manager, "__exit__")
    if enter is None or exit_ is None:
        vm.stop(reasons.RAISES, "a with statement on something that is no context manager")
    frame.push(exit_)
    frame.push(vm.call(enter, ()))


@OPS.op("WITH_EXCEPT_START")
def with_except_start(vm: VM, frame: Frame, op: Op) -> None:
    """exit lasti saved exception -- exit lasti saved exception result"""
    exit_, exception = frame.stack[-4], frame.stack[-1]
    cls = exceptions.class_for_exit(vm, exception)
    traceback = exceptions.traceback_of(vm, exception)
    frame.push(vm.call(exit_, (cls, exception, traceback)))


# Generators


@OPS.op("RETURN_GENERATOR")
def return_generator(vm: VM, frame: Frame, op: Op) -> None:
    """-- None: the frame of a generator starts behind this"""
    frame.push(NONE)


@OPS.op("YIELD_VALUE")
def yield_value(vm: VM, frame: Frame, op: Op) -> Yield:
    """value -- sent"""
    if frame is vm.frames[0]:
        vm.stop(reasons.GENERATOR, "a yield")
    return Yield(frame.pop())


@OPS.op("CONVERT_STOP_ITERATION")
def convert_stop_iteration(vm: VM, frame: Frame, op: Op) -> None:
    """exception -- exception"""
    raised = frame.stack[-1]
    if exceptions.matches(vm, raised, vm.trusted(StopIteration)):
        assert isinstance(raised, Object)
        exceptions.raise_from(vm, RuntimeError, "generator raised StopIteration", raised)


@OPS.op("GET_YIELD_FROM_ITER")
def get_yield_from_iter(vm: VM, frame: Frame, op: Op) -> None:
    """iterable -- iterator"""
    if not isinstance(frame.stack[-1], Generator):
        frame.push(vm.iterate(frame.pop()))


@OPS.op("SEND")
def send(vm: VM, frame: Frame, op: Op) -> None:
    """iterator sent -- iterator yielded; at the end the result, and a jump"""
    sent = frame.pop()
    yielded, result = delegate(vm, frame.stack[-1], sent)
    if result is None:
        assert yielded is not None
        frame.push(yielded)
        return
    if not SEND_KEEPS_ITERATOR:
        frame.pop()
    frame.push(result)
    frame.jump(op)


@OPS.op("END_SEND")
def end_send(vm: VM, frame: Frame, op: Op) -> None:
    """iterator result -- result"""
    result = frame.pop()
    frame.pop()
    frame.push(result)
