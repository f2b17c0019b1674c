"""Calls, and functions that are made."""

from __future__ import annotations

from types import CodeType
from typing import cast

from jitpkg.code.dialect import Callee, Op
from jitpkg.code.versions import NULL_BELOW_CALLABLE
from jitpkg.tracer import containers, reasons
from jitpkg.tracer.frames import Frame
from jitpkg.tracer.opcodes.table import OpTable
from jitpkg.tracer.values import NULL, Cell, Constant, Function, Known, Object, Tuple, Value
from jitpkg.tracer.vm import VM

OPS = OpTable()


def _pop_callee(frame: Frame) -> tuple[Value, tuple[Value, ...]]:
    """The callable, and its receiver if it was loaded as a method."""
    first, second = frame.popn(2)
    if NULL_BELOW_CALLABLE:
        return (second, ()) if first is NULL else (first, (second,))
    return (first, ()) if second is NULL else (first, (second,))


def _call(vm: VM, frame: Frame, count: int, names: tuple[str, ...]) -> None:
    values = frame.popn(count)
    function, receiver = _pop_callee(frame)
    positional = len(values) - len(names)
    kwargs = dict(zip(names, values[positional:], strict=True))
    frame.push(vm.call_directly(function, (*receiver, *values[:positional]), kwargs))


@OPS.op("CALL")
def call(vm: VM, frame: Frame, op: Op) -> None:
    """callee argument … -- result"""
    callee = cast(Callee, op.arg)
    _call(vm, frame, callee.arguments, callee.keywords)


@OPS.op("CALL_KW")
def call_kw(vm: VM, frame: Frame, op: Op) -> None:
    """callee argument … names -- result"""
    names = vm.look(frame.pop())
    assert isinstance(names, Tuple)
    keywords = tuple(cast(str, cast(Constant, vm.look(name)).value) for name in names.items)
    _call(vm, frame, cast(int, op.arg), keywords)


@OPS.op("CALL_FUNCTION_EX")
def call_function_ex(vm: VM, frame: Frame, op: Op) -> None:
    """NULL callable iterable [mapping] -- result"""
    kwargs: dict[str, Value] = {}
    if cast(int, op.arg) & 1:
        for key, value in containers.mapping_items(vm, frame.pop()):
            name = vm.look(key)
            if not isinstance(name, Constant) or not isinstance(name.value, str):
                vm.stop(reasons.RAISES, "a keyword that is no string")
            kwargs[name.value] = value
    args = tuple(vm.unpack(frame.pop(), hinted=True))
    function, receiver = _pop_callee(frame)
    frame.push(vm.call_directly(function, (*receiver, *args), kwargs))


_DEFAULTS, _KEYWORD_DEFAULTS, _ANNOTATIONS, _CLOSURE = 1, 2, 4, 8


@OPS.op("MAKE_FUNCTION")
def make_function(vm: VM, frame: Frame, op: Op) -> None:
    """[defaults] [keyword defaults] [annotations] [closure] code -- function"""
    code = vm.look(frame.pop())
    assert isinstance(code, Known) and isinstance(code.obj, CodeType)
    function = Function(code.obj, frame.globals, frame.namespace)
    for flag in (_CLOSURE, _ANNOTATIONS, _KEYWORD_DEFAULTS, _DEFAULTS):
        if cast(int, op.arg) & flag:
            _set(vm, function, flag, frame.pop())
    frame.push(function)


@OPS.op("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(vm: VM, frame: Frame, op: Op) -> None:
    """value function -- function"""
    value, function = frame.popn(2)
    if not isinstance(function, Function):
        vm.stop(reasons.UNSUPPORTED, "a function that was made in part")
    _set(vm, function, cast(int, op.arg), value)
    frame.push(function)


def _set(vm: VM, function: Function, flag: int, value: Value) -> None:
    """Complete a function that nobody has seen yet."""
    value = vm.look(value)
    match flag:
        case 1:
            assert isinstance(value, Tuple)
            function.defaults = value
        case 2:
            assert isinstance(value, Object)
            function.keyword_defaults = value
        case 4:
            function.annotations = value
        case 8:
            assert isinstance(value, Tuple)
            function.closure = tuple(cast(Cell, vm.look(cell)) for cell in value.items)
