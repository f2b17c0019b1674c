"""Methods of object, of exceptions and of generators."""

from __future__ import annotations

import collections
import types

from jitpkg.tracer import attributes, constants, exceptions, formatting, reasons
from jitpkg.tracer.iterators import resume
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import NONE, Constant, Generator, Object, Tuple, Value
from jitpkg.tracer.vm import VM

TABLE = CallTable()


def _name(vm: VM, name: Value) -> str:
    name = vm.look(name)
    if isinstance(name, Constant) and isinstance(name.value, str):
        return name.value
    vm.stop(reasons.RAISES, "an attribute name that is no string")


@TABLE.row(object.__init__)
def init(vm: VM, value: Value, /, *args: Value, **kwargs: Value) -> Value:
    if args or kwargs:
        vm.stop(reasons.RAISES, "arguments of object.__init__")
    return NONE


@TABLE.row(object.__getattribute__)
def getattribute(vm: VM, value: Value, name: Value, /) -> Value:
    text = _name(vm, name)
    value = vm.look(value)
    found = attributes.generic(vm, value, vm.class_of(value), text)
    if found is None:
        kind = vm.class_of(value).__name__
        vm.raise_new(AttributeError, f"'{kind}' object has no attribute '{text}'")
    return found


@TABLE.row(object.__setattr__)
def setattr_(vm: VM, value: Value, name: Value, new: Value, /) -> Value:
    attributes.generic_set(vm, value, _name(vm, name), new)
    return NONE


@TABLE.row(object.__delattr__)
def delattr_(vm: VM, value: Value, name: Value, /) -> Value:
    attributes.generic_delete(vm, value, _name(vm, name))
    return NONE


@TABLE.row(object.__eq__)
def eq(vm: VM, a: Value, b: Value, /) -> Value:
    return Constant(True) if vm.same(a, b) else Constant(NotImplemented)


@TABLE.row(object.__ne__)
def ne(vm: VM, a: Value, b: Value, /) -> Value:
    equal = vm.look(vm.call(vm.attribute(a, "__eq__"), (b,)))
    if isinstance(equal, Constant) and equal.value is NotImplemented:
        return equal
    return Constant(not vm.truth(equal))


@TABLE.row(object.__str__)
def str_(vm: VM, value: Value, /) -> Value:
    return formatting.representation(vm, value)


@TABLE.row(object.__init_subclass__)
def init_subclass(vm: VM, /, *args: Value, **kwargs: Value) -> Value:
    return NONE


# Exceptions


@TABLE.row(BaseException.__init__)
def exception_init(vm: VM, value: Value, /, *args: Value, **kwargs: Value) -> Value:
    value = vm.look(value)
    assert isinstance(value, Object)
    exceptions.initialise(vm, value, args, kwargs)
    return NONE


for _cls in exceptions.SIMPLE:
    if "__init__" in vars(_cls) and _cls is not BaseException:
        TABLE.add(vars(_cls)["__init__"], exception_init)


@TABLE.row(BaseException.__str__)
def exception_str(vm: VM, value: Value, /) -> Value:
    args = vm.look(vm.attribute(value, "args"))
    assert isinstance(args, Tuple)
    match args.items:
        case ():
            return Constant("")
        case (only,):
            return formatting.text(vm, only)
        case _:
            return formatting.representation(vm, args)


@TABLE.row(KeyError.__str__)
def key_error_str(vm: VM, value: Value, /) -> Value:
    args = vm.look(vm.attribute(value, "args"))
    if isinstance(args, Tuple) and len(args.items) == 1:
        return formatting.representation(vm, args.items[0])
    return exception_str(vm, value)


@TABLE.row(BaseException.__repr__)
def exception_repr(vm: VM, value: Value, /) -> Value:
    args = vm.look(vm.attribute(value, "args"))
    assert isinstance(args, Tuple)
    name = vm.class_of(value).__name__
    shown = constants.python_value(vm, formatting.representation(vm, args))
    return Constant(name + (f"({shown[1:-2]})" if len(args.items) == 1 else shown))


# Generators


@TABLE.row(types.GeneratorType.send)
def send(vm: VM, generator: Value, sent: Value, /) -> Value:
    generator = vm.look(generator)
    if not isinstance(generator, Generator):
        vm.stop(reasons.OPAQUE, "a generator that exists already")
    yielded, _ = resume(vm, generator, sent)
    if yielded is None:
        vm.stop(reasons.RAISES, "StopIteration")
    return yielded


@TABLE.row(types.GeneratorType.__next__)
def generator_next(vm: VM, generator: Value, /) -> Value:
    return send(vm, generator, NONE)


@TABLE.row(types.GeneratorType.__iter__)
def generator_iter(vm: VM, generator: Value, /) -> Value:
    return generator


@TABLE.row(collections.deque.__init__)
def deque_init(vm: VM, value: Value, /, *args: Value, **kwargs: Value) -> Value:
    vm.stop(reasons.UNSUPPORTED, "a subclass of deque")
