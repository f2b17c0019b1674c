"""The standard library's functions in C, by the polyfills that stand for them."""

from __future__ import annotations

import functools
import itertools
import operator
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from jitpkg.tracer import construction, reasons
from jitpkg.tracer.polyfills import builtin_functions, itertools_functions, operator_functions
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import Function, Generator, Known, Method, Object, Value
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


POLYFILLS: Mapping[object, Callable[..., Any]] = MappingProxyType(
    {
        any: builtin_functions.any_,
        all: builtin_functions.all_,
        min: builtin_functions.min_,
        max: builtin_functions.max_,
        functools.reduce: builtin_functions.reduce,
        vars(itertools.chain)["from_iterable"]: itertools_functions.from_iterable,
        functools.cached_property.__get__: operator_functions.cached_property_get,
        functools.cmp_to_key: operator_functions.cmp_to_key,
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


@TABLE.row(operator.length_hint)
def length_hint(vm: VM, value: Value, default: Value | None = None, /) -> Value:
    vm.stop(reasons.UNSUPPORTED, "operator.length_hint()")


@TABLE.row(operator.call)
def call(vm: VM, function: Value, /, *args: Value, **kwargs: Value) -> Value:
    return vm.call(function, args, kwargs)
