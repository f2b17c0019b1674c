"""Methods of object, of exceptions and of generators."""

from __future__ import annotations

import collections
import operator
import sys
import types

from jitpkg.guards.kinds import Answers
from jitpkg.guards.sources import Held
from jitpkg.tracer import (
    assignments,
    attributes,
    classes,
    constants,
    exceptions,
    formatting,
    generators,
    reasons,
)
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import NONE, Constant, Generator, Object, Tuple, Value, class_in
from jitpkg.tracer.vm import VM

TABLE = CallTable()


def _slots(name: str) -> set[object]:
    """A special method of `object`, and what classes have that fill the same slot with it."""
    return {getattr(cls, name) for cls in (object, BaseException, types.SimpleNamespace)}


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


@TABLE.row(type.__subclasses__)
def subclasses(vm: VM, cls: Value, /) -> Value:
    known = class_in(vm.look(cls))
    if known is None:
        vm.stop(reasons.RAISES, "the subclasses of something else than a class")
    found: tuple[type, ...] = tuple(type.__subclasses__(known))
    what = f"which classes derive from {known.__qualname__}"
    vm.guard(Answers(Held(known), has_subclasses, found, answer=True, what=what))
    return vm.new_list([vm.trusted(each) for each in found])


def has_subclasses(cls: type, *expected: type) -> bool:
    found: list[type] = type.__subclasses__(cls)
    return len(found) == len(expected) and all(map(operator.is_, found, expected))


@TABLE.row(property.__init__)
def init_property(
    vm: VM,
    value: Value,
    fget: Value = NONE,
    fset: Value = NONE,
    fdel: Value = NONE,
    /,
) -> Value:
    value = vm.look(value)
    if not isinstance(value, Object) or value.source is not None:
        vm.stop(reasons.UNSUPPORTED, "a property that exists and is given other functions")
    vm.heap.write(value, "content", Tuple((fget, fset, fdel)))
    return NONE


@TABLE.row(*_slots("__getattribute__"))
def getattribute(vm: VM, value: Value, name: Value, /) -> Value:
    text = _name(vm, name)
    value = vm.look(value)
    found = attributes.generic(vm, value, vm.class_of(value), text)
    if found is None:
        kind = classes.shown(vm.class_of(value))
        vm.raise_new(AttributeError, f"'{kind}' object has no attribute '{text}'")
    return found


@TABLE.row(*_slots("__setattr__"))
def setattr_(vm: VM, value: Value, name: Value, new: Value, /) -> Value:
    assignments.generic_set(vm, value, _name(vm, name), new)
    return NONE


@TABLE.row(*_slots("__delattr__"))
def delattr_(vm: VM, value: Value, name: Value, /) -> Value:
    assignments.generic_delete(vm, value, _name(vm, name))
    return NONE


@TABLE.row(object.__eq__)
def eq(vm: VM, a: Value, b: Value, /) -> Value:
    return Constant(True) if vm.same(a, b) else Constant(NotImplemented)


@TABLE.row(object.__ne__)
def ne(vm: VM, a: Value, b: Value, /) -> Value:
    method = vm.method_of_class(a, "__eq__")
    assert method is not None
    equal = vm.look(vm.call(method, (b,)))
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


@TABLE.row(BaseException.__str__, AttributeError.__str__, NameError.__str__)
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


@TABLE.row(BaseException.with_traceback)
def with_traceback(vm: VM, value: Value, traceback: Value, /) -> Value:
    vm.set_attribute(value, "__traceback__", traceback)
    return value


@TABLE.row(sys.exception)
def exception(vm: VM) -> Value:
    return exceptions.handled(vm)


@TABLE.row(sys.exc_info)
def exc_info(vm: VM) -> Value:
    current = exceptions.handled(vm)
    if not isinstance(current, Object):
        return Tuple((NONE, NONE, NONE))
    cls = vm.trusted(vm.class_of(current))
    return Tuple((cls, current, exceptions.traceback_of(vm, current)))


# Generators


def _generator(vm: VM, value: Value) -> Generator:
    value = vm.look(value)
    if not isinstance(value, Generator):
        vm.stop(reasons.OPAQUE, "a generator that exists already")
    return value


@TABLE.row(types.GeneratorType.send)
def send(vm: VM, generator: Value, sent: Value, /) -> Value:
    yielded, result = generators.resume(vm, _generator(vm, generator), sent)
    if yielded is None:
        assert result is not None
        generators.stop_iteration(vm, result)
    return yielded


@TABLE.row(types.GeneratorType.__next__)
def generator_next(vm: VM, generator: Value, /) -> Value:
    return send(vm, generator, NONE)


@TABLE.row(types.GeneratorType.throw)
def throw(vm: VM, generator: Value, exception: Value, *details: Value) -> Value:
    """The form with a class, too, where the value that comes with it is the exception."""
    target = _generator(vm, generator)
    for thrown in (vm.look(value) for value in (exception, *details[:1])):
        if isinstance(thrown, Object) and issubclass(thrown.cls, BaseException):
            return generators.throw(vm, target, thrown)
    return generators.throw(vm, target, exceptions.instance(vm, exception))


@TABLE.row(types.GeneratorType.close)
def close(vm: VM, generator: Value, /) -> Value:
    generators.close(vm, _generator(vm, generator))
    return NONE


@TABLE.row(types.GeneratorType.__iter__)
def generator_iter(vm: VM, generator: Value, /) -> Value:
    return generator


@TABLE.row(collections.deque.__init__)
def deque_init(vm: VM, value: Value, /, *args: Value, **kwargs: Value) -> Value:
    vm.stop(reasons.UNSUPPORTED, "a subclass of deque")
