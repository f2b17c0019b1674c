"""Tensors of a subclass: objects with attributes, and a plain tensor that has their memory.

The graph knows the plain tensors only. A call with such an object goes to the `__torch_function__`
of its class, which is traced as any function is; torch is asked what it would be given. Where there
is none, or it hands on to torch, the op is done with the plain tensors.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import get_default_nowrap_functions, handle_torch_function

from jitpkg.facts.tensor import plain_classes, why_not_plain
from jitpkg.guards.kinds import ABSENT, TypeIs, static_lookup
from jitpkg.guards.sources import PlainOf, Source, plain_of
from jitpkg.internals import modes
from jitpkg.tracer import (
    classes,
    construction,
    containers,
    dispatched,
    overheard,
    reasons,
    torch_calls,
)
from jitpkg.tracer.values import NONE, Constant, Known, Lazy, Object, Tensor, Tuple, Value, class_in
from jitpkg.tracer.vm import VM, Args, Kwargs


def existing(vm: VM, obj: torch.Tensor, source: Source) -> Object | None:
    """The object for an existing tensor of a subclass; None for one that is not understood."""
    cls = type(obj)
    if modes.WITHOUT_SUBCLASSES.found() is None or not _is_understood(vm, cls):
        return None
    if dispatched.is_dispatching(vm, cls):
        found = dispatched.existing(vm, obj, source)
        vm.has_subclasses |= found is not None
        return found
    if not _has_memory(vm, cls):
        return None
    plain = plain_of(obj)
    if why_not_plain(plain) is not None:
        return None
    vm.guard(TypeIs(source, cls))
    inner = vm.tensor(plain, PlainOf(source))
    if not isinstance(inner, Tensor):
        return None
    made = Object(cls, source, obj)
    vm.heap.write(made, "content", inner)
    vm.has_subclasses = True
    return made


def _is_understood(vm: VM, cls: type) -> bool:
    """Whether a subclass is written in Python, and treats attributes as others do."""
    own = [base for base in classes.mro(cls) if base not in torch.Tensor.__mro__]
    written = all(base is torch.nn.Parameter or _is_written(base) for base in own)
    handler = classes.lookup(vm, cls, _HANDLER)  # a plain method is deprecated
    if handler is not modes.NO_FUNCTION.get() and not isinstance(
        handler, classmethod | staticmethod
    ):
        return False
    return written and classes.inherits(vm, cls, torch.Tensor, *_AS_IN_TENSORS)


_AS_IN_TENSORS = ("__getattribute__", "__setattr__", "__delattr__", "__del__")
"""What a subclass has as `torch.Tensor` has it."""


def _has_memory(vm: VM, cls: type) -> bool:
    """Whether instances of a class are tensors as others are, with memory of their own."""
    return classes.inherits(vm, cls, torch.Tensor, dispatched.HANDLER)


def _is_written(cls: type) -> bool:
    """Whether a class is the program's own, or of a library that is written in Python."""
    return bool(cls.__flags__ & _HEAP_TYPE) and not cls.__module__.startswith("torch.")


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


_DEPTH = 3
"""How deep what torch takes may nest: a container can be in itself."""


def among(vm: VM, values: Iterable[Value]) -> list[Object]:
    """The tensors of subclasses among the arguments of a call, in order."""
    return list(dict.fromkeys(_among(vm, values)))


def _among(vm: VM, values: Iterable[Value], depth: int = _DEPTH) -> Iterator[Object]:
    for value in values if depth else ():
        if isinstance(value, Lazy):
            if not _may_be_one(value.obj):
                continue
            value = vm.look(value)
        match value:
            case Object(cls) if issubclass(cls, torch.Tensor):
                yield value
            case Object(cls) if cls is list:
                yield from _among(vm, containers.list_items(vm, value), depth - 1)
            case Tuple(items):
                yield from _among(vm, items, depth - 1)


def _may_be_one(obj: Any, depth: int = _DEPTH) -> bool:
    if isinstance(obj, torch.Tensor):
        return type(obj) not in plain_classes()
    holds = depth > 0 and type(obj) in (list, tuple)
    return holds and any(_may_be_one(each, depth - 1) for each in obj)


def may_be_among(vm: VM, values: Iterable[Value], depth: int = _DEPTH) -> bool:
    """Whether tensors of subclasses may be among the arguments of a call, at a glance."""
    for value in values if depth else ():
        match value:
            case Lazy():
                if _may_be_one(value.obj):
                    return True
            case Object(cls, source, obj):
                if issubclass(cls, torch.Tensor):
                    return True
                if cls is list and (_may_be_one(obj) if source else vm.has_subclasses):
                    return True
            case Tuple(items):
                if may_be_among(vm, items, depth - 1):
                    return True
    return False


def has_torchs(vm: VM, value: Value, *names: str) -> bool:
    """Whether a value is a tensor of a subclass that has methods of torch's as they are."""
    if not isinstance(value, Object) or not issubclass(value.cls, torch.Tensor):
        return False
    return classes.inherits(vm, value.cls, torch.Tensor, *names)


def unheard(vm: VM, value: Object) -> Tensor | None:
    """The plain tensor for the truth of one of a subclass, if no code of the program's hears of
    that."""
    if not has_torchs(vm, value, "__bool__"):
        return None
    if _overrides(vm, value.cls) and not has_torchs(vm, value, _HANDLER):
        return None
    return plain(vm, value)


# Where torch would ask


def of_call(vm: VM, function: Any, args: Args, kwargs: Kwargs, *, by_row: bool) -> Value | None:
    """What a call of a function of torch's with tensors of subclasses gives; None without any."""
    if overheard.is_silent(function):
        return None
    told = overheard.is_told(function)
    if not told and not overheard.may_tell(function, by_row=by_row):
        return None
    given = among(vm, (*args, *kwargs.values()))
    if not given:
        return None
    if not told:
        vm.stop(reasons.UNUSUAL_TENSOR, f"{function.__name__} of a {given[0].cls.__qualname__}")
    return _of(vm, function, args, kwargs, given)


def of_op(vm: VM, target: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """The same of an operator, or of an op that stands for something else."""
    given = among(vm, (*args, *kwargs.values()))
    if not given:
        return None
    if isinstance(target, str) or target.__module__ not in ("_operator", "builtins"):
        name = target if isinstance(target, str) else target.__name__
        vm.stop(reasons.UNUSUAL_TENSOR, f"what comes to {name} of a {given[0].cls.__qualname__}")
    return _of(vm, target, args, kwargs, given)


def of_python(vm: VM, args: Args, kwargs: Kwargs) -> Value:
    """The same of a function of torch's in Python, which hands its call over itself."""
    given = among(vm, (*args[1:], *kwargs.values()))
    result = _heard(vm, handle_torch_function, args, kwargs, given)
    if result is None:
        vm.stop(reasons.UNUSUAL_TENSOR, "handle_torch_function() of what overrides nothing")
    return result


def are_asked(vm: VM, values: Iterable[Value]) -> bool:
    """Whether one of these has a `__torch_function__` that a function in Python has to ask."""
    return vm.asks_subclasses and any(_overrides(vm, each.cls) for each in among(vm, values))


def attribute(vm: VM, value: Object, name: str) -> Value | None:
    """`value.name`, where that is an attribute of torch's; None where the general rules apply."""
    found = classes.lookup(vm, value.cls, name)
    if found is ABSENT or found is not static_lookup(torch.Tensor, name):
        return None
    is_read = isinstance(found, property | types.GetSetDescriptorType)
    if not is_read or name in ("__class__", "__dict__"):
        return None
    return _of(vm, getattr, (value, Constant(name)), {}, [value])


def _of(vm: VM, function: Any, args: Args, kwargs: Kwargs, given: list[Object]) -> Value:
    if vm.function_modes:
        vm.stop(reasons.UNUSUAL_TENSOR, "a tensor of a subclass under a torch-function mode")
    if vm.asks_subclasses and any(_overrides(vm, each.cls) for each in given):
        result = _heard(vm, function, args, kwargs, given)
        if result is not None:
            return result
    return _with_plain(vm, function, args, kwargs, given)


def _overrides(vm: VM, cls: type) -> bool:
    """Whether torch asks a class, as it does all but those that say that they are plain."""
    return classes.lookup(vm, cls, "__torch_function__") is not modes.NO_FUNCTION.get()


# What a `__torch_function__` is given


def _heard(vm: VM, function: Any, args: Args, kwargs: Kwargs, given: list[Object]) -> Value | None:
    """What the classes make of a call; None where torch asks none of them."""
    listeners: dict[type, type] = {}
    told = overheard.told(
        vm, function, args, kwargs, listener=lambda value: _standing(vm, value, listeners)
    )
    if told is None:
        return None
    real = {listener: cls for cls, listener in listeners.items()}
    asked = [real.get(each, each) for each in told.classes]  # in Python also torch.Tensor is asked
    for cls in asked:
        handler = vm.attribute(vm.trusted(cls), _HANDLER)
        result = vm.look(vm.call(handler, told.given(vm, tuple(asked)), {}))
        if not isinstance(result, Constant) or result.value is not NotImplemented:
            return result
    vm.stop(reasons.RAISES, f"no __torch_function__ implements {told.function}")


_HANDLER = "__torch_function__"


def _standing(vm: VM, value: Object, listeners: dict[type, type]) -> torch.Tensor:
    """What stands for a tensor of a subclass where torch is asked."""
    made = overheard.without_data(vm, dispatched.facts(vm, value))
    if not _overrides(vm, value.cls):
        return made
    stands: torch.Tensor = made.detach().as_subclass(_listener(vm, value.cls, listeners))
    return stands


def _listener(vm: VM, cls: type, listeners: dict[type, type]) -> type[Any]:
    """A class that listens in the place of another one: which of two is asked first depends on
    which derives from which."""
    if cls not in listeners:
        bases = classes.bases(vm, cls)[1:]
        nearest = [b for b in bases if issubclass(b, torch.Tensor) and b not in plain_classes()]
        above = next((_listener(vm, base, listeners) for base in nearest), torch.Tensor)
        listeners[cls] = type(cls.__name__, (above,), {_HANDLER: classmethod(_listen)})
    return listeners[cls]


def _listen(cls: type, *told: Any) -> Any:
    raise overheard.Heard(told)


# What torch does itself


def plain(vm: VM, value: Object) -> Tensor | None:
    """The plain tensor that has an object's memory; None where it is wrapped around others."""
    inner = vm.heap.read(value, "content")
    return inner if isinstance(inner, Tensor) else None


def _with_plain(vm: VM, function: Any, args: Args, kwargs: Kwargs, given: list[Object]) -> Value:
    """What torch makes of a call where it asks no class."""
    name = torch_calls.real_methods().get(function) if function is not getattr else None
    if name is not None and torch_calls.REAL_METHODS[name] == "use" and name not in _ALIASING:
        vm.stop(reasons.TENSOR_USE, f"{name} of a {given[0].cls.__qualname__}")
    read = _attribute_read(vm, function, args)
    if read is not None and read not in _ATTRIBUTES:
        vm.stop(reasons.TENSOR_USE, f".{read} of a {given[0].cls.__qualname__}")
    found = {each: plain(vm, each) for each in given}
    inner = {each: tensor for each, tensor in found.items() if tensor is not None}
    if len(inner) < len(found):
        return dispatched.call(vm, function, args, kwargs)
    if read is not None:
        result = vm.attribute(inner[given[0]], read)
    else:
        plain_args = tuple(_replaced(vm, each, inner) for each in args)
        named = {key: _replaced(vm, each, inner) for key, each in kwargs.items()}
        result = vm.call(vm.trusted(function), plain_args, named)
    return _given_back(vm, result, {tensor: each for each, tensor in inner.items()})


_ALIASING = frozenset({"as_subclass"})

_ATTRIBUTES = frozenset(
    """
    shape dtype device ndim layout itemsize nbytes requires_grad T mT H mH real imag is_sparse
    is_quantized is_nested is_mkldnn is_cpu is_cuda is_meta
    """.split()
)
"""Those that a plain tensor with the same memory has alike. It has no history, and no gradient."""


def _attribute_read(vm: VM, function: Any, args: Args) -> str | None:
    """The name of the attribute that a call reads, if it does."""
    if function is getattr:
        name = vm.look(args[1])
        assert isinstance(name, Constant)
        return str(name.value)
    if isinstance(function, types.MethodWrapperType):
        return str(getattr(function.__self__, "__name__", ""))
    return None


def _replaced(vm: VM, value: Value, inner: Mapping[Object, Tensor], depth: int = _DEPTH) -> Value:
    if not depth:
        return value
    if isinstance(value, Lazy) and _may_be_one(value.obj):
        value = vm.look(value)
    match value:
        case Object() if value in inner:
            return inner[value]
        case Object(cls) if cls is list:
            items = containers.list_items(vm, value)
            new = [_replaced(vm, each, inner, depth - 1) for each in items]
            return value if new == list(items) else vm.new_list(new)
        case Tuple(items, cls):
            changed = tuple(_replaced(vm, each, inner, depth - 1) for each in items)
            return value if changed == items else Tuple(changed, cls)
    return value


def _given_back(vm: VM, result: Value, objects: Mapping[Tensor, Object]) -> Value:
    """A result, in which what torch returns as it was given is the object again."""
    match result:
        case Tensor() if result in objects:
            return objects[result]
        case Tuple(items, cls):
            changed = tuple(_given_back(vm, each, objects) for each in items)
            return result if changed == items else Tuple(changed, cls)
        case Object(cls) if cls is list and any(
            each in objects for each in containers.list_items(vm, result)
        ):
            vm.stop(reasons.UNUSUAL_TENSOR, "a list in which torch returns what it was given")
    return result


@contextmanager
def unasked(vm: VM) -> Iterator[None]:
    """Inside, no class is asked."""
    before, vm.asks_subclasses = vm.asks_subclasses, False
    try:
        yield
    finally:
        vm.asks_subclasses = before


def by_default(
    vm: VM, cls: Value, function: Value, types_: Value, args: Value, kwargs: Value
) -> Value:
    """`torch.Tensor.__torch_function__`: torch's own result, as an instance of the class."""
    known = class_in(vm.look(cls))
    told = [class_in(vm.look(each)) for each in vm.unpack(types_)]
    if known is None or None in told:
        vm.stop(reasons.RAISES, "__torch_function__ of what are no classes")
    if not all(classes.derives(vm, known, each) for each in told if each is not None):
        return Constant(NotImplemented)
    result = without_asking(vm, function, args, kwargs)
    target = vm.look(function)
    if isinstance(target, Known) and target.obj in get_default_nowrap_functions():
        return result
    with unasked(vm):
        return result if known is torch.Tensor else _converted(vm, vm.glance(result), known)


def without_asking(vm: VM, function: Value, args: Value, kwargs: Value) -> Value:
    """A call that no class is asked about."""
    with unasked(vm):
        named = {} if vm.same(kwargs, NONE) else dict(construction.keyword_items(vm, kwargs))
        return vm.call(function, tuple(vm.unpack(args)), named)


def _converted(vm: VM, result: Value, cls: type) -> Value:
    match result:
        case Tensor():
            return as_subclass(vm, result, cls)
        case Object(own) if issubclass(own, torch.Tensor):
            if classes.derives(vm, own, cls):
                return result
            inner = plain(vm, result)
            if inner is None:
                vm.stop(reasons.UNUSUAL_TENSOR, f"a {own.__qualname__} as a {cls.__qualname__}")
            return as_subclass(vm, inner, cls)
        case Object(own) if own is list:
            items = containers.list_items(vm, result)
            return vm.new_list([_converted(vm, vm.glance(each), cls) for each in items])
        case Tuple(items, own):
            return Tuple(tuple(_converted(vm, vm.glance(each), cls) for each in items), own)
    return result


def wrapper(vm: VM, cls: type, args: Args, kwargs: Kwargs) -> Object:
    """`torch.Tensor._make_wrapper_subclass(cls, ...)`"""
    if not _is_understood(vm, cls):
        vm.stop(reasons.UNUSUAL_TENSOR, f"a tensor subclass, {cls.__qualname__}")
    vm.has_subclasses = True
    return dispatched.wrapper(vm, cls, args, kwargs)


def as_subclass(vm: VM, tensor: Tensor, cls: type) -> Value:
    """`tensor.as_subclass(cls)`: another tensor with the same memory, and the same history."""
    alias = vm.op("view_as", (tensor, tensor))
    assert isinstance(alias, Tensor)
    if cls is torch.Tensor:
        return alias
    made = of_memory(vm, alias, cls)
    vm.heap.write(made, "shared", True)
    return made


def of_memory(vm: VM, tensor: Tensor, cls: type) -> Object:
    """A tensor of a subclass that has the memory of a plain one, which nobody else knows."""
    if cls in plain_classes() or not (_is_understood(vm, cls) and _has_memory(vm, cls)):
        vm.stop(reasons.UNUSUAL_TENSOR, f"a tensor subclass, {cls.__qualname__}")
    made = Object(cls)
    vm.heap.write(made, "content", tensor)
    vm.has_subclasses = True
    return made
