"""Calls of functions that the program has marked: see `jitpkg.marks`.

Marks made by torch.compiler count, too, as far as they can be read: `assume_constant_result` and
`disable` leave an attribute, `allow_in_graph` a number in a set of torch's compiler, which is
looked at where the program has loaded it.
"""

from __future__ import annotations

from types import FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

import torch

from jitpkg.guards.sources import Held
from jitpkg.internals import library
from jitpkg.interrupts import from_outside
from jitpkg.marks import Mark, mark_of
from jitpkg.tracer import reasons, tensors
from jitpkg.tracer.look import BY_IDENTITY, BY_VALUE
from jitpkg.tracer.torch_calls import is_graph_function, tensor_methods
from jitpkg.tracer.values import Constant, Known, Object, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Kwargs


def call(vm: VM, function: Known, args: Args, kwargs: Kwargs) -> Value | None:
    """What a call of a marked function means; None where it has no mark."""
    mark = _mark(function.obj)
    if mark is None or (mark == "in graph" and _is_op(function.obj)):
        return None
    vm.identify(function)
    if mark == "in graph":
        return _in_graph(vm, function.obj, args, kwargs)
    if mark == "constant":
        return constant(vm, function, args, kwargs)
    vm.stop(reasons.DISABLED, _name(function.obj))


def stop_at(vm: VM, obj: object) -> None:
    """End the trace at a call of an object that is to be called for real."""
    if mark_of(obj) == "for real":
        vm.stop(reasons.DISABLED, type(obj).__qualname__)


def is_allowed(function: object) -> bool:
    """Whether its calls are to be in the graph as they are."""
    return _mark(function) == "in graph"


def _mark(function: Any) -> Mark | None:
    mark = mark_of(function)
    if mark is not None:
        return mark
    if isinstance(function, FunctionType) and library.is_constant(function):
        return "constant"
    if isinstance(function, FunctionType | type) and not _is_torch_s(function):
        return "in graph" if library.is_allowed(function) else None
    return None


def _is_op(function: Any) -> bool:
    """Whether it would be in the graph without a mark."""
    return is_graph_function(function) or (
        isinstance(function, FunctionType | MethodDescriptorType | WrapperDescriptorType)
        and function in tensor_methods()
    )


def _is_torch_s(function: FunctionType | type) -> bool:
    return (function.__module__ or "").partition(".")[0] in ("torch", "builtins", "numpy")


def _name(function: Any) -> str:
    return f"{getattr(function, '__module__', None) or ''}.{function.__qualname__}".lstrip(".")


def _in_graph(vm: VM, function: Any, args: Args, kwargs: Kwargs) -> Value:
    return tensors.op(vm, function, args, kwargs, opaque=True)


def constant(vm: VM, called: Known, args: Args, kwargs: Kwargs) -> Value:
    """Call it: the one place where tracing runs code of the program's, which asks for it."""
    function: Any = called.obj
    real_args = [_real(vm, value) for value in args]
    real_kwargs = {name: _real(vm, value) for name, value in kwargs.items()}
    try:
        result = function(*real_args, **real_kwargs)
    except Exception as error:
        if from_outside(error):
            raise
        vm.stop(reasons.RAISES, f"{_name(function)} raises {type(error).__name__}")
    source = Held(result)
    if isinstance(result, BY_IDENTITY) or type(result) in BY_VALUE:
        return Constant(result, source)
    return vm.wrap(result, source)


def _real(vm: VM, value: Value) -> object:
    """The object that a value stands for, which the trace has not changed."""
    value = vm.look(value)
    match value:
        case Constant():
            return value.value
        case Known():
            return value.obj
        case Tuple(items, cls) if cls in (tuple, torch.Size):
            members: list[Any] = [_real(vm, item) for item in items]
            return cls(members)
        case Object() if value.source is not None and not vm.effects and not vm.mutations:
            return value.obj
        case Tensor() if value.source is not None and not vm.mutations:
            found = (i.example for i in vm.graph.inputs if i.node is value.node)
            example = next(found, None)
            if example is not None:
                return example
    kind = vm.class_of(value).__qualname__
    vm.stop(reasons.UNSUPPORTED, f"a constant result of a {kind} that was made or changed here")
