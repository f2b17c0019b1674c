"""isinstance() and issubclass()."""

from __future__ import annotations

import abc
import types
from collections.abc import Callable

import torch

from jitpkg.guards.abstract import SubclassesAre
from jitpkg.internals import modules
from jitpkg.tracer import classes, reasons
from jitpkg.tracer.values import Known, Object, Tuple, Value
from jitpkg.tracer.vm import VM


def is_instance(vm: VM, value: Value, cls: Value) -> bool:
    """`isinstance(value, cls)`"""
    cls = vm.look(cls)
    value = vm.glance(value)
    if isinstance(cls, Tuple):
        return any(is_instance(vm, value, item) for item in cls.items)
    if isinstance(cls, Known) and isinstance(cls.obj, types.UnionType):
        return any(is_instance(vm, value, vm.trusted(_none_type(c))) for c in cls.obj.__args__)
    if not isinstance(cls, Known) or not isinstance(cls.obj, type):
        vm.stop(reasons.UNSUPPORTED, "isinstance() with something that is no class")
    if cls.obj is torch.nn.Parameter or cls.obj is torch.nn.Buffer:
        return _is_marked_tensor(vm, value, cls.obj)
    kind = vm.class_of(value)
    check = classes.lookup(vm, classes.metaclass(vm, cls.obj), "__instancecheck__")
    if check is type.__instancecheck__ or issubclass(cls.obj, torch.Tensor):
        asked: Callable[[VM, type, type], bool] = classes.derives
    elif check is abc.ABCMeta.__instancecheck__:
        asked = _by_abc
    else:
        method = vm.method_of_class(cls, "__instancecheck__")
        assert method is not None
        return vm.truth(vm.call(method, (value,)))
    return asked(vm, kind, cls.obj) or any(asked(vm, k, cls.obj) for k in _claimed(vm, value, kind))


def _claimed(vm: VM, value: Value, kind: type) -> tuple[type, ...]:
    """What an object says is its class, where it is another one than it has."""
    if not isinstance(value, Object) or classes.inherits(
        vm, kind, object, "__class__", "__getattribute__"
    ):
        return ()
    match vm.look(vm.attribute(value, "__class__")):
        case Known(type() as claimed):
            return (claimed,)
        case _:
            return ()


def _none_type(cls: object) -> object:
    return type(None) if cls is None else cls


def _is_marked_tensor(vm: VM, value: Value, cls: type) -> bool:
    """A Parameter or Buffer; a plain tensor can be marked as one by an attribute."""
    kind = vm.class_of(value)
    if not issubclass(kind, torch.Tensor):
        return False
    if cls is torch.nn.Parameter and classes.derives(vm, kind, cls):
        return True
    mark = modules.IS_PARAMETER if cls is torch.nn.Parameter else modules.IS_BUFFER
    marked = vm.instance_attribute(value, mark)
    return marked is not None and vm.truth(marked)


def _by_abc(vm: VM, kind: type, cls: type) -> bool:
    """Whether an abstract class knows a class."""
    if not _is_hook_known(vm, cls):
        vm.stop(reasons.UNSUPPORTED, f"isinstance() with {cls.__qualname__}")
    token = abc.get_cache_token()
    answer = issubclass(kind, cls)
    vm.guard(SubclassesAre(token, ((kind, cls, answer),)))
    return classes.derives(vm, kind, cls) or answer


_KNOWN_HOOKS = ("collections.abc", "typing", "numbers", "contextlib")
"""Modules whose classes' hooks look at nothing but a class's methods."""


def _is_hook_known(vm: VM, cls: type) -> bool:
    """Whether what an abstract class inherits as its hook runs no code of the program's."""
    hook = classes.lookup(vm, cls, "__subclasshook__")
    if hook is object.__subclasshook__ or isinstance(hook, types.ClassMethodDescriptorType):
        return True
    owner = next(base for base in cls.__mro__ if "__subclasshook__" in vars(base))
    return owner.__module__ in _KNOWN_HOOKS


def is_subclass(vm: VM, value: Value, cls: Value) -> bool:
    """`issubclass(value, cls)`"""
    value, cls = vm.look(value), vm.look(cls)
    if isinstance(cls, Tuple):
        return any(is_subclass(vm, value, item) for item in cls.items)
    if not isinstance(value, Known) or not isinstance(value.obj, type):
        vm.stop(reasons.RAISES, "issubclass() of something that is no class")
    if not isinstance(cls, Known) or not isinstance(cls.obj, type):
        vm.stop(reasons.UNSUPPORTED, "issubclass() with something that is no class")
    check = classes.lookup(vm, classes.metaclass(vm, cls.obj), "__subclasscheck__")
    if check is type.__subclasscheck__ or issubclass(cls.obj, torch.Tensor):
        return classes.derives(vm, value.obj, cls.obj)
    if check is abc.ABCMeta.__subclasscheck__:
        return _by_abc(vm, value.obj, cls.obj)
    method = vm.method_of_class(cls, "__subclasscheck__")
    assert method is not None
    return vm.truth(vm.call(method, (value,)))
