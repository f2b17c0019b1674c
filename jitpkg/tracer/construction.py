"""Calling a class: metaclass, `__new__`, `__init__`."""

from __future__ import annotations

import collections
import functools
import inspect
import operator
import types
import weakref
from collections.abc import Iterator
from typing import Any

from jitpkg.guards.kinds import ABSENT, Is
from jitpkg.guards.sources import Attr, Held
from jitpkg.tracer import classes, containers, exceptions, protocols, reasons
from jitpkg.tracer.look import CONTAINERS, why_not_plain_class
from jitpkg.tracer.values import Constant, Known, Object, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Kwargs


def construct(vm: VM, value: Known, cls: type, args: Args, kwargs: Kwargs) -> Value:
    """`cls(*args, **kwargs)`"""
    meta_call = classes.lookup(vm, classes.metaclass(vm, cls), "__call__")
    if meta_call is not type.__call__:
        method = vm.method_of_class(value, "__call__")
        if method is None or not isinstance(meta_call, types.FunctionType):
            vm.stop(reasons.UNSUPPORTED, f"a call of the class {cls.__qualname__}")
        return vm.call(method, args, kwargs)
    return type_call(vm, value, args, kwargs)


def type_call(vm: VM, value: Value, args: Args, kwargs: Kwargs) -> Value:
    """`type.__call__(cls, *args, **kwargs)`"""
    value = vm.look(value)
    assert isinstance(value, Known) and isinstance(value.obj, type)
    cls = value.obj
    new = classes.lookup(vm, cls, "__new__")
    init = classes.lookup(vm, cls, "__init__")
    refusal = why_not_plain_class(cls, property)
    if refusal is not None and not isinstance(new, staticmethod | types.FunctionType):
        vm.stop(reasons.FOREIGN_CALL, f"{cls.__qualname__}(): {refusal}")
    made = vm.look(_new(vm, value, cls, new, args, kwargs))
    if not classes.derives(vm, vm.class_of(made), cls):
        return made
    if init is object.__init__:
        if (args or kwargs) and new is object.__new__:
            vm.stop(reasons.RAISES, f"{cls.__qualname__}() takes no arguments")
        return made
    method = vm.method_of_class(made, "__init__")
    assert method is not None
    protocols.nothing(vm, "__init__", vm.call(method, args, kwargs))
    return made


def _new(vm: VM, value: Known, cls: type, new: object, args: Args, kwargs: Kwargs) -> Value:
    if isinstance(new, staticmethod):
        function = vm.attribute(value, "__new__")
        return vm.call(function, (value, *args), kwargs)
    if isinstance(new, types.FunctionType):
        member = classes.member(vm, cls, "__new__")
        assert member is not None
        return vm.call(member, (value, *args), kwargs)
    return builtin_new(vm, cls, new, args, kwargs)


def builtin_new(vm: VM, cls: type, new: object, args: Args, kwargs: Kwargs) -> Value:
    """`__new__` of a builtin class, of which `cls` is a subclass or the class itself."""
    refusal = why_not_plain_class(cls, property)
    is_tuple = new is tuple.__new__
    if refusal is not None and not is_tuple:
        vm.stop(reasons.FOREIGN_CALL, f"{cls.__qualname__}(): {refusal}")
    if issubclass(cls, BaseException):
        return exceptions.new(vm, cls, args)
    if is_tuple:
        return new_tuple(vm, cls, args)
    if new is object.__new__:
        return new_object(vm, cls)
    if new is property.__new__:
        return new_property(vm, cls)
    if new is functools.partial.__new__:
        return from_arguments(vm, cls, args, kwargs)
    base = containers.base_class(cls)
    if base is frozenset:
        return containers.new_set(vm, vm.unpack(args[0]) if args else (), cls)
    if base in CONTAINERS or base is collections.OrderedDict:
        return new_container(vm, cls)
    vm.stop(reasons.FOREIGN_CALL, f"{cls.__qualname__}()")


FROM_ARGUMENTS: tuple[type, ...] = (
    functools.partial,
    operator.itemgetter,
    operator.attrgetter,
    operator.methodcaller,
    weakref.ref,
)
"""Classes in C whose instances are what they were made from."""


def from_arguments(vm: VM, cls: type, args: Args, kwargs: Kwargs) -> Object:
    """An instance of a class in `FROM_ARGUMENTS`: its content is the arguments."""
    if not _takes(vm, cls, args, kwargs):
        vm.stop(reasons.RAISES, f"{cls.__qualname__}() of what it does not take")
    first, others = vm.look(args[0]), args[1:]
    if cls is functools.partial and isinstance(first, Object) and first.cls is functools.partial:
        if first.source is not None and _has_attributes(first.obj):
            vm.stop(reasons.UNSUPPORTED, "a partial of a partial with attributes")
        first, inner, inner_named = arguments_of(vm, first)
        others = (*vm.unpack(inner), *others)
        kwargs = {**dict(keyword_items(vm, inner_named)), **kwargs}
    named = containers.new_dict(vm, [(Constant(k), v) for k, v in kwargs.items()])
    made = Object(cls)
    vm.heap.write(made, "content", Tuple((first, Tuple(others), named)))
    return made


def _takes(vm: VM, cls: type, args: Args, kwargs: Kwargs) -> bool:
    """Whether a class in `FROM_ARGUMENTS` takes these."""
    if not args:
        return False
    if cls is functools.partial:
        return classes.is_callable(vm, args[0])
    if cls is operator.methodcaller:
        return _is_text(vm, args[0])
    if cls is weakref.ref:
        return len(args) == 1 and not kwargs and vm.class_of(args[0]).__weakrefoffset__ != 0
    names = args if cls is operator.attrgetter else ()
    return not kwargs and all(_is_text(vm, name) for name in names)


def _is_text(vm: VM, value: Value) -> bool:
    return issubclass(vm.class_of(vm.look(value)), str)


def _has_attributes(real: Any) -> bool:
    """Whether a partial has attributes of its own. Its `__dict__` must not be read: that makes one,
    and a partial with a dictionary is no longer joined with the partial of it."""
    _, _, (*_, own) = real.__reduce__()
    return bool(own)


def arguments_of(vm: VM, value: Object) -> tuple[Value, Value, Value]:
    """What such an instance was made from: the first argument, the others, those by name."""
    content = vm.heap.read(value, "content")
    if content is None:
        content = Tuple(_existing_arguments(vm, value))
        vm.heap.write(value, "content", content)
    assert isinstance(content, Tuple)
    first, others, named = content.items
    return first, others, named


def _existing_arguments(vm: VM, value: Object) -> tuple[Value, Value, Value]:
    assert value.source is not None
    source, real = value.source, value.obj
    if isinstance(real, functools.partial):
        function, others, named = (
            vm.wrap(getattr(real, name), Attr(source, name))
            for name in ("func", "args", "keywords")
        )
        return function, others, named
    vm.guard(Is(source, real))  # it never changes
    reduced: Any = real.__reduce__()
    how, args = reduced
    if isinstance(how, functools.partial):  # a methodcaller with arguments by name
        args = (*how.args, *args)
        keywords = how.keywords
    else:
        keywords = {}
    first, *rest = (vm.wrap(argument, Held(argument)) for argument in args)
    items = [(Constant(k), vm.wrap(v, Held(v))) for k, v in keywords.items()]
    return first, Tuple(tuple(rest)), containers.new_dict(vm, items)


def new_object(vm: VM, cls: type) -> Object:
    """`object.__new__(cls)`"""
    if classes.lookup(vm, cls, "__del__") is not ABSENT:
        vm.stop(reasons.UNSUPPORTED, f"making a {cls.__qualname__}, which has a finaliser")
    if classes.lookup(vm, cls, "__abstractmethods__") and inspect.isabstract(cls):
        vm.stop(reasons.RAISES, f"making a {cls.__qualname__}, which is abstract")
    return Object(cls)


def new_property(vm: VM, cls: type) -> Object:
    """`property.__new__(cls)`; its content is what `property.__init__` is given."""
    made = new_object(vm, cls)
    vm.heap.write(made, "content", Tuple((Constant(None),) * len(OF_PROPERTY)))
    return made


OF_PROPERTY = ("fget", "fset", "fdel")
"""What a property holds."""


def new_container(vm: VM, cls: type) -> Object:
    """An empty list, dict, set or deque, or an instance of a subclass."""
    base = containers.base_class(cls)
    if base in (list, collections.deque):
        return containers.new_list(vm, (), cls)
    return containers.new_set(vm, (), cls) if base is set else containers.new_dict(vm, (), cls)


def new_tuple(vm: VM, cls: type, args: Args) -> Value:
    """`tuple.__new__(cls, iterable)`"""
    if cls.__dictoffset__:
        vm.stop(reasons.UNSUPPORTED, f"making a {cls.__qualname__}, a tuple with attributes")
    items = tuple(vm.unpack(args[0], hinted=True)) if args else ()
    return Tuple(items, cls)


def keyword_items(vm: VM, mapping: Value) -> Iterator[tuple[str, Value]]:
    """The items of a mapping whose keys are strings."""
    for key, value in containers.mapping_items(vm, mapping):
        name = vm.look(key)
        if not isinstance(name, Constant) or not isinstance(name.value, str):
            vm.stop(reasons.RAISES, "a keyword that is no string")
        yield name.value, value
