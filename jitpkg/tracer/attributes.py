"""Attribute access by CPython's rules, on traced values."""

from __future__ import annotations

import collections
import enum
import re
import types
import warnings
from typing import NamedTuple, NoReturn

import torch

from jitpkg.guards.kinds import ABSENT, Has, TypeIs, static_lookup
from jitpkg.guards.sources import Attr, Held, Item, SlotOf, dictionary_of
from jitpkg.tracer import (
    classes,
    constants,
    containers,
    exceptions,
    function_modes,
    numpy_arrays,
    reasons,
    subclasses,
    tensor_attributes,
)
from jitpkg.tracer.construction import FROM_ARGUMENTS, OF_PROPERTY, arguments_of
from jitpkg.tracer.dictionaries import (
    instance_attribute,
    is_data_descriptor,
    own_dictionary,
    written,
)
from jitpkg.tracer.memoized import Memoized
from jitpkg.tracer.values import (
    UNBOUND,
    Array,
    Cell,
    Constant,
    Function,
    InstanceDict,
    Known,
    Method,
    Object,
    Opaque,
    Slice,
    Super,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM, Raised


def attribute(vm: VM, value: Value, name: str) -> Value:
    """`value.name`; AttributeError is raised in the traced program."""
    value = vm.look(value)
    match value:
        case Opaque():
            vm.refuse(value)
        case Tensor():
            return _of_tensor(vm, value, name)
        case Super():
            return _of_super(vm, value, name)
        case Known(type() as cls):
            return _of_class(vm, value, cls, name)
        case Known(types.ModuleType() as module):
            return _of_module(vm, module, name)
        case Known(enum.Enum() as enum_member) if name in ("value", "name"):
            return _of_enum_member(vm, value, enum_member, name)
        case Known() if name in _NAMES and isinstance(value.obj, _FIXED):
            try:
                return Constant(getattr(value.obj, name))
            except AttributeError as error:  # some have no module
                vm.raise_new(AttributeError, *error.args)
        case Known(re.Pattern() | re.Match() as matching) if isinstance(
            static_lookup(type(matching), name), types.MemberDescriptorType
        ):
            return constants.wrapped(vm, getattr(matching, name))
        case Method():
            return _of_method(vm, value, name)
        case Known(types.GetSetDescriptorType() as descriptor) if name == "__get__":
            return vm.trusted(descriptor.__get__)  # a method-wrapper, as modes are told
        case Slice() if name in ("start", "stop", "step"):
            return {"start": value.start, "stop": value.stop, "step": value.step}[name]
        case Cell() if name == "cell_contents":
            vm.stop(reasons.UNSUPPORTED, "cell_contents")
        case Object(cls) if issubclass(cls, torch.Tensor):
            read = subclasses.attribute(vm, value, name)
            if read is not None:
                return read
    return _of_instance(vm, value, name)


def attribute_or_none(vm: VM, value: Value, name: str) -> Value | None:
    """The attribute, or None where looking it up raises AttributeError."""
    try:
        return attribute(vm, value, name)
    except Raised as raised:
        if issubclass(raised.value.cls, AttributeError):
            return None
        raise


def method_of_class(vm: VM, value: Value, name: str) -> Value | None:
    """A special method as the interpreter finds it: on the class, past the instance."""
    value = vm.look(value)
    if isinstance(value, Opaque):
        vm.refuse(value)
    cls = classes.class_of(vm, value)
    found = classes.member(vm, cls, name)
    if found is None or (isinstance(found, Constant) and found.value is None):
        return None
    return _bound(vm, found, value, cls)


# Reading


def _of_instance(vm: VM, value: Value, name: str) -> Value:
    cls = classes.class_of(vm, value)
    own = classes.lookup(vm, cls, "__getattribute__")
    if not isinstance(own, types.WrapperDescriptorType):  # C's is the generic one
        found = classes.member(vm, cls, "__getattribute__")
        if isinstance(own, types.FunctionType) and found is not None:
            return vm.call(found, (value, Constant(name)))
        vm.stop(reasons.ATTRIBUTE, f"{cls.__qualname__}.{name}")
    result = generic(vm, value, cls, name)
    if result is not None:
        return result
    fallback = classes.member(vm, cls, "__getattr__")
    if fallback is not None:
        return vm.call(fallback, (value, Constant(name)))
    _no_attribute(vm, f"'{classes.shown(cls)}' object", name)


def generic(vm: VM, value: Value, cls: type, name: str) -> Value | None:
    """`object.__getattribute__`: data descriptor, then instance, then class; None if nothing."""
    found = classes.lookup(vm, cls, name)
    if found is not ABSENT and is_data_descriptor(vm, found):
        return _by_descriptor(vm, value, cls, name, found)
    own = instance_attribute(vm, value, name)
    if own is not None:
        return own
    if found is ABSENT:
        return None
    member = classes.member(vm, cls, name)
    assert member is not None
    return _bound(vm, member, value, cls)


def _by_descriptor(vm: VM, value: Value, cls: type, name: str, descriptor: object) -> Value:
    match descriptor:
        case property():
            return _of_property(vm, value, cls, name, descriptor)
        case types.MemberDescriptorType():
            return of_slot(vm, value, name, descriptor)
        case types.GetSetDescriptorType():
            return _of_getset(vm, value, cls, name, descriptor)
    if type(descriptor) is _FIELD and isinstance(value, Tuple):
        index = descriptor.__reduce__()[1][0]
        assert isinstance(index, int)
        return value.items[index]
    member = classes.member(vm, cls, name)
    assert member is not None
    get = method_of_class(vm, member, "__get__")
    if get is None:
        vm.stop(reasons.ATTRIBUTE, f"{cls.__qualname__}.{name}")
    return vm.call(get, (value, vm.trusted(cls)))


class _Named(NamedTuple):
    field: int


_FIELD: type = type(vars(_Named)["field"])
"""The class of what reads a named tuple's field."""


def _of_property(vm: VM, value: Value, cls: type, name: str, descriptor: property) -> Value:
    if descriptor.fget is None:
        vm.stop(reasons.RAISES, f"{cls.__qualname__}.{name} cannot be read")
    if (
        type(descriptor) is not property
        and classes.lookup(vm, type(descriptor), "__get__") is not property.__dict__["__get__"]
    ):
        vm.stop(reasons.ATTRIBUTE, f"{cls.__qualname__}.{name}")
    getter = Attr(classes.source_of_attribute(cls, name), "fget")
    return vm.call(vm.wrap(descriptor.fget, getter), (value,))


def of_slot(vm: VM, value: Value, name: str, descriptor: types.MemberDescriptorType) -> Value:
    """What a member descriptor gives."""
    known = written(vm, value, name)
    if known is not None:
        if known is UNBOUND:
            vm.raise_new(AttributeError, name)
        return known
    match value:
        case Constant():  # a complex number's parts, a range's bounds
            return constants.fold(vm, descriptor.__get__, (value,))
        case Known(types.FunctionType() as function):
            return _of_function(vm, value, function, name)
        case Known(types.CodeType() as code) if name.startswith("co_"):  # immutable
            return vm.trusted(getattr(vm.originals.of(code), name))
        case Known(types.UnionType() as union):  # immutable, too
            return vm.trusted(descriptor.__get__(union))
        case Function():
            return _of_new_function(vm, value, name)
        case Tuple(items, tuple_cls):
            return items[_position(tuple_cls, descriptor)]
        case Object(raised) if issubclass(raised, BaseException) and descriptor.__objclass__ in (
            *exceptions.SIMPLE,
            *exceptions.OTHERS,
        ):
            return exceptions.attribute(vm, value, name)
    if isinstance(value, Object) and issubclass(value.cls, property) and name in OF_PROPERTY:
        content = vm.heap.read(value, "content")
        assert isinstance(content, Tuple)
        return content.items[OF_PROPERTY.index(name)]
    if isinstance(value, Object) and value.cls in FROM_ARGUMENTS and name in _ARGUMENTS:
        return arguments_of(vm, value)[_ARGUMENTS.index(name)]
    if not isinstance(value, Object) or value.source is None:
        if isinstance(value, Object) and classes.is_mutable(descriptor.__objclass__):
            vm.raise_new(AttributeError, name)
        vm.stop(reasons.ATTRIBUTE, f"{classes.class_of(vm, value).__qualname__}.{name}")
    try:
        found = descriptor.__get__(value.obj, value.cls)
    except AttributeError:
        vm.stop(reasons.RAISES, f"the slot {name} is empty")
    return vm.present(found, SlotOf(value.source, Held(descriptor)))


_ARGUMENTS = ("func", "args", "keywords")
"""What a partial says of its arguments."""


def _position(cls: type, descriptor: types.MemberDescriptorType) -> int:
    """Which item of a struct sequence, as `torch.return_types.max` is one, a field reads."""
    index = descriptor.__get__(cls(range(cls.n_fields)))  # type: ignore[attr-defined]
    assert isinstance(index, int)
    return index


def _of_getset(
    vm: VM, value: Value, cls: type, name: str, descriptor: types.GetSetDescriptorType
) -> Value:
    if name == "__dict__" and isinstance(value, Object | Function):
        return InstanceDict(value)
    if name == "__class__":
        return vm.trusted(cls)
    if isinstance(value, Object) and issubclass(value.cls, BaseException):
        return exceptions.attribute(vm, value, name)
    if isinstance(value, Known) and isinstance(value.obj, types.FunctionType):
        return _of_function(vm, value, value.obj, name)
    if isinstance(value, Function):
        return _of_new_function(vm, value, name)
    if isinstance(value, Object) and name == "maxlen" and issubclass(value.cls, collections.deque):
        return Constant(containers.limit(vm, value))
    if isinstance(value, Known) and isinstance(value.obj, types.CodeType):
        return vm.trusted(getattr(vm.originals.of(value.obj), name))
    if isinstance(value, Known) and isinstance(value.obj, torch.finfo | torch.iinfo):
        return Constant(getattr(value.obj, name))
    if isinstance(value, Constant):  # real, imag, numerator …
        return constants.fold(vm, descriptor.__get__, (value,))
    if isinstance(value, Array):
        return numpy_arrays.attribute(vm, value, name)
    vm.stop(reasons.ATTRIBUTE, f"{cls.__qualname__}.{name}")


def _of_function(vm: VM, value: Known, function: types.FunctionType, name: str) -> Value:
    known = written(vm, value, name)
    if known is not None:
        return known
    vm.identify(value)
    if name == "__dict__":
        own_dictionary(vm, value)
        return InstanceDict(value)
    return vm.wrap(getattr(function, name), Attr(value.source, name))


def _of_new_function(vm: VM, value: Function, name: str) -> Value:
    known = written(vm, value, name)
    if known is not None:
        return known
    match name:
        case "__name__":
            return Constant(value.code.co_name)
        case "__qualname__":
            return Constant(value.code.co_qualname)
        case "__doc__":
            first = value.code.co_consts[0] if value.code.co_consts else None
            return Constant(first if isinstance(first, str) else None)
        case "__module__":
            return Constant(value.namespace.get("__name__"))
        case "__defaults__":
            return value.defaults or Constant(None)
        case "__kwdefaults__":
            return value.keyword_defaults or Constant(None)
        case "__code__":
            return vm.trusted(value.code)
        case "__type_params__":
            return Tuple(())
        case "__annotations__":
            items = value.annotations.items if isinstance(value.annotations, Tuple) else ()
            made = containers.new_dict(vm, list(zip(items[::2], items[1::2], strict=True)))
            vm.set_attribute(value, name, made)  # each time the same one
            return made
    vm.stop(reasons.ATTRIBUTE, f"{name} of a function made in the trace")


def _bound(vm: VM, found: Value, value: Value, cls: type) -> Value:
    """What a class attribute becomes when it is read through an instance."""
    found = vm.look(found)
    match found:
        case Known(types.FunctionType()) | Function():
            return Method(found, value)
        case Known(types.MethodDescriptorType() | types.WrapperDescriptorType() | Memoized()):
            return Method(found, value)
        case Known(types.ClassMethodDescriptorType()):
            return Method(found, vm.trusted(cls))
        case Known(staticmethod() as static):
            return vm.wrap(static.__func__, Attr(found.source, "__func__"))
        case Known(classmethod() as class_method):
            function = vm.wrap(class_method.__func__, Attr(found.source, "__func__"))
            return Method(function, vm.trusted(cls))
        case Constant() | Tensor() | Tuple() | Slice():
            return found
        case Known(type()) if classes.lookup(vm, type(found.obj), "__get__") is ABSENT:
            return found
    get = method_of_class(vm, found, "__get__")
    if get is None:
        return found
    return vm.call(get, (value, vm.trusted(cls)))


def _of_tensor(vm: VM, tensor: Tensor, name: str) -> Value:
    if vm.asked_modes:
        asked = function_modes.of_attribute(vm, tensor, name)
        if asked is not None:
            return asked
    result = tensor_attributes.attribute(vm, tensor, name)
    if result is not None:
        return result
    cls = vm.facts(tensor).cls
    found = classes.lookup(vm, cls, name)
    if found is not ABSENT and not isinstance(found, property | types.GetSetDescriptorType):
        if tensor_attributes.may_hide(vm, tensor, name):
            own = instance_attribute(vm, tensor, name)
            if own is not None:
                return own
        member = classes.member(vm, cls, name)
        assert member is not None
        return _bound(vm, member, tensor, cls)
    if found is not ABSENT:
        vm.stop(reasons.TENSOR_USE, f".{name} of a tensor")
    own = instance_attribute(vm, tensor, name)
    if own is None:
        _no_attribute(vm, f"'{classes.shown(cls)}' object", name)
    return own


def _of_super(vm: VM, value: Super, name: str) -> Value:
    """Walk the method resolution order behind `start`."""
    order = classes.bases(vm, value.cls)
    for base in order[order.index(value.start) + 1 :]:
        if classes.lookup(vm, base, name) is ABSENT or name not in classes.namespace(base):
            continue
        source = Item(Attr(Held(base), "__dict__"), name)
        found = classes.namespace(base)[name]
        known = classes.is_fixed(found) or not classes.is_mutable(base)
        wrapped = vm.trusted(found) if known else vm.wrap(found, source)
        receiver = vm.look(value.receiver)
        if isinstance(receiver, Known) and receiver.obj is value.cls:
            return _class_member(vm, wrapped, value.cls)
        if isinstance(found, property):
            getter = vm.wrap(found.fget, Attr(source, "fget"))
            return vm.call(getter, (receiver,))
        return _bound(vm, wrapped, receiver, value.cls)
    if name == "__class__":
        return vm.trusted(super)
    vm.stop(reasons.RAISES, f"'super' object has no attribute '{name}'")


def _of_class(vm: VM, value: Known, cls: type, name: str) -> Value:
    """`cls.name`: the metaclass's data descriptors, then the class, then the metaclass."""
    meta = classes.metaclass(vm, cls)
    if meta is _OF_PYBIND and isinstance(found := classes.namespace(cls).get(name), cls):
        return vm.wrap(found, classes.source_of_attribute(cls, name))  # a member of an enum in C
    if classes.lookup(vm, meta, "__getattribute__") is not type.__getattribute__:
        vm.stop(reasons.ATTRIBUTE, f"{cls.__qualname__}.{name}")
    by_meta = classes.lookup(vm, meta, name)
    if by_meta is not ABSENT and is_data_descriptor(vm, by_meta):
        return _class_data(vm, value, cls, name, by_meta)
    if (member := classes.member(vm, cls, name)) is not None:
        return _class_member(vm, member, cls)
    if by_meta is not ABSENT:
        member = classes.member(vm, meta, name)
        assert member is not None
        return _bound(vm, member, value, meta)
    if classes.lookup(vm, meta, "__getattr__") is not ABSENT:
        fallback = classes.member(vm, meta, "__getattr__")
        assert fallback is not None
        return vm.call(fallback, (value, Constant(name)))
    _no_attribute(vm, f"type object '{cls.__name__}'", name)


_OF_PYBIND = type(torch.nn.attention.SDPBackend)


def _class_data(vm: VM, value: Known, cls: type, name: str, descriptor: object) -> Value:
    if name in _NAMES_OF_CLASSES and descriptor is vars(type)[name]:
        if classes.is_mutable(cls):
            return vm.wrap(getattr(cls, name), Attr(value.source, name))
        return Constant(getattr(cls, name))
    if name == "__annotations__" and name in classes.namespace(cls):
        return classes.own_member(vm, cls, name) or Constant(None)
    if name == "__doc__" and isinstance(classes.namespace(cls).get(name), str | None):
        return classes.own_member(vm, cls, name) or Constant(None)
    if name == "__bases__":
        classes.bases(vm, cls)
        return Tuple(tuple(vm.trusted(base) for base in cls.__bases__))
    if name == "__mro__":
        return Tuple(tuple(vm.trusted(base) for base in classes.bases(vm, cls)))
    if name == "__class__":
        return vm.trusted(type(cls))
    if name == "__dict__":
        proxy = Object(types.MappingProxyType)
        vm.heap.write(proxy, "content", value)
        return proxy
    if isinstance(descriptor, property):
        getter = Attr(classes.source_of_attribute(type(cls), name), "fget")
        return vm.call(vm.wrap(descriptor.fget, getter), (value,))
    vm.stop(reasons.ATTRIBUTE, f"{cls.__qualname__}.{name}")


_NAMES_OF_CLASSES = ("__name__", "__qualname__", "__module__")


def _class_member(vm: VM, member: Value, cls: type) -> Value:
    """What a class attribute is when it is read through the class."""
    member = vm.look(member)
    match member:
        case Known(
            types.FunctionType()
            | types.MethodDescriptorType()
            | types.WrapperDescriptorType()
            | types.MemberDescriptorType()
            | types.GetSetDescriptorType()
            | types.BuiltinFunctionType()
            | property()
        ):
            return member
        case Known(types.ClassMethodDescriptorType()):
            return Method(member, vm.trusted(cls))
        case Known(staticmethod() as static):
            return vm.wrap(static.__func__, Attr(member.source, "__func__"))
        case Known(classmethod() as class_method):
            function = vm.wrap(class_method.__func__, Attr(member.source, "__func__"))
            return Method(function, vm.trusted(cls))
        case Constant() | Tuple() | Tensor():
            return member
    get = method_of_class(vm, member, "__get__")
    if get is None:
        return member
    return vm.call(get, (Constant(None), vm.trusted(cls)))


_CALLED = (types.FunctionType, types.BuiltinFunctionType, type)
"""What is in a module to be called, and does not change."""


def _of_module(vm: VM, module: types.ModuleType, name: str) -> Value:
    cls = type(module)
    vm.guard(TypeIs(Held(module), cls))
    if classes.lookup(vm, cls, "__getattribute__") is not types.ModuleType.__getattribute__:
        vm.stop(reasons.ATTRIBUTE, f"{module.__name__}.{name}")
    if name == "__dict__":
        vm.stop(reasons.ATTRIBUTE, f"the __dict__ of {module.__name__}")
    found = classes.lookup(vm, cls, name)
    if found is not ABSENT and is_data_descriptor(vm, found):
        vm.stop(reasons.ATTRIBUTE, f"{module.__name__}.{name}")
    if module is warnings and vm.catching and not isinstance(vars(module).get(name), _CALLED):
        vm.stop(reasons.ATTRIBUTE, f"warnings.{name} in a block of catch_warnings()")
    namespace = vars(module)
    if name in namespace:
        return vm.present(namespace[name], Item(Held(namespace), name))
    vm.guard(Has(Held(namespace), name, present=False))
    if "__getattr__" in namespace:
        fallback = vm.wrap(namespace["__getattr__"], Item(Held(namespace), "__getattr__"))
        return vm.call(fallback, (Constant(name),))
    vm.guard(Has(Held(namespace), "__getattr__", present=False))
    if classes.lookup(vm, cls, "__getattr__") is not ABSENT:
        fallback_of_class = classes.member(vm, cls, "__getattr__")
        assert fallback_of_class is not None
        return vm.call(fallback_of_class, (vm.trusted(module), Constant(name)))
    _no_attribute(vm, f"module '{module.__name__}'", name)


_FIXED = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodWrapperType,
)
_NAMES = ("__name__", "__qualname__", "__doc__", "__module__")
"""Attributes that these never change."""


def _of_enum_member(vm: VM, value: Known, enum_member: enum.Enum, name: str) -> Value:
    own = f"_{name}_"
    is_usual = classes.lookup(vm, type(enum_member), name) is static_lookup(enum.Enum, name)
    if not is_usual or own not in vars(enum_member):  # a class with __getattr__ stores none
        return _of_instance(vm, value, name)
    return vm.wrap(
        vars(enum_member)[own], Item(dictionary_of(value.source, type(enum_member)), own)
    )


def _of_method(vm: VM, value: Method, name: str) -> Value:
    match name:
        case "__func__":
            return value.function
        case "__self__":
            return value.receiver
    function = vm.look(value.function)
    is_python = isinstance(function, Function) or (
        isinstance(function, Known) and isinstance(function.obj, types.FunctionType)
    )
    if is_python and name not in ("__class__", "__call__"):
        return attribute(vm, function, name)
    vm.stop(reasons.ATTRIBUTE, f"{name} of a bound method")


def _no_attribute(vm: VM, owner: str, name: str) -> NoReturn:
    vm.raise_new(AttributeError, f"{owner} has no attribute '{name}'")
