"""Functions in C, mostly of the standard library, by the polyfills that stand for them."""

from __future__ import annotations

import builtins
import collections
import copy
import copyreg
import functools
import importlib
import inspect
import itertools
import operator
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.guards.kinds import ABSENT
from jitpkg.internals import modes, ops
from jitpkg.tracer import (
    classes,
    construction,
    containers,
    copied_tensors,
    namespaces,
    reasons,
)
from jitpkg.tracer.polyfills import (
    builtin_functions,
    contexts,
    copying,
    itertools_functions,
    operator_functions,
    optimizers,
    pure,
    torch_functions,
)
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import (
    NONE,
    Constant,
    Function,
    Generator,
    Known,
    Method,
    Object,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM

TABLE = CallTable()


def by_polyfill(real: object, polyfill: Callable[..., Any]) -> None:
    """Calling `real` is calling `polyfill`; a generator that comes of it passes for a `real`."""

    def row(vm: VM, *args: Value, **kwargs: Value) -> Value:
        result = vm.call(vm.trusted(polyfill), args, kwargs)
        if isinstance(result, Generator) and isinstance(real, type):
            result.cls = real
        return result

    TABLE.add(real, row)


def _accelerated(module: str, accelerator: str) -> Mapping[object, Callable[..., Any]]:
    """Functions in C, and those in Python that a module has in their place where C is missing."""
    in_python = pure.functions(module, accelerator)
    return {
        function: in_python[name]
        for name, function in vars(importlib.import_module(accelerator)).items()
        if isinstance(function, types.BuiltinFunctionType) and name in in_python
    }


POLYFILLS: Mapping[object, Callable[..., Any]] = MappingProxyType(
    {
        any: builtin_functions.any_,
        all: builtin_functions.all_,
        min: builtin_functions.min_,
        max: builtin_functions.max_,
        functools.reduce: builtin_functions.reduce,
        type.__repr__: builtin_functions.type_repr,
        vars(itertools.chain)["from_iterable"]: itertools_functions.from_iterable,
        functools.cached_property.__get__: operator_functions.cached_property_get,
        functools.cmp_to_key: operator_functions.cmp_to_key,
        inspect.unwrap: operator_functions.unwrap,
        copy.deepcopy: copying.deepcopy,
        collections._count_elements: copying.count_elements,  # type: ignore[attr-defined]
        torch.ops.aten.sym_size.int: torch_functions.sym_size,
        torch.ops.aten.sym_stride.int: torch_functions.sym_stride,
        torch.ops.aten.sym_numel.default: torch_functions.sym_numel,
        ops.GROUP_TENSORS: optimizers.group_by_device_and_dtype,
        ops.ASSERT_SCALAR: torch_functions.assert_scalar,
        modes.INFERENCE_MODE: contexts.InferenceMode,
        modes.WITHOUT_SUBCLASSES: contexts.WithoutSubclasses,
        **_accelerated("heapq", "_heapq"),
        **_accelerated("bisect", "_bisect"),
        **{
            getattr(itertools, name): getattr(itertools_functions, name)
            for name in """
            accumulate batched chain combinations combinations_with_replacement compress count cycle
            dropwhile filterfalse groupby islice pairwise permutations product repeat starmap
            takewhile tee zip_longest
            """.split()
            if hasattr(itertools, name)
        },
    }
)

for _real, _polyfill in POLYFILLS.items():
    by_polyfill(_real, _polyfill)


@TABLE.row(importlib.import_module)
def import_module(vm: VM, name: Value, package: Value = NONE, /) -> Value:
    """Of a module that is loaded already; importing runs its code, which is a break."""
    return namespaces.loaded(vm, _module_name(vm, name))


@TABLE.row(builtins.__import__)
def import_(
    vm: VM,
    name: Value,
    globals_: Value = NONE,
    locals_: Value = NONE,
    fromlist: Value = NONE,
    level: Value = NONE,
    /,
) -> Value:
    """The same, or the package in which it is."""
    if level is not NONE:
        vm.stop(reasons.STATEMENT, "__import__() with a level")
    text = _module_name(vm, name)
    module = namespaces.loaded(vm, text)
    return module if vm.truth(fromlist) else namespaces.loaded(vm, text.partition(".")[0])


def _module_name(vm: VM, name: Value) -> str:
    known = vm.look(name)
    if isinstance(known, Constant) and isinstance(known.value, str):
        return known.value
    vm.stop(reasons.RAISES, "an import of what has no name")


# Callables that are made from arguments, of which nothing else is known


def _made_from_arguments(cls: type) -> Callable[..., Value]:
    def row(vm: VM, *args: Value, **kwargs: Value) -> Value:
        return construction.from_arguments(vm, cls, args, kwargs)

    return row


for _cls in construction.FROM_ARGUMENTS:
    TABLE.add(_cls, _made_from_arguments(_cls))


@TABLE.row(types.MethodType)
def method(vm: VM, function: Value, receiver: Value, /) -> Value:
    function = vm.look(function)
    if isinstance(function, Function) or (
        isinstance(function, Known) and isinstance(function.obj, types.FunctionType)
    ):
        return Method(function, receiver)
    vm.stop(reasons.UNSUPPORTED, "a bound method of something that is no function")


@TABLE.row(types.FunctionType.__get__)
def bind(vm: VM, function: Value, receiver: Value, owner: Value | None = None, /) -> Value:
    receiver = vm.look(receiver)
    if isinstance(receiver, Constant) and receiver.value is None:
        return function
    return method(vm, function, receiver)


@TABLE.row(types.MappingProxyType)
def mapping_proxy(vm: VM, mapping: Value, /) -> Value:
    mapping = vm.look(mapping)
    if not isinstance(mapping, Object) or not issubclass(mapping.cls, dict):
        vm.stop(reasons.UNSUPPORTED, "a mapping proxy of something that is no dict")
    made = Object(types.MappingProxyType)
    vm.heap.write(made, "content", mapping)
    return made


@TABLE.row(types.SimpleNamespace)
def simple_namespace(vm: VM, *args: Value, **kwargs: Value) -> Value:
    """From 3.13 on it takes a mapping, too."""
    if args:
        vm.stop(reasons.UNSUPPORTED, "SimpleNamespace() of a mapping")
    made = Object(types.SimpleNamespace)
    vm.heap.write(made, "attributes", dict(kwargs))
    return made


@TABLE.row(copying.real_deepcopy)
def real_deepcopy(vm: VM, value: Value, memo: Value, /) -> Value:
    vm.stop(reasons.FOREIGN_CALL, f"copy.deepcopy() of a {vm.class_of(value).__qualname__}")


TABLE.add(copying.copied_storage, copied_tensors.storage)
TABLE.add(copying.own_attributes, copied_tensors.attributes)


@TABLE.row(object.__reduce_ex__)
def reduce_ex(vm: VM, value: Value, protocol: Value, /) -> Value:
    """Of an object whose state is its dictionary, or what its `__getstate__` returns."""
    value = vm.look(value)
    cls = vm.class_of(value)
    plain = isinstance(value, Object) and containers.base_class(cls) is None
    special = ("__reduce__", "__getnewargs__", "__getnewargs_ex__")
    if not plain or issubclass(cls, BaseException) or not cls.__dictoffset__:
        vm.stop(reasons.UNSUPPORTED, f"a copy of a {cls.__qualname__}")
    if not classes.inherits(vm, cls, object, *special) or _has_slots(cls):
        vm.stop(reasons.UNSUPPORTED, f"a copy of a {cls.__qualname__}")
    made = _state(vm, value, cls)
    return Tuple((vm.trusted(copyreg.__newobj__), Tuple((vm.trusted(cls),)), made, NONE, NONE))  # type: ignore[attr-defined]


def _state(vm: VM, value: Value, cls: type) -> Value:
    """`value.__getstate__()`"""
    found = classes.lookup(vm, cls, "__getstate__")
    if isinstance(found, types.FunctionType):
        return vm.call(vm.attribute(value, "__getstate__"), ())
    if found is not vars(object).get("__getstate__", ABSENT):
        vm.stop(reasons.UNSUPPORTED, f"a copy of a {cls.__qualname__}")
    state = containers.mapping_items(vm, vm.attribute(value, "__dict__"))
    return vm.new_dict(state) if state else NONE


def _has_slots(cls: type) -> bool:
    return any(classes.namespace(base).get("__slots__") for base in classes.mro(cls))


@TABLE.row(copyreg.__newobj__)  # type: ignore[attr-defined]
def newobj(vm: VM, cls: Value, /, *args: Value) -> Value:
    return vm.call(vm.attribute(cls, "__new__"), (cls, *args))


@TABLE.row(operator.length_hint)
def length_hint(vm: VM, value: Value, default: Value | None = None, /) -> Value:
    vm.stop(reasons.UNSUPPORTED, "operator.length_hint()")


@TABLE.row(operator.call)
def call(vm: VM, function: Value, /, *args: Value, **kwargs: Value) -> Value:
    return vm.call(function, args, kwargs)
