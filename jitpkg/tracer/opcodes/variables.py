"""Stack, locals, cells, globals and constants."""

from __future__ import annotations

from types import GeneratorType
from typing import cast

from jitpkg.code.dialect import Op
from jitpkg.code.versions import NULL_BELOW_CALLABLE
from jitpkg.guards.kinds import ABSENT, TypeIs, static_lookup
from jitpkg.guards.sources import Input
from jitpkg.tracer import namespaces, reasons
from jitpkg.tracer.frames import Frame
from jitpkg.tracer.opcodes.table import OpTable
from jitpkg.tracer.values import NULL, UNBOUND, Cell, Constant, Kept, Lazy, Opaque, Value
from jitpkg.tracer.vm import VM

OPS = OpTable()


@OPS.op("POP_TOP", "END_FOR")
def pop_top(vm: VM, frame: Frame, op: Op) -> None:
    """value --"""
    value = frame.pop()
    if isinstance(value, Lazy) and isinstance(value.source, Input):
        value = vm.look(value)
    if isinstance(value, Opaque) and isinstance(value.obj, GeneratorType):
        vm.stop(reasons.OPAQUE, "a generator is dropped, which may run its finally blocks")


@OPS.op("PUSH_NULL")
def push_null(vm: VM, frame: Frame, op: Op) -> None:
    """-- NULL"""
    frame.push(NULL)


@OPS.op("COPY")
def copy(vm: VM, frame: Frame, op: Op) -> None:
    """value … -- value … value"""
    frame.push(frame.stack[-cast(int, op.arg)])


@OPS.op("SWAP")
def swap(vm: VM, frame: Frame, op: Op) -> None:
    """a … b -- b … a"""
    stack, depth = frame.stack, cast(int, op.arg)
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


@OPS.op("LOAD_CONST")
def load_const(vm: VM, frame: Frame, op: Op) -> None:
    """-- value"""
    frame.push(vm.trusted(op.arg))


@OPS.op("LOAD_BUILTIN")
def load_builtin(vm: VM, frame: Frame, op: Op) -> None:
    """-- value, of the interpreter's own"""
    frame.push(vm.trusted(op.arg))


@OPS.op("LOAD_LOCAL")
def load_local(vm: VM, frame: Frame, op: Op) -> None:
    """-- value"""
    slot = cast(int, op.arg)
    value = frame.locals[slot]
    if value is UNBOUND:
        name = frame.program.slots[slot]
        vm.raise_new(
            UnboundLocalError,
            f"cannot access local variable '{name}' where it is not associated with a value",
        )
    frame.push(value)


@OPS.op("STORE_LOCAL")
def store_local(vm: VM, frame: Frame, op: Op) -> None:
    """value --"""
    value, slot = frame.pop(), cast(int, op.arg)
    _let_go(vm, frame.locals[slot])
    frame.locals[slot] = UNBOUND if value is NULL else value


@OPS.op("DELETE_LOCAL")
def delete_local(vm: VM, frame: Frame, op: Op) -> None:
    """--"""
    slot = cast(int, op.arg)
    if frame.locals[slot] is UNBOUND:
        name = frame.program.slots[slot]
        vm.raise_new(
            UnboundLocalError,
            f"cannot access local variable '{name}' where it is not associated with a value",
        )
    _let_go(vm, frame.locals[slot])
    frame.locals[slot] = UNBOUND


def _let_go(vm: VM, value: Value) -> None:
    """What a variable held is dropped: a finaliser, which may run now, is not to run later."""
    if isinstance(value, Lazy) and static_lookup(type(value.obj), "__del__") is ABSENT:
        vm.guard(TypeIs(value.source, type(value.obj)))
    elif isinstance(value, Lazy | Opaque):
        value = vm.look(value)
        if isinstance(value, Opaque) and hasattr(type(value.obj), "__del__"):
            vm.stop(reasons.OPAQUE, f"{value.why}, is dropped")


@OPS.op("TAKE_LOCAL")
def take_local(vm: VM, frame: Frame, op: Op) -> None:
    """-- value or NULL; the local is unbound then"""
    slot = cast(int, op.arg)
    value = frame.locals[slot]
    frame.push(NULL if value is UNBOUND else value)
    frame.locals[slot] = UNBOUND


@OPS.op("MAKE_CELL")
def make_cell(vm: VM, frame: Frame, op: Op) -> None:
    """--; a local becomes a cell that holds it"""
    slot = cast(int, op.arg)
    cell = Cell()
    vm.heap.write(cell, "content", frame.locals[slot])
    frame.locals[slot] = cell


def _cell(vm: VM, frame: Frame, op: Op) -> Cell:
    cell = frame.locals[cast(int, op.arg)]
    if isinstance(cell, Kept):  # a comprehension that an exception ended has given it back
        vm.stop(reasons.OPAQUE, "a cell that stays on the stack is used")
    assert isinstance(cell, Cell)
    return cell


@OPS.op("LOAD_DEREF")
def load_deref(vm: VM, frame: Frame, op: Op) -> None:
    """-- value"""
    value = namespaces.cell_content(vm, _cell(vm, frame, op))
    if value is UNBOUND:
        slot = cast(int, op.arg)
        name = frame.program.slots[slot]
        if name in frame.program.code.co_freevars:
            vm.raise_new(
                NameError,
                f"cannot access free variable '{name}' where it is not associated with a value"
                " in enclosing scope",
            )
        vm.raise_new(
            UnboundLocalError,
            f"cannot access local variable '{name}' where it is not associated with a value",
        )
    frame.push(value)


@OPS.op("STORE_DEREF")
def store_deref(vm: VM, frame: Frame, op: Op) -> None:
    """value --"""
    namespaces.set_cell(vm, _cell(vm, frame, op), frame.pop())


@OPS.op("DELETE_DEREF")
def delete_deref(vm: VM, frame: Frame, op: Op) -> None:
    """--"""
    cell = _cell(vm, frame, op)
    if namespaces.cell_content(vm, cell) is UNBOUND:
        vm.stop(reasons.RAISES, "a name is deleted that is not bound")
    namespaces.set_cell(vm, cell, UNBOUND)


@OPS.op("LOAD_GLOBAL")
def load_global(vm: VM, frame: Frame, op: Op) -> None:
    """-- value"""
    frame.push(namespaces.load_global(vm, frame, cast(str, op.arg)))


@OPS.op("LOAD_GLOBAL_CALLEE")
def load_global_callee(vm: VM, frame: Frame, op: Op) -> None:
    """-- NULL value, or value NULL"""
    value = namespaces.load_global(vm, frame, cast(str, op.arg))
    frame.stack.extend((NULL, value) if NULL_BELOW_CALLABLE else (value, NULL))


@OPS.op("STORE_GLOBAL")
def store_global(vm: VM, frame: Frame, op: Op) -> None:
    """value --"""
    namespaces.store_global(vm, frame, cast(str, op.arg), frame.pop())


@OPS.op("DELETE_GLOBAL")
def delete_global(vm: VM, frame: Frame, op: Op) -> None:
    """--"""
    vm.stop(reasons.UNSUPPORTED, f"del of the global {op.arg}")


@OPS.op("IMPORT_NAME")
def import_name(vm: VM, frame: Frame, op: Op) -> None:
    """level, names -- module"""
    names = vm.look(frame.pop())
    level = vm.look(frame.pop())
    assert isinstance(level, Constant)
    frame.push(namespaces.imported(vm, frame, cast(str, op.arg), cast(int, level.value), names))


@OPS.op("IMPORT_FROM")
def import_from(vm: VM, frame: Frame, op: Op) -> None:
    """module -- module value"""
    value = vm.attribute_or_none(frame.stack[-1], cast(str, op.arg))
    if value is None:
        vm.stop(reasons.STATEMENT, f"import of {op.arg}")
    frame.push(value)


@OPS.op("REFUSED")
def refused(vm: VM, frame: Frame, op: Op) -> None:
    """an instruction that the tracer never executes"""
    vm.stop(reasons.STATEMENT, str(op.arg))
